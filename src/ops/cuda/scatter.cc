#include "ops/cuda/scatter.h"

#include <algorithm>

namespace sparkpilot::cuda {
namespace {

unsigned blocks_of_row(const ScatterArguments& a) { return (a.inner + a.threads - 1) / a.threads; }

}  // namespace

ScatterArguments make_scatter(const void* x, const void* indices, bool wide_indices, const void* updates, void* y,
                              std::span<const int64_t> sizes, int64_t count, int64_t inner, bool add) {
  ScatterArguments out{};
  out.x = x, out.indices = indices, out.updates = updates, out.y = y;
  out.wide_indices = wide_indices, out.add = add;
  out.depth = static_cast<int>(sizes.size());
  out.rows = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    out.sizes[d] = static_cast<int>(sizes[d]);
    out.rows *= static_cast<unsigned>(sizes[d]);
  }
  out.count = static_cast<int>(count);
  out.inner = static_cast<unsigned>(inner);
  out.threads = std::min(128U, (out.inner + 31) / 32 * 32);
  return out;
}

KernelLaunch scatter_launch(const ScatterArguments& arguments) {
  return {.grid_x = arguments.rows * blocks_of_row(arguments), .threads = arguments.threads};
}

int64_t scatter_reads(const ScatterArguments& arguments) {
  return int64_t{arguments.rows} * blocks_of_row(arguments) * (arguments.threads / 32) * arguments.count *
         arguments.depth;
}

}  // namespace sparkpilot::cuda
