#include "ops/cpu/gemm_simd.h"

#include "ops/cpu/tile_plan.h"

namespace sparkpilot {
namespace {

struct SimdState : KernelState {
  TilePlan plan;
  PanelMatrix weights;
  Tensor bias;
  SplitEpilogue epilogue;
  int64_t lda = 0;
};

bool is_vector(const Shape& c, int64_t n) { return c.rank() >= 1 && c[c.rank() - 1] == n && c.elements() == n; }

}  // namespace

Verdict gemm_simd_accepts(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  const DType b = p.inputs[1].dtype;
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} activations", name(p.inputs[0].dtype));
  if (b != DType::f32 && b != DType::f16 && b != DType::bf16) return fmt::format("{} weights", name(b));
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

std::unique_ptr<KernelState> gemm_simd_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<SimdState>();
  state->plan = {.rows = s.m, .columns = s.n, .depth = s.k, .row_stride = s.n};
  const Tensor& b = p.constants[1];
  state->weights =
      pack_panels(b.view(), s.k, s.n, {.column = s.b_col, .inner = s.k, .inner_step = s.b_row, .outer_step = 0});
  state->consumed = 2;
  if (args.c >= 0) {
    const Tensor& c = p.constants[static_cast<size_t>(args.c)];
    state->bias = pack_bias(c.view(), s.n);
    for (float& value : state->bias.data<float>()) value *= args.beta;
    state->consumed |= uint64_t{1} << args.c;
  }
  state->epilogue = SplitEpilogue(args.epilogue);
  state->lda = s.a_row;
  return state;
}

void gemm_simd_run(const Call& call) {
  const auto& state = call.as<SimdState>();
  const float* a = call.inputs[0].as<float>();
  float* y = call.outputs[0].as<float>();
  const TileOutput out = state.epilogue.output(state.bias, y, state.plan.row_stride);
  state.plan.run(y, state.epilogue, state.epilogue.rest.bind(call), [&](const RowRange& range) {
    multiply_rows(a, state.lda, state.weights, out, range, state.plan.rows <= 2);
  });
}

}  // namespace sparkpilot
