#include "ops/cuda/product_candidates.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/plans.h"
#include "ops/cuda/product_weights.h"
#include "ops/cuda/products.h"

namespace sparkpilot::cuda {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 30;

enum class Way { gemv, gemv_rows, gemm };

struct ProductState : KernelState {
  Way way = Way::gemm;
  const GpuFunction *function = nullptr, *sum = nullptr;
  std::optional<DirectGemmPlan> direct;  // whose function it is
  PackedWeights weights;
  std::shared_ptr<Buffer> bias;
  int c = -1;  // the input that is the bias, if that is not constant
  sparkpilot::Epilogue epilogue;
  GemmTile tile{};
  GemvArguments rows{};
  GemmArguments tiles{};
};

Way way_of(const Problem& p, const MatMulShape& s) {
  if (!p.is_constant(1) || s.batch != 1 || s.m > kGemvRows) return Way::gemm;
  return s.m == 1 ? Way::gemv : Way::gemv_rows;
}

// The type that weights are kept in: that of the activations, but for one row of f32, which can read 16 bits.
DType weight_dtype(const Problem& p, Way way) {
  return way == Way::gemv && p.inputs[0].dtype == DType::f32 ? p.inputs[1].dtype : p.inputs[0].dtype;
}

// Batches as two levels of strides, the inner one the last dimension that has more than one entry; false if that is not
// enough.
bool two_levels(const MatMulShape& s, GemmArguments& out) {
  out.outer = out.inner = 1;
  int levels = 0;
  for (int i = s.batch_rank - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    if (s.batch_dims[at] == 1) continue;
    if (levels == 0) {
      out.inner = static_cast<int>(s.batch_dims[at]);
      out.a_inner = s.a_batch[at];
      out.b_inner = s.b_batch[at];
      ++levels;
    } else if (levels == 1) {
      out.outer = static_cast<int>(s.batch_dims[at]);
      out.a_outer = s.a_batch[at];
      out.b_outer = s.b_batch[at];
      ++levels;
    } else if (s.a_batch[at] == out.a_outer * out.outer && s.b_batch[at] == out.b_outer * out.outer) {
      out.outer *= static_cast<int>(s.batch_dims[at]);
    } else {
      return false;
    }
  }
  return true;
}

GemmArguments tiles_of(const Problem& p, const MatMulShape& s, int64_t weight_stride) {
  GemmArguments out{};
  out.m = static_cast<int>(s.m);
  out.n = static_cast<int>(s.n);
  out.k = static_cast<int>(s.k);
  out.a_stride = s.a_col == 1 ? s.a_row : s.a_col;
  out.y_stride = s.n;
  two_levels(s, out);
  out.y_inner = s.m * s.n;
  out.y_outer = out.y_inner * out.inner;
  if (p.is_constant(1) && s.batch == 1) out.b_stride = weight_stride;
  else out.b_stride = s.b_col == 1 ? s.b_row : s.b_col;
  return out;
}

GemmLayout layout_of(const Problem& p, const MatMulShape& s) {
  if (s.a_col != 1) return GemmLayout::km;
  return !(p.is_constant(1) && s.batch == 1) && s.b_col == 1 ? GemmLayout::kn : GemmLayout::nk;
}

std::vector<GemmPlan> tile_plans(const Problem& p, const MatMulShape& s) {
  const bool direct = p.is_constant(1) && s.batch == 1 && s.a_col == 1 && s.a_row % 8 == 0 && s.k % 8 == 0;
  return gemm_plans(storage_of(p.inputs[0].dtype), layout_of(p, s), s.batch, static_cast<int>(s.m),
                    static_cast<int>(s.n), static_cast<int>(s.k), p.gpu->facts().multiprocessors, direct);
}

// Of gemv, and of gemv_rows in f32; by mma a block's warps are always the same.
std::vector<WarpPlan> row_plans(const Problem& p, const MatMulShape& s, Way way) {
  const int best = gemv_warps_per_row(static_cast<int>(s.n), static_cast<int>(s.k), p.gpu->facts().multiprocessors);
  if (way == Way::gemv_rows && p.inputs[0].dtype != DType::f32) return {{best}};
  return warp_plans(best, kGemvWarps);
}

}  // namespace

Acceptance product_accepts(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  const DType a = p.inputs[0].dtype, b = p.inputs[1].dtype;
  if (!storage_suffix(a)) return fmt::format("{} activations", name(a));
  if (!storage_suffix(b)) return fmt::format("{} weights", name(b));
  if (s.empty()) return "empty";
  if (std::max({s.m, s.n, s.k, s.batch}) >= kMostSize) return "more than 2^30 rows, columns or batches";
  const bool constant = p.is_constant(1) && s.batch == 1;
  if (s.a_col != 1) {
    if (a != DType::f32) return fmt::format("A is transposed, of {}", name(a));
    if (s.a_row != 1) return "A is neither by rows nor by columns";
    if (constant || s.b_col != 1) return "A is transposed, and B is not by rows";
  }
  if (Acceptance takes = takes_epilogue(args.epilogue); !takes) return takes;
  if (way_of(p, s) == Way::gemm && tile_plans(p, s).empty()) return "more batches or columns than CUDA's grids have";
  if (args.c >= 0 && !p.is_constant(static_cast<size_t>(args.c))) {
    const TensorType& c = p.inputs[static_cast<size_t>(args.c)];
    if (c.dtype != DType::f32) return fmt::format("C is {} and not constant", name(c.dtype));
    if (!is_vector(c.shape, s.n)) return "C is not one row";
    if (args.beta != 1) return "C is scaled and not constant";
    GemmArgs without = args;
    without.c = -1;
    return product_accepts(p, without);
  }
  if (constant) return rows_accept(p, args);
  if (a != b) return "matrices of two types";
  if (args.alpha != 1) return "scaled, and B is not constant";
  if (args.c >= 0 && !is_vector(p.inputs[static_cast<size_t>(args.c)].shape, s.n)) return "C is not one row";
  if (s.b_row != 1 && s.b_col != 1) return "B is neither by rows nor by columns";
  GemmArguments tiles{};
  if (!two_levels(s, tiles)) return "batches of more than two levels";
  return true;
}

std::unique_ptr<KernelState> product_prepare(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  auto state = std::make_unique<ProductState>();
  state->way = way_of(p, s);
  state->epilogue = args.epilogue;
  const bool constant = p.is_constant(1) && s.batch == 1;
  const DType dtype = p.inputs[0].dtype, weights = weight_dtype(p, state->way);
  const std::string suffix(*storage_suffix(dtype));
  if (constant) {
    state->weights = pack_weights(*p.gpu, p.constants[1], args, weights);
    state->consumed |= 2;
  }
  if (args.c >= 0 && !p.is_constant(static_cast<size_t>(args.c))) {
    state->c = args.c;
  } else if (args.c >= 0) {
    const Tensor bias = pack_c(p, args, state->consumed);
    state->bias = p.gpu->upload(bias.raw(), s.n * 4);
  }
  const auto* const bias = state->bias ? reinterpret_cast<const float*>(state->bias->data()) : nullptr;
  if (state->way != Way::gemm) {
    GemvArguments& rows = state->rows;
    rows.weights = state->weights.memory->data();
    rows.bias = bias;
    rows.m = static_cast<int>(s.m);
    rows.n = static_cast<int>(s.n);
    rows.k = static_cast<int>(s.k);
    rows.a_stride = s.a_row;
    rows.weight_stride = state->weights.stride;
    rows.y_stride = s.n;
    const std::string mixed = weights == dtype ? "" : "_weights_" + std::string(*storage_suffix(weights));
    state->function = &kernel_on(*p.gpu, (state->way == Way::gemv ? "gemv_" : "gemv_rows_") + suffix + mixed);
    product_take_variant(p, args, {}, *state);
    return state;
  }
  GemmArguments& tiles = state->tiles = tiles_of(p, s, state->weights.stride);
  tiles.b = constant ? state->weights.memory->data() : nullptr;
  tiles.bias = bias;
  product_take_variant(p, args, {}, *state);
  return state;
}

std::vector<std::string> product_variants(const Problem& p, const GemmArgs& args) {
  const Way way = way_of(p, args.shape);
  return way == Way::gemm ? variants_of(tile_plans(p, args.shape)) : variants_of(row_plans(p, args.shape, way));
}

void product_take_variant(const Problem& p, const GemmArgs& args, std::string_view variant, KernelState& prepared) {
  auto& state = static_cast<ProductState&>(prepared);
  if (state.way != Way::gemm) {
    state.rows.warps_per_row = plan_of(row_plans(p, args.shape, state.way), variant).warps;
    return;
  }
  const GemmPlan plan = plan_of(tile_plans(p, args.shape), variant);
  const DType dtype = p.inputs[0].dtype;
  GemmArguments& tiles = state.tiles;
  tiles.parts = plan.parts;
  tiles.part_depth = plan.part_depth;
  state.tile = plan.tile;
  state.workspace = static_cast<int64_t>(gemm_partial_bytes(tiles));
  state.direct = plan.direct;
  const Storage storage = storage_of(dtype);
  state.function = &kernel_on(
      *p.gpu, plan.direct ? plan.direct->kernel(storage) : gemm_name(storage, layout_of(p, args.shape), plan.tile));
  state.sum = plan.parts > 1 ? &kernel_on(*p.gpu, "gemm_sum_" + std::string(*storage_suffix(dtype))) : nullptr;
}

void product_run(const Call& call) {
  const auto& state = call.as<ProductState>();
  if (state.way != Way::gemm) {
    GemvArguments rows = state.rows;
    rows.a = call.inputs[0].data;
    rows.y = call.outputs[0].data;
    if (state.c >= 0) rows.bias = call.inputs[static_cast<size_t>(state.c)].as<float>();
    rows.epilogue = bound_epilogue(state.epilogue, call, rows.n);
    const bool f32 = call.inputs[0].dtype == DType::f32;
    call.stream->launch(*state.function, state.way == Way::gemv ? gemv_launch(rows) : gemv_rows_launch(rows, f32),
                        rows);
    return;
  }
  GemmArguments tiles = state.tiles;
  tiles.a = call.inputs[0].data;
  if (!tiles.b) tiles.b = call.inputs[1].data;
  tiles.y = call.outputs[0].data;
  if (state.c >= 0) tiles.bias = call.inputs[static_cast<size_t>(state.c)].as<float>();
  tiles.partial = reinterpret_cast<float*>(call.workspace);
  tiles.epilogue = bound_epilogue(state.epilogue, call, tiles.n);
  if (state.direct) {
    call.stream->launch(*state.function, state.direct->launch(tiles.m, tiles.n), direct_gemm_of(tiles));
    return;
  }
  call.stream->launch(*state.function, gemm_launch(tiles, state.tile), tiles);
  if (state.sum) call.stream->launch(*state.sum, gemm_sum_launch(tiles), tiles);
}

}  // namespace sparkpilot::cuda
