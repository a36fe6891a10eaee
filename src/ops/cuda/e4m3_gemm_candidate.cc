#include "ops/cuda/e4m3_gemm_candidate.h"

#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/gemm_small.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/e4m3_gemm.h"
#include "ops/cuda/host_epilogue.h"
#include "tensor/gpu.h"

namespace sparkpilot::cuda {
namespace {

using In = ScaledGemmInputs;

constexpr int64_t kMostSize = int64_t{1} << 30;

struct State : KernelState {
  const GpuFunction* function = nullptr;
  std::shared_ptr<Buffer> codes, scales, bias;
  int c = -1;  // the input that is the bias, if that is not constant
  sparkpilot::Epilogue epilogue;
  E4m3GemmArguments arguments{};
};

}  // namespace

std::shared_ptr<Buffer> upload_byte_rows(GpuDevice& gpu, const uint8_t* weights, const MatMulShape& s) {
  const int64_t depth = byte_gemm_depth(s.k);
  std::vector<uint8_t> rows(static_cast<size_t>(s.n * depth));
  parallel_for(s.n, std::max<int64_t>(1, (1 << 16) / s.k), [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      for (int64_t l = 0; l < s.k; ++l) rows[static_cast<size_t>(j * depth + l)] = weights[l * s.b_row + j * s.b_col];
    }
  });
  return gpu.upload(rows.data(), static_cast<int64_t>(rows.size()));
}

Acceptance coded_product_accepts(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  if (p.inputs[0].dtype != DType::f8e4m3fn) return fmt::format("{} activations", name(p.inputs[0].dtype));
  if (p.inputs[In::kCodes].dtype != DType::f8e4m3fn) return fmt::format("{} weights", name(p.inputs[In::kCodes].dtype));
  if (!p.is_constant(In::kCodes) || !p.is_constant(In::kScale)) return "weights are not constant";
  if (s.empty()) return "empty";
  if (std::max({s.m, s.n, s.k}) >= kMostSize) return "more than 2^30 rows or columns";
  if (args.c >= 0 && !p.is_constant(static_cast<size_t>(args.c)) &&
      p.inputs[static_cast<size_t>(args.c)].dtype != DType::f32)
    return "bias is not constant, and not f32";
  return takes_epilogue(args.epilogue);
}

std::unique_ptr<KernelState> coded_product_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<State>();
  state->epilogue = args.epilogue;
  const bool decoded = p.gpu->facts().capability < 89;
  state->codes = upload_byte_rows(*p.gpu, static_cast<const uint8_t*>(p.constants[In::kCodes].raw()), s);
  const std::span<const float> scale = p.constants[In::kScale].data<float>();
  std::vector<float> scales(static_cast<size_t>(s.n));
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = scale[scale.size() > 1 ? i : 0] * e4m3_gemm_factor(decoded);
  state->scales = p.gpu->upload(scales.data(), s.n * 4);
  state->consumed |= uint64_t{1} << In::kCodes | uint64_t{1} << In::kScale;
  if (args.c >= 0 && p.is_constant(static_cast<size_t>(args.c))) {
    const Tensor bias = pack_c(p, args, state->consumed);
    state->bias = p.gpu->upload(bias.raw(), s.n * 4);
  } else {
    state->c = args.c;
  }
  E4m3GemmArguments& to = state->arguments;
  to.codes = reinterpret_cast<const uint8_t*>(state->codes->data());
  to.scales = reinterpret_cast<const float*>(state->scales->data());
  if (state->bias) to.bias = reinterpret_cast<const float*>(state->bias->data());
  to.storage = storage_of(p.outputs[0].dtype);
  to.m = static_cast<int>(s.m), to.n = static_cast<int>(s.n), to.k = static_cast<int>(s.k);
  to.code_bytes = byte_gemm_depth(s.k);
  to.a_stride = s.k, to.y_stride = s.n;
  state->function = &kernel_on(*p.gpu, fmt::format("e4m3_gemm_{}{}", decoded ? "decoded_" : "", byte_gemm_rows(to.m)));
  return state;
}

void coded_product_run(const Call& call) {
  const auto& state = call.as<State>();
  E4m3GemmArguments arguments = state.arguments;
  arguments.a = static_cast<const uint8_t*>(call.inputs[0].data);
  arguments.y = call.outputs[0].data;
  if (state.c >= 0) arguments.bias = call.inputs[static_cast<size_t>(state.c)].as<float>();
  arguments.epilogue = bound_epilogue(state.epilogue, call, arguments.n);
  call.stream->launch(*state.function, byte_gemm_launch(arguments.m, arguments.n), arguments);
}

}  // namespace sparkpilot::cuda
