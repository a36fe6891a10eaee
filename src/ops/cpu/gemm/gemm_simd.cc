#include "ops/cpu/gemm/gemm_simd.h"

#include <algorithm>

#include "hw/cpu.h"
#include "ops/cpu/gemm/dot_tile.h"
#include "ops/cpu/gemm/tile_plan.h"
#include "ops/cpu/vector/epilogue_store.h"

namespace sparkpilot {
namespace {

struct SimdState : KernelState {
  TilePlan plan;
  PanelMatrix weights;
  Tensor bias;
  SplitEpilogue epilogue;
  int64_t lda = 0;
  int64_t wide_a = 0;  // workspace bytes for A in f32, if A is in 16 bits; Y in f32 follows
};

bool is_small_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

int64_t float_bytes(int64_t elements) { return (elements * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64; }

constexpr int64_t kGrain = 16384;  // elements whose conversion justifies a thread

}  // namespace

bool is_vector(const Shape& c, int64_t n) { return c.rank() >= 1 && c[c.rank() - 1] == n && c.elements() == n; }

bool activates(const Epilogue& epilogue) {
  const auto steps = epilogue.steps();
  return std::any_of(steps.begin(), steps.end(),
                     [](const Epilogue::Step& step) { return step.kind == Epilogue::Step::activation; });
}

Acceptance rows_accept(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  if (!p.is_constant(1)) return "weights are not constant";
  if (s.batch != 1) return "batch of matrices";
  if (s.empty()) return "empty";
  if (s.a_col != 1) return "A is transposed";
  if (args.alpha != 1) return "alpha is not 1";
  if (args.c < 0) return true;
  const auto c = static_cast<size_t>(args.c);
  if (!p.is_constant(c)) return "C is not constant";
  if (!is_vector(p.inputs[c].shape, s.n)) return "C is not one row";
  return true;
}

Tensor pack_c(const Problem& p, const GemmArgs& args, uint64_t& consumed) {
  if (args.c < 0) return {};
  Tensor bias = pack_bias(p.constants[static_cast<size_t>(args.c)].view(), args.shape.n);
  for (float& value : bias.data<float>()) value *= args.beta;
  consumed |= uint64_t{1} << args.c;
  return bias;
}

Acceptance gemm_simd_accepts(const Problem& p, const GemmArgs& args) {
  const DType a = p.inputs[0].dtype, b = p.inputs[1].dtype;
  if (!is_small_float(b)) return fmt::format("{} weights", name(b));
  // 16-bit rows are converted to f32 if no kernel computes in their type.
  const bool computes = onednn::computes(a) || (a == DType::bf16 && dot_group() > 0);
  if (!is_small_float(a) || (a != DType::f32 && computes)) return fmt::format("{} activations", name(a));
  return rows_accept(p, args);
}

bool gemm_simd_wins(const GemmArgs& args) {
  constexpr int64_t kCached = 524288;
  if (args.shape.m <= 1024 || activates(args.epilogue)) return true;
  return !cpu_features().avx512 && args.shape.k * args.shape.n <= kCached;
}

std::unique_ptr<KernelState> gemm_simd_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<SimdState>();
  state->plan = {.rows = s.m, .columns = s.n, .depth = s.k, .row_stride = s.n};
  const Tensor b = in_dtype(p.constants[1], packed_dtype(p.inputs[1].dtype, true, s.m <= 2));
  state->weights =
      pack_panels(b.view(), s.k, s.n, {.column = s.b_col, .inner = s.k, .inner_step = s.b_row, .outer_step = 0});
  state->consumed = 2;
  state->bias = pack_c(p, args, state->consumed);
  state->epilogue = SplitEpilogue(args.epilogue);
  state->lda = s.a_row;
  if (p.inputs[0].dtype != DType::f32) {
    state->wide_a = float_bytes(s.m * s.a_row);
    state->workspace = state->wide_a + float_bytes(s.m * s.n);
  }
  return state;
}

void gemm_simd_run(const Call& call) {
  const auto& state = call.as<SimdState>();
  const bool wide = state.wide_a > 0;
  auto* wide_a = reinterpret_cast<float*>(call.workspace);
  if (wide) {
    parallel_for(call.inputs[0].elements(), kGrain, [&](int64_t first, int64_t last) {
      floats_from(call.inputs[0].dtype, call.inputs[0].data, first, wide_a + first, last - first);
    });
  }
  const float* a = wide ? wide_a : call.inputs[0].as<float>();
  float* y = wide ? reinterpret_cast<float*>(call.workspace + state.wide_a) : call.outputs[0].as<float>();
  const TileOutput out = state.epilogue.output(state.bias, y, state.plan.row_stride);
  state.plan.run(y, state.epilogue, state.epilogue.rest.bind(call), [&](const RowRange& range) {
    multiply_rows(a, state.lda, state.weights, out, range, state.plan.rows <= 2);
  });
  if (!wide) return;
  parallel_for(call.outputs[0].elements(), kGrain,
               [&](int64_t first, int64_t last) { store_floats(call.outputs[0], y, first, last - first); });
}

}  // namespace sparkpilot
