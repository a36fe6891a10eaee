#include "ops/cuda/conv_chain_candidate.h"

#include <algorithm>

#include "ops/cpu/conv/conv_chain.h"
#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/conv_candidates.h"
#include "ops/cuda/conv_chain.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/plans.h"
#include "ops/cuda/window_candidates.h"
#include "tensor/finite.h"

namespace sparkpilot::cuda {
namespace {

struct State : KernelState {
  const GpuFunction *function = nullptr, *sum = nullptr;
  GpuLaunch launch;
  std::vector<std::shared_ptr<Buffer>> memory;
  sparkpilot::Epilogue between, last;
  ConvChainArguments arguments{};
};

sparkpilot::Epilogue epilogue_of(const Problem& p, const ConvChain& chain, size_t i) {
  const ConvShape& s = chain.shape[i];
  return sparkpilot::Epilogue::parse(p.attrs().texts(stage_epilogue(i)), p.inputs, s.output(), s.out_channels);
}

Acceptance accepts(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  if (dtype != DType::f16 && dtype != DType::bf16) return "an image of 32 bits";
  const ConvChain chain = ConvChain::of(p);
  if (chain.stages != 2) return "three stages";
  if (p.attrs().integer("x_channels_first", 0) != 0) return "channels come first";
  for (const TensorType* type : {&p.inputs[0], &p.outputs[0]}) {
    if (const Acceptance takes = takes_elements(type->shape); !takes) return takes;
  }
  for (size_t i = 0; i < chain.stages; ++i) {
    const size_t weights = ConvChain::weights_input(i), bias = ConvChain::bias_input(i);
    if (!p.is_constant(weights)) return "weights are not constant";
    if (p.inputs[weights].dtype != dtype) return "weights of another type";
    // They are multiplied by the zeros beyond the image's border and the last channel.
    if (!all_finite(p.constants[weights].view())) return "weights are not finite";
    if (p.has(bias) && !p.is_constant(bias)) return "bias is not constant";
    if (const Acceptance takes = takes_window(chain.shape[i].window); !takes) return takes;
    if (const Acceptance takes = takes_epilogue(epilogue_of(p, chain, i)); !takes) return takes;
  }
  if (!conv_chain_accepts(conv_sizes(chain.depthwise()), conv_sizes(chain.last()), storage_of(dtype)))
    return "channels in no whole pieces of 16 bytes, or too large";
  return true;
}

// Uploads a stage's weights, as `pack` writes them, and bias.
template <typename Pack>
void prepare_stage(const Problem& p, size_t i, size_t bytes, const Pack& pack, State& state, ConvArguments& arguments) {
  const size_t weights = ConvChain::weights_input(i), bias = ConvChain::bias_input(i);
  std::vector<std::byte> packed(bytes);
  pack(p.constants[weights].raw(), packed.data());
  state.memory.push_back(p.gpu->upload(packed.data(), static_cast<int64_t>(bytes)));
  arguments.weights = state.memory.back()->data();
  state.consumed |= uint64_t{1} << weights;
  if (!p.has(bias)) return;
  const Tensor values = convert(p.constants[bias], DType::f32);
  state.memory.push_back(p.gpu->upload(values.raw(), values.bytes()));
  arguments.bias = reinterpret_cast<const float*>(state.memory.back()->data());
  state.consumed |= uint64_t{1} << bias;
}

std::vector<std::string> variants(const Problem& p) {
  const ConvChain chain = ConvChain::of(p);
  return variants_of(
      conv_chain_plans(conv_sizes(chain.depthwise()), conv_sizes(chain.last()), p.gpu->facts().multiprocessors));
}

void take_variant(const Problem& p, std::string_view variant, KernelState& prepared) {
  auto& state = static_cast<State&>(prepared);
  ConvArguments& last = state.arguments.last;
  const ConvChainPlan plan =
      plan_of(conv_chain_plans(state.arguments.depthwise.size, last.size, p.gpu->facts().multiprocessors), variant);
  const DType dtype = p.inputs[0].dtype;
  last.splits = plan.splits;
  state.sum = plan.splits > 1 ? &kernel_on(*p.gpu, "conv_sum_" + std::string(*storage_suffix(dtype))) : nullptr;
  state.workspace = static_cast<int64_t>(plan.partial_bytes(last.size));
  state.launch = plan.launch(last.size);
  state.function = &kernel_on(*p.gpu, plan.kernel(storage_of(dtype)), static_cast<int64_t>(state.launch.shared_bytes));
}

std::unique_ptr<KernelState> prepare(const Problem& p) {
  const ConvChain chain = ConvChain::of(p);
  const Storage storage = storage_of(p.inputs[0].dtype);
  auto state = std::make_unique<State>();
  ConvArguments &depthwise = state->arguments.depthwise, &last = state->arguments.last;
  depthwise.size = conv_sizes(chain.depthwise());
  last.size = conv_sizes(chain.last());
  prepare_stage(
      p, 0, grouped_weight_bytes(depthwise.size, storage),
      [&](const void* from, void* to) { pack_grouped_weights(depthwise.size, storage, from, to); }, *state, depthwise);
  prepare_stage(
      p, 1, conv_weight_bytes(last.size, storage),
      [&](const void* from, void* to) { pack_conv_weights(last.size, storage, from, to); }, *state, last);
  state->between = epilogue_of(p, chain, 0);
  state->last = epilogue_of(p, chain, 1);
  take_variant(p, {}, *state);
  return state;
}

void run(const Call& c) {
  const auto& state = c.as<State>();
  ConvChainArguments arguments = state.arguments;
  arguments.depthwise.x = c.inputs[0].data;
  arguments.depthwise.epilogue = bound_epilogue(state.between, c, arguments.depthwise.size.out_channels);
  arguments.last.y = c.outputs[0].data;
  arguments.last.partial = reinterpret_cast<float*>(c.workspace);
  arguments.last.epilogue = bound_epilogue(state.last, c, arguments.last.size.out_channels);
  c.stream->launch(*state.function, state.launch, arguments);
  if (state.sum) c.stream->launch(*state.sum, conv_sum_launch(arguments.last.size), arguments.last);
}

}  // namespace

constinit const Kernel kConvChain[1] = {{.name = "pair",
                                         .accepts = accepts,
                                         .prepare = prepare,
                                         .run = run,
                                         .variants = variants,
                                         .take_variant = take_variant}};

}  // namespace sparkpilot::cuda
