#include "ops/cuda/gather.h"

#include <limits>

#include "base/error.h"

namespace sparkpilot::cuda {
namespace {

unsigned checked(int64_t elements) {
  if (elements > std::numeric_limits<int>::max()) fail_internal("{} elements for a kernel", elements);
  return static_cast<unsigned>(elements);
}
KernelLaunch launch(unsigned threads) { return {.grid_x = (threads + 127) / 128, .threads = 128}; }

}  // namespace

GatherArguments make_gather(const void* x, const void* indices, bool wide_indices, void* y, int bytes, int64_t outer,
                            int64_t size, int64_t inner, int64_t count) {
  int unit = 16;
  while (unit > bytes && (!is_aligned(x, unit) || !is_aligned(y, unit) || inner * bytes % unit != 0)) unit /= 2;
  inner = inner * bytes / unit;
  GatherArguments out{};
  out.x = x, out.indices = indices, out.y = y;
  out.wide_indices = wide_indices;
  out.size = static_cast<int>(checked(size));
  out.units = checked(outer * count * inner);
  out.inner = make_divisor(inner), out.count = make_divisor(count);
  out.unit = unit;
  return out;
}
KernelLaunch gather_launch(const GatherArguments& arguments) { return launch(arguments.units); }

GatherElementsArguments make_gather_elements(const void* x, const void* indices, bool wide_indices, void* y, int bytes,
                                             const std::vector<int64_t>& x_sizes, const std::vector<int64_t>& y_sizes,
                                             int axis) {
  std::vector<int64_t> strides = contiguous_strides(x_sizes);
  const auto at = static_cast<size_t>(axis);
  GatherElementsArguments out{};
  out.x = x, out.indices = indices, out.y = y;
  out.size = static_cast<int>(checked(x_sizes[at])), out.stride = static_cast<int>(checked(strides[at]));
  strides[at] = 0;
  const StridedLoops loops = StridedLoops{.sizes = y_sizes, .strides = {strides, contiguous_strides(y_sizes)}}.merged();
  out.dimensions = make_dimensions(loops);
  set_strides(out.strides, loops.strides[0]);
  out.elements = checked(loops.elements());
  out.wide_indices = wide_indices;
  out.bytes = bytes;
  return out;
}
KernelLaunch gather_elements_launch(const GatherElementsArguments& arguments) { return launch(arguments.elements); }

ResizeArguments make_resize(const void* x, void* y, int64_t outer, int64_t x_rows, int64_t x_columns, int64_t inner,
                            int64_t y_rows, int64_t y_columns, const ResizeTable& rows, const ResizeTable& columns) {
  ResizeArguments out{};
  out.x = x, out.y = y;
  out.rows = rows, out.columns = columns;
  checked(outer * x_rows * x_columns * inner);
  out.outer = static_cast<int>(outer), out.inner = static_cast<int>(inner);
  out.x_rows = static_cast<int>(x_rows), out.x_columns = static_cast<int>(x_columns);
  out.y_rows = make_divisor(y_rows), out.y_columns = make_divisor(y_columns);
  out.wide = inner % 8 == 0 && is_aligned(x, 16) && is_aligned(y, 16);
  const int64_t vectors = out.wide ? inner / 8 : inner;
  out.vectors = make_divisor(vectors);
  out.threads = checked(outer * y_rows * y_columns * vectors);
  return out;
}
KernelLaunch resize_launch(const ResizeArguments& arguments) { return launch(arguments.threads); }

}  // namespace sparkpilot::cuda
