#include "ops/cuda/reduce.h"

#include <algorithm>

#include "ops/cuda/rows.h"

namespace sparkpilot::cuda {
namespace {

constexpr int kColumns = 32;  // that a block reduces

unsigned blocks(long long count, long long of_a_block) {
  return static_cast<unsigned>((count + of_a_block - 1) / of_a_block);
}

}  // namespace

std::optional<ReduceShape> reduce_shape(const std::vector<int64_t>& sizes, uint32_t axes) {
  ReduceShape out;
  bool began = false, ended = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    if (axes >> i & 1) {
      if (ended) return std::nullopt;
      began = true;
      out.size *= sizes[i];
    } else {
      ended = began;
      (began ? out.inner : out.outer) *= sizes[i];
    }
  }
  return out;
}

void set_reduce_parts(ReduceArguments& arguments, int multiprocessors) {
  constexpr int kLeast = 2048;  // elements of a part: less is not worth a second launch
  const bool rows = arguments.inner == 1;
  const long long running =
      rows ? arguments.outer : static_cast<long long>(arguments.outer) * blocks(arguments.inner, kColumns);
  const int least = rows ? kLeast : kLeast / kColumns;
  const long long wanted = std::max(1LL, 2LL * multiprocessors / std::max(1LL, running));
  const long long parts = std::min<long long>({wanted, std::max(1, arguments.size / least), 64});
  arguments.part = static_cast<int>(((arguments.size + parts - 1) / parts + 7) / 8 * 8);
  arguments.parts = std::max(1, (arguments.size + arguments.part - 1) / std::max(arguments.part, 1));
}

size_t reduce_partial_bytes(const ReduceArguments& arguments) {
  if (arguments.parts == 1) return 0;
  return sizeof(float) * 2 * static_cast<size_t>(arguments.parts) * static_cast<size_t>(arguments.outer) *
         static_cast<size_t>(arguments.inner);
}

KernelLaunch reduce_rows_launch(const ReduceArguments& arguments) {
  if (arguments.parts == 1 && arguments.size <= kWarpRow) {
    const unsigned warps = arguments.outer > 1024 ? 4 : 1;
    return {.grid_x = blocks(arguments.outer, warps), .threads = 32 * warps};
  }
  return {.grid_x = static_cast<unsigned>(arguments.outer),
          .grid_y = static_cast<unsigned>(arguments.parts),
          .threads = 128};
}
KernelLaunch reduce_columns_launch(const ReduceArguments& arguments) {
  return {.grid_x = blocks(arguments.inner, kColumns) * static_cast<unsigned>(arguments.outer),
          .grid_y = static_cast<unsigned>(arguments.parts),
          .threads = 256};
}
KernelLaunch reduce_parts_launch(const ReduceArguments& arguments) {
  return {.grid_x = blocks(static_cast<long long>(arguments.outer) * arguments.inner, 32), .threads = 32};
}
KernelLaunch arg_reduce_launch(const ArgReduceArguments& arguments) {
  return {.grid_x = blocks(static_cast<long long>(arguments.outer) * arguments.inner, 4), .threads = 128};
}

}  // namespace sparkpilot::cuda
