#include "runtime/run_value.h"

#include <cstring>

namespace sparkpilot {

Tensor in_file_layout(const RunValue& value) {
  const Shape& shape = value.view.shape;
  const auto* from = static_cast<const std::byte*>(value.view.data);
  const int rank = shape.rank();
  if (!value.channels_last || rank < 3) {
    Tensor copy(value.view.dtype, shape);
    std::memcpy(copy.raw(), from, static_cast<size_t>(value.view.bytes()));
    return copy;
  }
  const int64_t entries = shape[0], channels = shape[rank - 1], places = shape.elements(1, rank - 1);
  std::vector<int64_t> dims{entries, channels};
  dims.insert(dims.end(), shape.begin() + 1, shape.end() - 1);
  Tensor moved(value.view.dtype, Shape(std::span<const int64_t>(dims)));
  auto* to = static_cast<std::byte*>(moved.raw());
  const auto bytes = static_cast<size_t>(storage_bytes(value.view.dtype, 1));
  for (int64_t n = 0; n < entries; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < places; ++p) {
        const auto source = static_cast<size_t>((n * places + p) * channels + c);
        std::memcpy(to, from + source * bytes, bytes);
        to += bytes;
      }
    }
  }
  return moved;
}

}  // namespace sparkpilot
