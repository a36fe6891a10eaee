#include "ops/cuda/products.h"

#include <algorithm>

#include "base/error.h"
#include "ops/cuda/plans.h"

namespace sparkpilot::cuda {
namespace {

constexpr unsigned kThreads = 128, kMostY = 65535, kMostZ = 65535;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

const char* storage_name(Storage storage) {
  return storage == Storage::f32 ? "f32" : storage == Storage::f16 ? "f16" : "bf16";
}

// Clock cycles of a launch, roughly. Of a step of 64 in depth: what a tile's products take on one multiprocessor, and
// what waiting for its copies costs besides; blocks beside one another share the products' unit and wait together.
double expected_cycles(Storage storage, GemmTile tile, long long blocks, int steps, int multiprocessors) {
  const double products_a_cycle = storage == Storage::f32 ? 100 : 500, block_overhead = 2000;
  const double step_overhead = tile.m * tile.n <= 1024 ? 250 : 400;  // the smallest tiles take 64 at once, others 32
  const double store = 1.0 / 16;                                     // of an element
  const double elements = static_cast<double>(tile.m) * tile.n;
  const double products = elements * kGemmDepth / products_a_cycle;
  const auto at_once = static_cast<double>((blocks + multiprocessors - 1) / multiprocessors);  // on the busiest one
  const double hidden = std::min(at_once, 3.0);  // blocks whose overheads run beside one another
  return at_once * (steps * (products + step_overhead / hidden) + block_overhead / hidden + elements * store);
}

// Of the overheads of a block that are in the model above and not in that of direct_gemm_*: a guess, as they are.
constexpr double kDirectOverhead = 1400;

// Whether the grids are those that CUDA takes.
bool fits(long long batches, int m, int n, int parts, GemmTile tile) {
  return static_cast<unsigned>(ceil_div(n, tile.n)) <= kMostY && batches * parts <= kMostZ &&
         static_cast<long long>(m) * ((n + 3) / 4) < (1LL << 31);
}

}  // namespace

bool gemm_has_tile(Storage storage, GemmLayout layout, GemmTile tile) {
  if (layout == GemmLayout::km && storage != Storage::f32) return false;
  return tile.m == tile.n || (storage != Storage::f32 && layout == GemmLayout::nk);
}

std::string GemmPlan::variant() const { return direct ? direct->variant() : tile_variant(tile.m, tile.n, parts); }

std::vector<GemmPlan> gemm_plans(Storage storage, GemmLayout layout, long long batches, int m, int n, int k,
                                 int multiprocessors, bool direct) {
  std::vector<ModelledPlan<GemmPlan>> all;
  size_t best = 0;
  const int steps = std::max(1, ceil_div(k, kGemmDepth));
  for (const GemmTile tile : kGemmTiles) {
    if (!gemm_has_tile(storage, layout, tile)) continue;
    const long long blocks = batches * ceil_div(m, tile.m) * ceil_div(n, tile.n);
    for (int parts = 1; parts <= 16 && parts <= steps; parts *= 2) {
      const int part_steps = ceil_div(steps, parts), used = ceil_div(steps, part_steps);
      if (!fits(batches, m, n, used, tile)) continue;
      double cycles = expected_cycles(storage, tile, blocks * used, part_steps, multiprocessors);
      // Another launch, and sums written and read at about 32 bytes a cycle and multiprocessor.
      if (used > 1)
        cycles += 3000 + static_cast<double>(batches) * m * n * used * 8 / 32 / std::min(multiprocessors, 64);
      all.push_back({{tile, used, part_steps * kGemmDepth}, cycles});
      if (cycles < all[best].cycles) best = all.size() - 1;
    }
  }
  if (direct) {
    for (const DirectGemmPlan& plan : direct_gemm_plans(storage, m, n, k)) {
      all.push_back({{{plan.rows, plan.columns}, 1, steps * kGemmDepth, plan},
                     kDirectOverhead + plan.cycles(m, n, k, multiprocessors)});
      if (all.back().cycles < all[best].cycles) best = all.size() - 1;
    }
  }
  return all.empty() ? std::vector<GemmPlan>() : worth_timing(std::move(all), best);
}

size_t gemm_partial_bytes(const GemmArguments& p) {
  if (p.parts <= 1) return 0;
  return sizeof(float) * static_cast<size_t>(p.parts) * static_cast<size_t>(p.outer) * static_cast<size_t>(p.inner) *
         static_cast<size_t>(p.m) * static_cast<size_t>(p.n);
}

std::string gemm_name(Storage storage, GemmLayout layout, GemmTile tile) {
  const char* const by = layout == GemmLayout::nk ? "" : layout == GemmLayout::kn ? "kn_" : "km_";
  return fmt::format("gemm_{}{}_{}x{}", by, storage_name(storage), tile.m, tile.n);
}

DirectGemmArguments direct_gemm_of(const GemmArguments& p) {
  return {.a = p.a,
          .b = p.b,
          .bias = p.bias,
          .y = p.y,
          .rows = p.m,
          .columns = p.n,
          .depth = p.k,
          .b_column = static_cast<int>(p.b_stride),
          .a_stride = p.a_stride,
          .b_slice = kDirectSlice,
          .epilogue = p.epilogue};
}

bool gemm_accepts(const GemmArguments& p, GemmTile tile) {
  return fits(static_cast<long long>(p.outer) * p.inner, p.m, p.n, p.parts, tile);
}

KernelLaunch gemm_launch(const GemmArguments& p, GemmTile tile) {
  return {.grid_x = static_cast<unsigned>(ceil_div(p.m, tile.m)),
          .grid_y = static_cast<unsigned>(ceil_div(p.n, tile.n)),
          .grid_z = static_cast<unsigned>(p.outer * p.inner * p.parts),
          .threads = kThreads};
}

KernelLaunch gemm_sum_launch(const GemmArguments& p) {
  const long long fours = static_cast<long long>(p.m) * ((p.n + 3) / 4);
  return {.grid_x = static_cast<unsigned>((fours + kThreads - 1) / kThreads),
          .grid_y = static_cast<unsigned>(p.outer * p.inner),
          .threads = kThreads};
}

}  // namespace sparkpilot::cuda
