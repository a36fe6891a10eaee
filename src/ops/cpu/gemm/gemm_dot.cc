#include "ops/cpu/gemm/gemm_dot.h"

#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/gemm/amx_tile.h"
#include "ops/cpu/gemm/dot_store.h"
#include "ops/cpu/gemm/dot_tile.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/tile_plan.h"

namespace sparkpilot {
namespace {

constexpr int64_t kPanel = DotMatrix::kPanel;

struct DotState : KernelState {
  bool amx = false;
  int64_t rows = 0, lda = 0;
  DotMatrix weights;
  Tensor bias;
  SplitEpilogue epilogue;
  DotStore store;  // the steps of the epilogue that are not applied in registers
};

// A part of the result as the epilogue sees it.
Epilogue::Tile tile(float* values, int64_t stride, int64_t row, int64_t rows, int64_t column, int64_t width,
                    int64_t columns) {
  return {.data = values,
          .lines = rows,
          .length = std::min(width, columns - column),
          .stride = stride,
          .channel = column,
          .offset = row * columns + column,
          .output_stride = columns};
}

void piece(const DotState& state, const Call& call, const Epilogue::Operands& operands, const DotCut& cut, int64_t at) {
  const int64_t columns = state.weights.columns, panels = state.weights.panels();
  const int64_t row = at % cut.blocks * cut.row_step, panel = at / cut.blocks * cut.panel_step;
  const int64_t rows = std::min(cut.row_step, state.rows - row), last = std::min(panels, panel + cut.panel_step);
  const BFloat16* a = call.inputs[0].as<BFloat16>() + row * state.lda;
  const float* bias = state.bias.present() ? state.bias.data<float>().data() : nullptr;
  BFloat16* y = call.outputs[0].as<BFloat16>();
  if (state.amx) {
    multiply_amx(state.weights, {a, state.lda, rows, panel, last, bias}, [&](const AmxBlock& block) {
      const Epilogue::Tile part =
          tile(block.sums, kPanel, row + block.row, block.rows, block.panel * kPanel, kPanel, columns);
      state.store.store(operands, part, y + part.offset);
    });
    return;
  }
  alignas(64) float values[DotCut::kFloats];
  const int64_t width = (last - panel) * kPanel;
  const Epilogue::Tile part = tile(values, width, row, rows, panel * kPanel, width, columns);
  DotPiece product{.a = a,
                   .lda = state.lda,
                   .rows = rows,
                   .first_panel = panel,
                   .last_panel = last,
                   .bias = bias,
                   .low = state.epilogue.low,
                   .high = state.epilogue.high};
  if (state.store.empty()) {
    product.rounded = y + part.offset;
    product.stride = columns;
    return multiply_dots(state.weights, product);
  }
  product.y = values;
  product.stride = width;
  multiply_dots(state.weights, product);
  state.store.store(operands, part, y + part.offset);
}

Acceptance types_fit(const Problem& p) {
  if (p.inputs[0].dtype != DType::bf16) return fmt::format("{} activations", name(p.inputs[0].dtype));
  if (!p.is_constant(1)) return "weights are not constant";
  if (dot_group() == 0) return "this processor has no dot products of bf16";
  return true;
}

// The kernel that was measured to be the fastest (AVX-512, one core): oneDNN's on memory-bound shapes and for plain
// products of many rows. Processors with tiles do dot products at half the speed of others.
std::string_view fastest(int64_t rows, int64_t depth, int64_t columns, const Epilogue& epilogue) {
  constexpr int64_t kCached = 524288;
  if (rows <= 2) return depth * columns > kCached ? "onednn" : "dot";
  if (rows <= 256 || activates(epilogue)) return has_amx() ? "amx" : "dot";
  return has_amx() && depth >= 2 * kAmxDepth ? "amx" : "onednn";
}

std::unique_ptr<DotState> prepare(const Problem& p, bool amx, int64_t rows, int64_t lda, int64_t depth, int64_t columns,
                                  const PanelSource& where, const Epilogue& epilogue) {
  auto state = std::make_unique<DotState>();
  state->amx = amx;
  state->rows = rows;
  state->lda = lda;
  const Tensor& b = p.constants[1];
  state->weights = pack_dots(in_dtype(b, DType::bf16).view(), depth, columns, where, amx ? kAmxDepth : 1);
  state->epilogue = SplitEpilogue(epilogue);
  state->store = DotStore(state->epilogue.rest);
  if (amx && !state->store.first.empty()) {  // which would come before the bounds
    state->epilogue = SplitEpilogue();
    state->epilogue.rest = epilogue;
    state->store = DotStore(epilogue);
  } else if (amx) {
    state->store.low = state->epilogue.low;
    state->store.high = state->epilogue.high;
  }
  state->consumed = 2;
  return state;
}

}  // namespace

DotCut::DotCut(int64_t rows, int64_t panels, int64_t depth, int64_t threads, bool amx) {
  // A piece's weights stay in the second-level cache while its rows are processed.
  constexpr int64_t kWeights = 131072;
  panel_step = std::min(panels, std::clamp<int64_t>(kWeights / (depth * kPanel), 2, 16));
  groups = (panels + panel_step - 1) / panel_step;
  const int64_t floats = amx ? 4 * kFloats : kFloats;
  blocks = (rows * panel_step * kPanel + floats - 1) / floats;
  if (blocks * groups < threads) groups = std::min(panels, threads);
  else if (blocks * groups < 8 * threads && blocks >= threads) blocks = (blocks + threads - 1) / threads * threads;
  panel_step = (panels + groups - 1) / groups;
  row_step = (rows + blocks - 1) / blocks;
  if (amx) row_step = (row_step + kAmxRows - 1) / kAmxRows * kAmxRows;
  else row_step = std::min(row_step, kFloats / (panel_step * kPanel));  // rounding up would go beyond the stack's array
  groups = (panels + panel_step - 1) / panel_step;
  blocks = (rows + row_step - 1) / row_step;
}

Acceptance gemm_dot_accepts(const Problem& p, const GemmArgs& args) {
  if (Acceptance fits = types_fit(p); !fits) return fits;
  return rows_accept(p, args);
}

std::string_view gemm_of_bf16(const GemmArgs& args) {
  return fastest(args.shape.m, args.shape.k, args.shape.n, args.epilogue);
}

std::unique_ptr<KernelState> gemm_dot_prepare(const Problem& p, const GemmArgs& args, bool amx) {
  const MatMulShape& s = args.shape;
  auto state = prepare(p, amx, s.m, s.a_row, s.k, s.n,
                       {.column = s.b_col, .inner = s.k, .inner_step = s.b_row, .outer_step = 0}, args.epilogue);
  state->bias = pack_c(p, args, state->consumed);
  return state;
}

Acceptance gemm_amx_accepts(const Problem& p, const GemmArgs& args) {
  if (!has_amx()) return "this processor has no tiles of bf16";
  return gemm_dot_accepts(p, args);
}

Acceptance conv_dot_accepts(const Problem& p) {
  if (Acceptance fits = types_fit(p); !fits) return fits;
  if (p.has(2) && !p.is_constant(2)) return "bias is not constant";
  if (p.attrs().integer("channels_last", 0) == 0 || p.attrs().integer("x_channels_first", 0) != 0)
    return "channels first";
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  if (s.empty()) return "empty";
  if (!s.is_pointwise()) return "not 1x1 at stride 1";
  return true;
}

std::string_view conv_of_bf16(const Problem& p) {
  if (!conv_dot_accepts(p)) return "onednn";
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  return fastest(s.batch * s.window.out_size(), s.in_channels, s.out_channels, Epilogue::of(p, s.out_channels));
}

Acceptance conv_amx_accepts(const Problem& p) {
  if (!has_amx()) return "this processor has no tiles of bf16";
  return conv_dot_accepts(p);
}

std::unique_ptr<KernelState> conv_dot_prepare(const Problem& p, bool amx) {
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  const int64_t in = s.in_channels;
  auto state = prepare(p, amx, s.batch * s.window.out_size(), in, in, s.out_channels,
                       {.column = in, .inner = in, .inner_step = 1, .outer_step = 0}, Epilogue::of(p, s.out_channels));
  if (p.has(2)) {
    state->bias = pack_bias(p.constants[2].view(), s.out_channels);
    state->consumed |= 4;
  }
  return state;
}

void dot_run(const Call& call) {
  const auto& state = call.as<DotState>();
  const Epilogue::Operands operands = state.epilogue.rest.bind(call);
  const DotCut cut(state.rows, state.weights.panels(), state.weights.depth, thread_count(), state.amx);
  constexpr double kWorth = 32768;  // multiply-adds that justify a thread
  const double each = static_cast<double>(cut.row_step * cut.panel_step * kPanel * state.weights.depth);
  parallel_for(cut.blocks * cut.groups, 1 + static_cast<int64_t>(kWorth / (each + 1)),
               [&](int64_t first, int64_t last) {
                 for (int64_t at = first; at < last; ++at) piece(state, call, operands, cut, at);
               });
}

}  // namespace sparkpilot
