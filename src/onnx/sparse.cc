// Sparse tensors (SparseTensorProto) become dense ones.
#include <cstring>

#include "onnx/importer.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {
constexpr int kValues = 1, kIndices = 2;
// A few bytes of a hostile file could declare any size.
constexpr int64_t kMaxBytes = int64_t{256} << 20;

// The flat position of entry `i`, given as one flat index or one index per dimension.
int64_t place_of(const Tensor& indices, const Shape& shape, int64_t i) {
  const auto data = indices.data<int64_t>();
  if (indices.shape().rank() == 1) return data[static_cast<size_t>(i)];
  int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t at = data[static_cast<size_t>(i * shape.rank() + axis)];
    if (at < 0 || at >= shape[axis]) fail("sparse index {} is outside of dimension {}", at, shape[axis]);
    place = place * shape[axis] + at;
  }
  return place;
}
}  // namespace

TensorReader::Named read_sparse(Model& model, Range range) {
  onnx::SparseTensorProto proto;
  std::optional<Range> values_at, indices_at;
  for (const Deferred& field : parse_message(model.source, range, proto, {kValues, kIndices}, "sparse tensor")) {
    (field.field == kValues ? values_at : indices_at) = field.bytes;
  }
  if (!values_at || !indices_at) fail("a sparse tensor lacks its values or indices");
  const TensorReader::Named& values = model.tensors.read(*values_at);
  const Tensor& indices = model.tensors.read(*indices_at).tensor;
  try {
    const Shape shape(std::span<const int64_t>(proto.dims().data(), static_cast<size_t>(proto.dims_size())));
    const DType dtype = values.tensor.dtype();
    const int64_t count = values.tensor.elements();
    if (bits(dtype) < 8) throw Unsupported("packed sparse tensors are not supported");
    if (storage_bytes(dtype, shape.elements()) > kMaxBytes) {
      throw Unsupported(fmt::format("a sparse tensor of shape {} is too large to be made dense", shape.str()));
    }
    const bool flat = indices.shape() == Shape{count}, full = indices.shape() == Shape{count, shape.rank()};
    if (values.tensor.shape().rank() != 1 || indices.dtype() != DType::i64 || (!flat && !full)) {
      fail("{} sparse values have indices of {}{}", count, sparkpilot::name(indices.dtype()), indices.shape().str());
    }
    Tensor dense = Tensor::zeros(dtype, shape);
    const size_t size = static_cast<size_t>(storage_bytes(dtype, 1));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = place_of(indices, shape, i);
      if (place < 0 || place >= dense.elements()) fail("sparse index {} is outside of {}", place, shape.str());
      std::memcpy(static_cast<std::byte*>(dense.raw()) + static_cast<size_t>(place) * size,
                  static_cast<const std::byte*>(values.tensor.raw()) + static_cast<size_t>(i) * size, size);
    }
    return {values.name, std::move(dense)};
  } catch (const Error&) {
    rethrow_within(fmt::format("sparse tensor \"{}\": ", values.name));
  }
}

}  // namespace sparkpilot
