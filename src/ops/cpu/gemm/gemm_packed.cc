#include "ops/cpu/gemm/gemm_packed.h"

#include <algorithm>

#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/tile_plan.h"
#include "ops/cpu/move/transpose.h"

namespace sparkpilot {
namespace {

constexpr int64_t kPanel = PanelMatrix::kPanel;
constexpr int64_t kWorth = 16384;  // elements whose copy justifies a thread

int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

struct PackedState : KernelState {
  MatMulShape shape;
  TilePlan plan;  // of one matrix
  SplitEpilogue epilogue;
  float alpha = 1, beta = 1;
  int c = -1;
  // Floats of the workspace: C, and for each slot B and, if it is transposed, A. Matrices of a batch are multiplied one
  // in each slot.
  int64_t bias = 0, packed = 0, rows = 0;
  int64_t slots = 1;
};

// A with adjacent columns.
void straighten(const MatMulShape& s, const float* a, float* to) {
  parallel_for(s.m, 1 + kWorth / s.k, [&](int64_t first, int64_t last) {
    if (s.a_row == 1) return transpose_matrix(a + first, s.a_col, s.k, last - first, to + first * s.k, s.k);
    for (int64_t i = first; i < last; ++i) {
      for (int64_t p = 0; p < s.k; ++p) to[i * s.k + p] = a[i * s.a_row + p * s.a_col];
    }
  });
}

void pack(const PackedState& state, const float* b, float* to) {
  const MatMulShape& s = state.shape;
  const PanelSource where{.column = s.b_col, .inner = s.k, .inner_step = s.b_row, .outer_step = 0};
  parallel_for(state.packed / (s.k * kPanel), 1 + kWorth / (s.k * kPanel), [&](int64_t first, int64_t last) {
    pack_panels(b, s.k, s.n, where, first, last, to);
    if (state.alpha == 1) return;
    for (float* at = to + first * s.k * kPanel; at < to + last * s.k * kPanel; ++at) *at *= state.alpha;
  });
}

void multiply(const Call& call, int64_t entry, const float* bias, float* scratch) {
  const auto& state = call.as<PackedState>();
  const MatMulShape& s = state.shape;
  const MatMulShape::Offsets at = s.offsets(entry);
  pack(state, call.inputs[1].as<float>() + at.b, scratch);
  const float* a = call.inputs[0].as<float>() + at.a;
  int64_t lda = s.a_row;
  if (state.rows > 0) {
    float* const straight = scratch + state.packed;
    straighten(s, a, straight);
    a = straight;
    lda = s.k;
  }
  const PanelView b(scratch, s.k, s.n);
  const TileOutput out = state.epilogue.output(bias, call.outputs[0].as<float>() + entry * s.m * s.n, s.n);
  state.plan.run(out.y, state.epilogue, state.epilogue.rest.bind(call),
                 [&](const RowRange& range) { multiply_rows(a, lda, b, out, range, s.m <= 2); });
}

}  // namespace

Acceptance gemm_packed_accepts(const Problem& p, const GemmArgs& args) {
  for (size_t i = 0; i < 2; ++i) {
    if (p.inputs[i].dtype != DType::f32) return fmt::format("input {} is {}", i, name(p.inputs[i].dtype));
  }
  if (args.shape.empty()) return "empty";
  if (args.c < 0) return true;
  const auto& c = p.inputs[static_cast<size_t>(args.c)];
  if (c.dtype != DType::f32) return fmt::format("C is {}", name(c.dtype));
  if (!is_vector(c.shape, args.shape.n)) return "C is not one row";
  return true;
}

std::unique_ptr<KernelState> gemm_packed_prepare(const Problem&, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<PackedState>();
  state->shape = s;
  state->plan = {.rows = s.m, .columns = s.n, .depth = s.k, .row_stride = s.n};
  state->epilogue = SplitEpilogue(args.epilogue);
  state->alpha = args.alpha;
  state->beta = args.beta;
  state->c = args.c;
  if (args.c >= 0) state->bias = bias_floats(s.n);
  state->packed = panel_floats(s.k, s.n);
  if (s.a_col != 1) state->rows = whole_lines(s.m * s.k);
  state->slots = std::min<int64_t>(s.batch, std::max(1, thread_count()));
  const int64_t floats = state->bias + state->slots * (state->packed + state->rows);
  state->workspace = floats * static_cast<int64_t>(sizeof(float));
  return state;
}

void gemm_packed_run(const Call& call) {
  const auto& state = call.as<PackedState>();
  const MatMulShape& s = state.shape;
  auto* const floats = reinterpret_cast<float*>(call.workspace);
  const float* bias = nullptr;
  if (state.c >= 0) {
    pack_bias(call.inputs[static_cast<size_t>(state.c)].as<float>(), s.n, state.beta, floats);
    bias = floats;
  }
  const double work =
      static_cast<double>(s.m * s.n) * static_cast<double>(s.k * s.batch) / static_cast<double>(state.slots);
  parallel_for(state.slots, 1 + static_cast<int64_t>(kWorth / (work + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      float* const scratch = floats + state.bias + slot * (state.packed + state.rows);
      for (int64_t entry = slot * s.batch / state.slots; entry < (slot + 1) * s.batch / state.slots; ++entry) {
        multiply(call, entry, bias, scratch);
      }
    }
  });
}

}  // namespace sparkpilot
