#include "ops/cuda/scaled_gemm_candidates.h"

#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/gemm_small.h"
#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/e4m3_gemm.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/images.h"
#include "ops/cuda/nvfp4_gemm.h"
#include "ops/cuda/plans.h"
#include "ops/cuda/product_candidates.h"
#include "ops/cuda/product_weights.h"
#include "ops/cuda/scaled_gemm.h"
#include "tensor/gpu.h"
#include "tensor/small_floats.h"

namespace sparkpilot::cuda {
namespace {

using In = ScaledGemmInputs;

constexpr int64_t kMostSize = int64_t{1} << 30;

template <typename Arguments>
struct ProductState : KernelState {
  const GpuFunction* function = nullptr;
  std::shared_ptr<Buffer> codes, block_scales, scales, bias;
  int c = -1;  // the input that is the bias, if that is not constant
  sparkpilot::Epilogue epilogue;
  Arguments arguments{};

  // Everything of the arguments but the weights; scales are multiplied by `factor`.
  void set(const Problem& p, const GemmArgs& args, float factor) {
    const MatMulShape& s = args.shape;
    epilogue = args.epilogue;
    scales = upload_scales(*p.gpu, p.constants[In::kScale].data<float>(), s.n, factor);
    arguments.scales = reinterpret_cast<const float*>(scales->data());
    consumed |= uint64_t{1} << In::kCodes | uint64_t{1} << In::kScale | uint64_t{1} << In::kBlockScales;
    if (args.c >= 0 && p.is_constant(static_cast<size_t>(args.c))) {
      const Tensor packed = pack_c(p, args, consumed);
      bias = p.gpu->upload(packed.raw(), s.n * 4);
      arguments.bias = reinterpret_cast<const float*>(bias->data());
    } else {
      c = args.c;
    }
    arguments.m = static_cast<int>(s.m), arguments.n = static_cast<int>(s.n), arguments.k = static_cast<int>(s.k);
    arguments.a_stride = s.k, arguments.y_stride = s.n;
  }
  // With the operands of this call.
  Arguments bound(const Call& call) const {
    Arguments out = arguments;
    out.a = static_cast<decltype(out.a)>(call.inputs[0].data);
    out.y = call.outputs[0].data;
    if (c >= 0) out.bias = call.inputs[static_cast<size_t>(c)].template as<float>();
    out.epilogue = bound_epilogue(epilogue, call, out.n);
    return out;
  }
};
struct State : ProductState<ScaledGemmArguments> {
  bool gemv = false;
};
using CodedState = ProductState<E4m3GemmArguments>;
using RoundedState = ProductState<Nvfp4GemmArguments>;

SmallCodes codes_of(const Problem& p) {
  return p.inputs[In::kCodes].dtype == DType::f4e2m1 ? SmallCodes::nvfp4 : SmallCodes::e4m3;
}
bool transposed(const Problem& p) { return p.attrs().integer("transB", 0) != 0; }
bool is_gemv(const Problem& p, const MatMulShape& s) { return s.m == 1 && p.inputs[0].dtype == DType::f32; }

Acceptance weights_are_constant(const Problem& p) {
  const bool all = p.is_constant(In::kCodes) && p.is_constant(In::kScale) &&
                   (!p.has(In::kBlockScales) || p.is_constant(In::kBlockScales));
  if (!all) return "weights are not constant";
  return true;
}

// Code i of a tensor: a byte, or half of one.
uint8_t code_at(const uint8_t* codes, bool four_bits, int64_t i) {
  return four_bits ? static_cast<uint8_t>(codes[i / 2] >> i % 2 * 4 & 15) : codes[i];
}

Acceptance takes_operands(const Problem& p, const GemmArgs& args, bool rounds = false) {
  const MatMulShape& s = args.shape;
  if (p.attrs().has("a_scale") != rounds) return rounds ? "A is not rounded to NVFP4" : "A is rounded to NVFP4";
  if (Acceptance constant = weights_are_constant(p); !constant) return constant;
  if (s.empty()) return "empty";
  if (std::max({s.m, s.n, s.k}) >= kMostSize) return "more than 2^30 rows or columns";
  if (args.c >= 0 && !p.is_constant(static_cast<size_t>(args.c)) &&
      p.inputs[static_cast<size_t>(args.c)].dtype != DType::f32)
    return "bias is not constant, and not f32";
  return takes_epilogue(args.epilogue);
}

std::shared_ptr<Buffer> pack_codes(GpuDevice& gpu, SmallCodes format, const Tensor& tensor, const MatMulShape& s) {
  const bool four_bits = format == SmallCodes::nvfp4;
  const int64_t words = scaled_code_words(format, s.k), in_word = four_bits ? 8 : 4;
  const auto* const codes = static_cast<const uint8_t*>(tensor.raw());
  std::vector<uint32_t> packed(static_cast<size_t>(s.n * words));
  parallel_for(s.n, std::max<int64_t>(1, (1 << 16) / s.k), [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      for (int64_t w = 0; w < words; ++w) {
        uint8_t some[8] = {};
        for (int64_t i = 0; i < in_word && w * in_word + i < s.k; ++i)
          some[i] = code_at(codes, four_bits, (w * in_word + i) * s.b_row + j * s.b_col);
        packed[static_cast<size_t>(j * words + w)] = packed_codes(format, some);
      }
    }
  });
  return gpu.upload(packed.data(), static_cast<int64_t>(packed.size() * 4));
}

// Block scales lie as the codes do, with the depth divided by 16.
std::shared_ptr<Buffer> pack_blocks(GpuDevice& gpu, const Tensor& tensor, const MatMulShape& s, bool side) {
  const int64_t blocks = (s.k + Fp4Weights::kBlock - 1) / Fp4Weights::kBlock;
  const int64_t stride = scaled_block_bytes(SmallCodes::nvfp4, s.k);
  // [n, blocks] or [blocks, n]
  const auto* const from = static_cast<const uint8_t*>(tensor.raw());
  std::vector<uint8_t> packed(static_cast<size_t>(s.n * stride));
  for (int64_t j = 0; j < s.n; ++j) {
    for (int64_t b = 0; b < blocks; ++b)
      packed[static_cast<size_t>(j * stride + b)] = from[side ? j * blocks + b : b * s.n + j];
  }
  return gpu.upload(packed.data(), static_cast<int64_t>(packed.size()));
}

template <typename Arguments>
void pack_weights(const Problem& p, const MatMulShape& s, ProductState<Arguments>& state) {
  const SmallCodes format = codes_of(p);
  Arguments& to = state.arguments;
  state.codes = pack_codes(*p.gpu, format, p.constants[In::kCodes], s);
  to.codes = reinterpret_cast<const uint32_t*>(state.codes->data());
  if (p.has(In::kBlockScales)) {
    state.block_scales = pack_blocks(*p.gpu, p.constants[In::kBlockScales], s, transposed(p));
    to.block_scales = reinterpret_cast<const uint8_t*>(state.block_scales->data());
  }
  to.code_stride = scaled_code_words(format, s.k), to.block_stride = scaled_block_bytes(format, s.k);
}

std::vector<WarpPlan> gemv_plans(const Problem& p, const MatMulShape& s) {
  const int best = gemv_warps_per_row(static_cast<int>(s.n), static_cast<int>(s.k), p.gpu->facts().multiprocessors);
  return warp_plans(best, kGemvWarps);
}

// The same node with its weights as f32; `decode`: with their numbers.
class Decoded {
 public:
  Decoded(const Problem& p, const MatMulShape& s, bool decode)
      : inputs_(p.inputs.begin(), p.inputs.end()), constants_(p.constants.begin(), p.constants.end()) {
    inputs_[In::kCodes].dtype = DType::f32;
    if (decode) constants_[In::kCodes] = floats(p, s);
    problem = p;
    problem.inputs = inputs_;
    problem.constants = constants_;
  }
  Problem problem;

 private:
  static Tensor floats(const Problem& p, const MatMulShape& s) {
    const int depth_axis = transposed(p) ? 1 : 0;
    if (!p.has(In::kBlockScales)) {
      Tensor scales = p.constants[In::kScale];
      if (scales.elements() == 1) {
        const float scale = scales.data<float>()[0];
        scales = Tensor::zeros(DType::f32, Shape{s.n});
        std::ranges::fill(scales.data<float>(), scale);
      }
      return to_floats(Fp8Weights{p.constants[In::kCodes], std::move(scales)}, 1 - depth_axis);
    }
    return to_floats(Fp4Weights{p.constants[In::kCodes], p.constants[In::kBlockScales], p.constants[In::kScale]},
                     depth_axis);
  }

  std::vector<TensorType> inputs_;
  std::vector<Tensor> constants_;
};

}  // namespace

Acceptance scaled_product_accepts(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  const DType a = p.inputs[0].dtype;
  if (!storage_suffix(a)) return fmt::format("{} activations", name(a));
  if (a == DType::f32 && s.m > 1) return "several rows of f32";
  if (s.m > kMostScaledRows) return "more rows than it pays for";
  return takes_operands(p, args);
}

std::unique_ptr<KernelState> scaled_product_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<State>();
  const SmallCodes format = codes_of(p);
  const bool bfloat = p.inputs[0].dtype == DType::bf16;
  state->gemv = is_gemv(p, s);
  state->set(p, args, scaled_gemm_factor(format, state->gemv, bfloat));
  pack_weights(p, s, *state);
  const std::string codes = format == SmallCodes::e4m3 ? "e4m3" : "nvfp4";
  state->function =
      &kernel_on(*p.gpu, state->gemv ? "scaled_gemv_" + codes
                                     : fmt::format("scaled_gemm_{}_{}_{}", codes, *storage_suffix(p.inputs[0].dtype),
                                                   scaled_gemm_rows(state->arguments.m)));
  scaled_product_take_variant(p, args, {}, *state);
  return state;
}

std::vector<std::string> scaled_product_variants(const Problem& p, const GemmArgs& args) {
  if (!is_gemv(p, args.shape)) return {"mma"};
  return variants_of(gemv_plans(p, args.shape));
}

void scaled_product_take_variant(const Problem& p, const GemmArgs& args, std::string_view variant,
                                 KernelState& prepared) {
  auto& state = static_cast<State&>(prepared);
  if (state.gemv) state.arguments.warps_per_row = plan_of(gemv_plans(p, args.shape), variant).warps;
}

void scaled_product_run(const Call& call) {
  const auto& state = call.as<State>();
  const ScaledGemmArguments arguments = state.bound(call);
  call.stream->launch(
      *state.function,
      state.gemv ? scaled_gemv_launch(arguments) : scaled_gemm_launch(arguments, scaled_gemm_rows(arguments.m)),
      arguments);
}

Acceptance coded_product_accepts(const Problem& p, const GemmArgs& args) {
  if (p.inputs[0].dtype != DType::f8e4m3fn) return fmt::format("{} activations", name(p.inputs[0].dtype));
  if (args.shape.m > kMostByteRows) return "more rows than a launch has blocks for";
  return takes_operands(p, args);
}

std::unique_ptr<KernelState> coded_product_prepare(const Problem& p, const GemmArgs& args) {
  auto state = std::make_unique<CodedState>();
  const bool decoded = p.gpu->facts().capability < 89;
  state->set(p, args, e4m3_gemm_factor(decoded));
  state->codes = upload_byte_rows(*p.gpu, static_cast<const uint8_t*>(p.constants[In::kCodes].raw()), args.shape);
  E4m3GemmArguments& to = state->arguments;
  to.codes = reinterpret_cast<const uint8_t*>(state->codes->data());
  to.code_bytes = byte_gemm_depth(args.shape.k);
  to.storage = storage_of(p.outputs[0].dtype);
  state->function = &kernel_on(*p.gpu, fmt::format("e4m3_gemm_{}{}", decoded ? "decoded_" : "", byte_gemm_rows(to.m)));
  return state;
}

void coded_product_run(const Call& call) {
  const auto& state = call.as<CodedState>();
  const E4m3GemmArguments arguments = state.bound(call);
  call.stream->launch(*state.function, byte_gemm_launch(arguments.m, arguments.n), arguments);
}

Acceptance fp4_product_accepts(const Problem& p, const GemmArgs& args) {
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} activations", name(p.inputs[0].dtype));
  if (Acceptance operands = takes_operands(p, args, true); !operands) return operands;
  if (const int capability = p.gpu->facts().capability; capability < 120)
    return fmt::format("compute capability {}.{}, below 12.0", capability / 10, capability % 10);
  if (std::ranges::count(image_targets(), "sm_120") == 0) return "built by an nvcc older than 12.9";
  if (args.shape.m > kMostByteRows) return "more rows than a launch has blocks for";
  const std::span blocks(static_cast<const uint8_t*>(p.constants[In::kBlockScales].raw()),
                         static_cast<size_t>(p.constants[In::kBlockScales].elements()));
  if (!std::ranges::all_of(blocks, [](uint8_t scale) { return scale < 0x7f; })) return "a scale of a block is negative";
  return true;
}

std::unique_ptr<KernelState> fp4_product_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<RoundedState>();
  const float scale = p.attrs().real("a_scale", 0);
  state->set(p, args, scale);
  Nvfp4GemmArguments& to = state->arguments;
  pack_weights(p, s, *state);
  to.input_scale = scale, to.six_scales = kLargestE2m1 * scale;
  state->function =
      &kernel_on(*p.gpu, fmt::format("nvfp4_gemm_{}_{}", *storage_suffix(p.inputs[0].dtype), scaled_gemm_rows(to.m)));
  return state;
}

void fp4_product_run(const Call& call) {
  const auto& state = call.as<RoundedState>();
  const Nvfp4GemmArguments arguments = state.bound(call);
  call.stream->launch(*state.function, scaled_gemm_launch(arguments, scaled_gemm_rows(arguments.m)), arguments);
}

Acceptance decoded_product_accepts(const Problem& p, const GemmArgs& args) {
  if (p.attrs().has("a_scale")) return "A is rounded to NVFP4";
  if (Acceptance constant = weights_are_constant(p); !constant) return constant;
  return product_accepts(Decoded(p, args.shape, false).problem, args);
}

std::unique_ptr<KernelState> decoded_product_prepare(const Problem& p, const GemmArgs& args) {
  auto state = product_prepare(Decoded(p, args.shape, true).problem, args);
  state->consumed |= uint64_t{1} << In::kScale | uint64_t{1} << In::kBlockScales;
  return state;
}

std::vector<std::string> decoded_product_variants(const Problem& p, const GemmArgs& args) {
  return product_variants(Decoded(p, args.shape, false).problem, args);
}

void decoded_product_take_variant(const Problem& p, const GemmArgs& args, std::string_view variant,
                                  KernelState& state) {
  product_take_variant(Decoded(p, args.shape, false).problem, args, variant, state);
}

}  // namespace sparkpilot::cuda
