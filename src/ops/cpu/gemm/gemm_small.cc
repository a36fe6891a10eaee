#include "ops/cpu/gemm/gemm_small.h"

#include <algorithm>

#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/small_panels.h"
#include "ops/cpu/gemm/tile_plan.h"
#include "ops/cpu/vector/epilogue_store.h"

namespace sparkpilot {
namespace {

using In = ScaledGemmInputs;

constexpr int64_t kFew = 2;  // rows for which weights are decoded in registers

struct SmallState : KernelState {
  TilePlan plan;
  SmallPanels weights;
  Tensor bias;
  SplitEpilogue epilogue;
  int64_t lda = 0;
  int64_t slots = 0;  // decoded panels in the workspace, one for each thread
};

// Floats of a thread's workspace: a decoded panel, and what a piece of the depth adds to a block of rows.
int64_t slot_floats(const TilePlan& plan) {
  return (plan.depth + (plan.depth > SmallPanels::kPiece ? plan.block_rows() : 0)) * SmallPanels::kPanel;
}

// multiply_panel() in pieces of the depth.
void multiply_pieces(const float* a, int64_t lda, float* panel, const TilePlan& plan, const TileOutput& out,
                     const RowRange& range) {
  constexpr int64_t kPanel = SmallPanels::kPanel, kPiece = SmallPanels::kPiece;
  if (plan.depth <= kPiece) return multiply_panel(a, lda, panel, plan.depth, plan.columns, out, range);
  const int64_t rows = range.last_row - range.first_row, first = range.first_panel * kPanel;
  const int64_t columns = std::min(kPanel, plan.columns - first);
  float *const y = out.y + range.first_row * out.stride + first, *const added = panel + plan.depth * kPanel;
  for (int64_t p = 0; p < plan.depth; p += kPiece) {
    const TileOutput piece =
        p == 0 ? TileOutput{out.bias ? out.bias + first : nullptr, y, out.stride} : TileOutput{nullptr, added, kPanel};
    multiply_panel(a + range.first_row * lda + p, lda, panel + p * kPanel, std::min(kPiece, plan.depth - p), columns,
                   piece, {0, rows, 0, 1});
    if (p == 0) continue;
    const bool last = p + kPiece >= plan.depth;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float sum = y[i * out.stride + j] + added[i * kPanel + j];
        if (last) sum = sum < out.low ? out.low : sum > out.high ? out.high : sum;
        y[i * out.stride + j] = sum;
      }
    }
  }
}

// More than two rows: each thread decodes one panel after the other and multiplies all rows by it.
void run_many(const Call& call, const SmallState& state, const float* a, const TileOutput& out) {
  const TilePlan& plan = state.plan;
  const Epilogue::Operands operands = state.epilogue.rest.bind(call);
  const int64_t panels = state.weights.panels(), block = plan.block_rows();
  auto* scratch = reinterpret_cast<float*>(call.workspace);
  parallel_for(state.slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      float* weights = scratch + slot * slot_floats(plan);
      for (int64_t panel = slot * panels / state.slots; panel < (slot + 1) * panels / state.slots; ++panel) {
        decode_panel(state.weights, panel, weights);
        for (int64_t row = 0; row < plan.rows; row += block) {
          const RowRange range{row, std::min(plan.rows, row + block), panel, panel + 1};
          multiply_pieces(a, state.lda, weights, plan, out, range);
          plan.finish(out.y, state.epilogue, operands, range);
        }
      }
    }
  });
}

}  // namespace

Acceptance gemm_small_accepts(const Problem& p, const GemmArgs& args) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} activations", name(p.inputs[0].dtype));
  for (const size_t i : {In::kScale, In::kBlockScales}) {
    if (p.has(i) && !p.is_constant(i)) return "scales are not constant";
  }
  return rows_accept(p, args);
}

std::unique_ptr<KernelState> gemm_small_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<SmallState>();
  state->plan = {.rows = s.m, .columns = s.n, .depth = s.k, .row_stride = s.n};
  SmallSource source{.codes = p.constants[In::kCodes].view(), .row = s.b_row, .column = s.b_col};
  state->consumed = uint64_t{1} << In::kCodes | uint64_t{1} << In::kScale;
  if (p.has(In::kBlockScales)) {
    source.scales = p.constants[In::kBlockScales].view();
    const bool transposed = p.attrs().integer("transB", 0) != 0;
    source.scale_row = transposed ? 1 : s.n;
    source.scale_column = transposed ? source.scales.shape[1] : 1;
    source.scale = static_cast<float>(p.constants[In::kScale].to_scalar());
    state->consumed |= uint64_t{1} << In::kBlockScales;
  } else {
    source.scales = p.constants[In::kScale].view();
  }
  state->weights = pack_small(source, s.k, s.n);
  state->bias = pack_c(p, args, state->consumed);
  state->epilogue = SplitEpilogue(args.epilogue);
  state->lda = s.a_row;
  if (s.m > kFew) {
    state->slots = std::min<int64_t>(state->weights.panels(), std::max(1, thread_count()));
    state->workspace = state->slots * slot_floats(state->plan) * static_cast<int64_t>(sizeof(float));
  }
  return state;
}

void gemm_small_run(const Call& call) {
  const auto& state = call.as<SmallState>();
  const float* a = call.inputs[0].as<float>();
  float* y = call.outputs[0].as<float>();
  const TileOutput out = state.epilogue.output(state.bias, y, state.plan.row_stride);
  if (state.plan.rows > kFew) return run_many(call, state, a, out);
  state.plan.run(y, state.epilogue, state.epilogue.rest.bind(call),
                 [&](const RowRange& range) { multiply_small(a, state.lda, state.weights, out, range); });
}

}  // namespace sparkpilot
