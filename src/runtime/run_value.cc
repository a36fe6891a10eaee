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
  const DType dtype = value.view.dtype;
  Tensor moved(dtype, Shape(std::span<const int64_t>(dims)));
  auto* to = static_cast<std::byte*>(moved.raw());
  const bool packed = bits(dtype) < 8;  // several elements in a byte
  const size_t bytes = packed ? 0 : static_cast<size_t>(storage_bytes(dtype, 1));
  int64_t at = 0;
  for (int64_t n = 0; n < entries; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < places; ++p, ++at) {
        const int64_t source = (n * places + p) * channels + c;
        if (packed) store_element(dtype, to, at, load_element(dtype, from, source));
        else std::memcpy(to + static_cast<size_t>(at) * bytes, from + static_cast<size_t>(source) * bytes, bytes);
      }
    }
  }
  return moved;
}

}  // namespace sparkpilot
