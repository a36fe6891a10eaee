#include "onnx/tensor_proto.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "onnx/proto.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensor data is little-endian");

// TensorProto's field numbers.
constexpr int kStringData = 6, kRawData = 9;
constexpr size_t kMaxFiles = 64;

// Any byte other than 0 and 1 would be an invalid bool in C++.
void sanitize(const Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return;
  auto* bytes = static_cast<uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.elements(); ++i) bytes[i] = bytes[i] != 0;
}

// Stores `count` values of a repeated field, each cut to the storage unit To.
template <typename To, typename Field>
void copy_values(const Field& field, const Tensor& out) {
  To* to = static_cast<To*>(out.raw());
  for (int i = 0; i < field.size(); ++i) to[i] = static_cast<To>(field.Get(i));
}

// Allocates only after checking that the number of values fits.
template <typename To, typename Field>
Tensor from_field(const Field& field, DType dtype, const Shape& shape) {
  const int64_t expected = storage_bytes(dtype, shape.elements()) / static_cast<int64_t>(sizeof(To));
  if (field.size() != expected) {
    fail("{}{} needs {} values, {} are given", name(dtype), shape.str(), expected, field.size());
  }
  Tensor out(dtype, shape);
  copy_values<To>(field, out);
  return out;
}

// Values in the typed fields, as small tensors are often written.
Tensor from_fields(const onnx::TensorProto& proto, DType dtype, const Shape& shape) {
  switch (dtype) {
    case DType::f32: return from_field<float>(proto.float_data(), dtype, shape);
    case DType::f64: return from_field<double>(proto.double_data(), dtype, shape);
    case DType::i64: return from_field<int64_t>(proto.int64_data(), dtype, shape);
    case DType::u64: return from_field<uint64_t>(proto.uint64_data(), dtype, shape);
    case DType::u32: return from_field<uint32_t>(proto.uint64_data(), dtype, shape);
    case DType::i32: return from_field<int32_t>(proto.int32_data(), dtype, shape);
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return from_field<uint16_t>(proto.int32_data(), dtype, shape);
    default: return from_field<uint8_t>(proto.int32_data(), dtype, shape);  // one byte each, also if packed
  }
}

int64_t parse_number(const std::string& key, const std::string& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fail("external data has {} \"{}\", expected a number", key, text);
  }
  return value;
}

}  // namespace

DType read_dtype(int type) {
  if (type == onnx::TensorProto::STRING) throw Unsupported("tensors of strings are not supported");
  if (type == onnx::TensorProto::COMPLEX64 || type == onnx::TensorProto::COMPLEX128) {
    throw Unsupported("complex tensors are not supported");
  }
  const std::optional<DType> dtype = dtype_from_onnx(type);
  if (dtype) return *dtype;
  if (type <= 0) fail("element type {} is no type", type);
  throw Unsupported(fmt::format("element type {} is not known", type));
}

Tensor TensorReader::read_external(const onnx::TensorProto& proto, DType dtype, const Shape& shape) {
  const int64_t bytes = storage_bytes(dtype, shape.elements());
  std::string location;
  int64_t offset = 0, length = bytes;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    else if (entry.key() == "offset") offset = parse_number("offset", entry.value());
    else if (entry.key() == "length") length = parse_number("length", entry.value());
  }
  if (folder_.empty()) fail("external data \"{}\" needs a model that is a file", location);
  auto found = files_.find(location);
  if (found == files_.end()) {
    if (files_.size() >= kMaxFiles) files_.clear();  // one file per tensor is common: do not run out of descriptors
    found = files_.emplace(location, External{InputFile::open_beneath(folder_, location)}).first;
    locations_.insert(location);
  }
  External& external = found->second;
  const InputFile& file = external.file;
  if (length != bytes) {
    fail("{}{} needs {} bytes, its external data has length {}", name(dtype), shape.str(), bytes, length);
  }
  if (offset > file.size() || bytes > file.size() - offset) {
    fail("{} bytes wanted at offset {} of \"{}\", which has {}", bytes, offset, file.path().string(), file.size());
  }
  std::shared_ptr<Buffer>& buffer = (dtype == DType::boolean ? external.bools : external.read)[offset];
  if (!buffer || buffer->size() != bytes) {
    // Tensors may share bytes, but a small file must not expand to a huge amount of memory.
    external.bytes += bytes;
    if (external.bytes > 4 * file.size()) fail("tensors overlap too much in \"{}\"", file.path().string());
    buffer = std::make_shared<Buffer>(bytes);
    file.read_at(offset, {buffer->data(), static_cast<size_t>(bytes)});
  }
  return Tensor(dtype, shape, buffer, 0);
}

Tensor TensorReader::read_data(const onnx::TensorProto& proto, const std::optional<Range>& raw) {
  if (proto.has_segment()) throw Unsupported("tensors in segments are not supported");
  const DType dtype = read_dtype(proto.data_type());
  const Shape shape(std::span<const int64_t>(proto.dims().data(), static_cast<size_t>(proto.dims_size())));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) return read_external(proto, dtype, shape);
  if (!raw) return from_fields(proto, dtype, shape);
  const int64_t bytes = storage_bytes(dtype, shape.elements());
  if (raw->length != bytes) fail("{}{} needs {} bytes, {} are given", name(dtype), shape.str(), bytes, raw->length);
  Tensor out(dtype, shape);
  source_.read(raw->offset, {static_cast<std::byte*>(out.raw()), static_cast<size_t>(bytes)});
  return out;
}

const TensorReader::Named& TensorReader::read(Range range) {
  const auto found = done_.find(range.offset);
  if (found != done_.end()) return found->second;
  onnx::TensorProto proto;
  std::optional<Range> raw;
  for (const Deferred& field : parse_message(source_, range, proto, {kStringData, kRawData}, "tensor")) {
    if (field.field == kRawData) raw = field.bytes;
  }
  try {
    Tensor tensor = read_data(proto, raw);
    sanitize(tensor);
    return done_[range.offset] = {proto.name(), std::move(tensor)};
  } catch (const Error&) {
    rethrow_within(fmt::format("tensor \"{}\": ", proto.name()));
  }
}

Tensor load_tensor_proto(const std::filesystem::path& path, std::string* name) {
  FileSource source(path);
  try {
    TensorReader reader(source, path.has_parent_path() ? path.parent_path() : ".");
    const TensorReader::Named& read = reader.read({0, source.size()});
    if (name) *name = read.name;
    return read.tensor;
  } catch (const Error&) {
    rethrow_within(path.string() + ": ");
  }
}

}  // namespace sparkpilot
