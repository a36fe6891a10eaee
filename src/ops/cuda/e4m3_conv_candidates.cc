#include "ops/cuda/e4m3_conv_candidates.h"

#include "ops/cpu/vector/epilogue.h"
#include "ops/cuda/byte_conv_candidates.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/e4m3_conv.h"
#include "ops/cuda/e4m3_gemm.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/product_weights.h"
#include "tensor/gpu.h"

namespace sparkpilot::cuda {
namespace {

using In = ScaledConvInputs;

struct State : KernelState {
  const GpuFunction* function = nullptr;
  std::shared_ptr<Buffer> codes, scales, bias;
  sparkpilot::Epilogue epilogue;
  E4m3ConvArguments arguments{};
};

ConvShape shape_of(const Problem& p) { return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true); }

Acceptance accepts(const Problem& p) {
  if (p.attrs().integer("channels_last", 0) == 0) return "channels first";
  if (!p.is_constant(In::kCodes) || !p.is_constant(In::kScale)) return "weights are not constant";
  if (p.has(In::kBias) && !p.is_constant(In::kBias)) return "the bias is not constant";
  const ConvShape s = shape_of(p);
  if (s.groups != 1) return "groups";
  if (Acceptance window = takes_window(s.window); !window) return window;
  for (const Shape* each : {&p.inputs[0].shape, &p.outputs[0].shape}) {
    if (Acceptance elements = takes_elements(*each); !elements) return elements;
  }
  if (s.weights() == 0 || p.outputs[0].shape.elements() == 0) return "empty";
  if (s.batch * s.window.out_size() > most_byte_conv_pixels(static_cast<int>(s.weights() / s.out_channels)))
    return "more pixels than a launch has blocks for";
  return takes_epilogue(sparkpilot::Epilogue::of(p, s.out_channels));
}

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  const ConvShape s = shape_of(p);
  const bool decoded = p.gpu->facts().capability < 89;
  E4m3ConvArguments& to = state->arguments;
  set_byte_conv(s, to);
  const std::vector<uint8_t> rows =
      byte_conv_rows(s, static_cast<const uint8_t*>(p.constants[In::kCodes].raw()), to.code_bytes);
  state->codes = p.gpu->upload(rows.data(), static_cast<int64_t>(rows.size()));
  to.codes = reinterpret_cast<const uint8_t*>(state->codes->data());
  state->scales =
      upload_scales(*p.gpu, p.constants[In::kScale].data<float>(), s.out_channels, e4m3_gemm_factor(decoded));
  to.scales = reinterpret_cast<const float*>(state->scales->data());
  if (p.has(In::kBias)) {
    const Tensor bias = convert(p.constants[In::kBias], DType::f32);
    state->bias = p.gpu->upload(bias.raw(), bias.bytes());
    to.bias = reinterpret_cast<const float*>(state->bias->data());
  }
  for (const int input : {In::kCodes, In::kScale, In::kBias}) state->consumed |= uint64_t{1} << input;
  to.storage = storage_of(p.outputs[0].dtype);
  state->epilogue = sparkpilot::Epilogue::of(p, s.out_channels);
  state->function = &kernel_on(*p.gpu, fmt::format("e4m3_conv_{}{}_{}", decoded ? "decoded_" : "",
                                                   byte_conv_unit(to.size), byte_conv_pixels(to.k)));
  return state;
}

void run(const Call& call) {
  const auto& state = call.as<State>();
  E4m3ConvArguments arguments = state.arguments;
  arguments.a = static_cast<const uint8_t*>(call.inputs[0].data);
  arguments.y = call.outputs[0].data;
  arguments.epilogue = bound_epilogue(state.epilogue, call, arguments.n);
  call.stream->launch(*state.function, byte_conv_launch(arguments.m, arguments.n, arguments.k), arguments);
}

}  // namespace

constinit const Kernel kScaledConv[1] = {{.name = "codes", .accepts = accepts, .prepare = prepare, .run = run}};

}  // namespace sparkpilot::cuda
