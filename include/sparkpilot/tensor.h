// Element types, shapes and tensors.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sparkpilot {

// ---------------------------------------------------------------- element types
enum class DType : uint8_t {
  none,  // absent: an optional input or output that is not given
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,  // one byte, 0 or 1
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,  // two in a byte, the first in the low half
  i4,      // two in a byte, the first in the low half
  u4,
  i2,  // four in a byte, the first in the low bits
  u2,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::u2) + 1;

// "f32" ... as this project writes them.
std::string_view name(DType dtype);
// Accepts this project's names, NumPy's ("float32") and ONNX's ("FLOAT"); empty if none fits.
std::optional<DType> parse_dtype(std::string_view text);
// ONNX's number of an element type (TensorProto.DataType), which attributes such as `to` and `dtype` hold; empty for
// types that are not supported (strings, complex numbers) and numbers that ONNX does not define.
std::optional<DType> dtype_from_onnx(int64_t code);
int64_t onnx_code(DType dtype);
int bits(DType dtype);
bool is_float(DType dtype);    // any floating format, 4 to 64 bits
bool is_integer(DType dtype);  // signed or unsigned, not boolean
bool is_signed(DType dtype);
// Bytes of `elements` elements, rounded up to a whole byte for packed types.
int64_t storage_bytes(DType dtype, int64_t elements);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // round to nearest even
inline float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
inline uint16_t float_to_bfloat16(float value) {  // round to nearest even
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// The storage of f16 and bf16. Arithmetic converts to float and rounds once on the way back.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(float_to_half(value)) {}
  operator float() const { return half_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(float_to_bfloat16(value)) {}
  operator float() const { return bfloat16_to_float(bits); }
};

// The type in which arithmetic is done: float for Half and BFloat16, the type itself otherwise.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, Half>) return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, uint16_t>) return DType::u16;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  else if constexpr (std::is_same_v<T, uint64_t>) return DType::u64;
  else if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  else static_assert(!sizeof(T), "no dtype for this type");
}

// One element of any dtype as a double (exact for all but 64-bit integers), and back with saturation as ONNX's Cast
// defines it for the small floats. `index` counts elements; packed types are handled. Slow: for references and tests.
double load_element(DType dtype, const void* data, int64_t index);
void store_element(DType dtype, void* data, int64_t index, double value, bool saturate = true);

// ---------------------------------------------------------------- shapes
// Up to eight non-negative dimensions, stored in place.
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  // A tensor with more elements than this is refused wherever its shape is made.
  static constexpr int64_t kMaxElements = int64_t{1} << 38;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  // Fails (user) on a rank above kMaxRank, a negative dimension, or more than kMaxElements elements.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  // `axis` in [0, rank).
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  void set(int axis, int64_t size) { dims_[static_cast<size_t>(axis)] = size; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  int64_t elements() const { return elements(0, rank_); }
  // Product of the dimensions [first, last).
  int64_t elements(int first, int last) const;
  // Elements between neighbours along each axis of a dense tensor.
  std::array<int64_t, kMaxRank> strides() const;

  Shape with(int axis, int64_t size) const;
  Shape inserted(int axis, int64_t size) const;
  Shape removed(int axis) const;
  bool operator==(const Shape& other) const;
  std::string str() const;  // "[1,3,224,224]"

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// NumPy's broadcast of two shapes; fails (user) if two dimensions do not fit each other.
Shape broadcast(const Shape& a, const Shape& b);
// An axis, counted from the end if negative, as an index in [0, rank); fails (user) outside [-rank, rank).
int normalize_axis(int64_t axis, int rank);

// ---------------------------------------------------------------- tensors
// Dense tensors: an owned, shared buffer (Tensor) and non-owning views (View, ConstView). All are row-major without
// gaps. A Tensor is a cheap handle: copies share the bytes. Data starts on a 64-byte boundary and the buffer has 64
// readable bytes after its end, so vector kernels may read (never write) past the last element.
inline constexpr size_t kAlignment = 64;

// Bytes of memory the machine has.
int64_t physical_memory();

// Where memory is, and who can read and write it.
enum class Place : uint8_t {
  host,     // the processor's; a device copies from it through the driver's own pinned memory
  pinned,   // the processor's, never swapped out: a device copies from and to it directly
  device,   // the device's: the processor cannot reach it
  unified,  // processor and device both reach it at the same address (GB10)
};
std::string_view name(Place place);
constexpr bool host_reaches(Place place) { return place != Place::device; }
constexpr bool device_reaches(Place place) { return place == Place::device || place == Place::unified; }

// Aligned memory, and where it is.
class Buffer {
 public:
  // The processor's memory. Fails (user) if more than the machine's physical memory is asked for.
  explicit Buffer(int64_t bytes);
  // Memory that somebody else allocated, on a 64-byte boundary and with 64 readable bytes after its end; `release`
  // gives it back when the last tensor is gone.
  Buffer(Place place, std::byte* data, int64_t bytes, std::function<void()> release);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  Place place() const { return place_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  Place place_ = Place::host;
  std::function<void()> release_;
};

namespace detail {
[[noreturn]] void fail_dtype(std::string_view what, DType has, DType asked);
[[noreturn]] void fail_place(Place place);
[[noreturn]] void fail_count(size_t values, const Shape& shape);
}  // namespace detail

struct ConstView {
  DType dtype = DType::none;
  Shape shape = {};
  const void* data = nullptr;
  bool present() const { return dtype != DType::none; }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return storage_bytes(dtype, elements()); }
};

struct View {
  DType dtype = DType::none;
  Shape shape = {};
  void* data = nullptr;
  bool present() const { return dtype != DType::none; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return storage_bytes(dtype, elements()); }
  operator ConstView() const { return {dtype, shape, data}; }
};

class Tensor {
 public:
  Tensor() = default;
  // Own, uninitialised memory; for packed types the last byte is zero, so bits after the last element are too.
  Tensor(DType dtype, const Shape& shape);
  // Shares `buffer` from `offset`.
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer, int64_t offset);

  static Tensor zeros(DType dtype, const Shape& shape);
  template <typename T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <typename T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor scalar(T value) {
    return of<T>(Shape{}, {value});
  }
  // A one-dimensional i64 tensor.
  static Tensor ints(std::span<const int64_t> values) {
    return of<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
  }
  static Tensor ints(std::initializer_list<int64_t> v) { return ints(std::span<const int64_t>(v.begin(), v.size())); }

  bool present() const { return dtype_ != DType::none; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return storage_bytes(dtype_, elements()); }
  // The processor can reach what raw(), view() and data() give only if host_reaches(place()).
  Place place() const { return buffer_ ? buffer_->place() : Place::host; }
  void* raw() const { return data_; }
  View view() const { return {dtype_, shape_, data_}; }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  // Fails (internal) if T is not the tensor's dtype, or the processor cannot reach the memory.
  template <typename T>
  std::span<T> data() const {
    if (!host_reaches(place())) detail::fail_place(place());
    if (dtype_of<T>() != dtype_) detail::fail_dtype("tensor", dtype_, dtype_of<T>());
    return {static_cast<T*>(data_), static_cast<size_t>(elements())};
  }
  // i32 or i64 contents as i64; fails (user) on another dtype.
  std::vector<int64_t> to_ints() const;
  // Any one-element tensor as a double; fails (user) on more or fewer elements.
  double to_scalar() const;

  // The same bytes with another shape of the same number of elements.
  Tensor reshaped(const Shape& shape) const;
  // A copy with its own memory, on the host. Fails (internal) if the processor cannot reach the tensor's.
  Tensor clone() const;

 private:
  DType dtype_ = DType::none;
  Shape shape_;
  std::shared_ptr<Buffer> buffer_;
  void* data_ = nullptr;
};

template <typename T>
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  Tensor out(dtype_of<T>(), shape);
  if (out.elements() != static_cast<int64_t>(values.size())) detail::fail_count(values.size(), shape);
  std::copy(values.begin(), values.end(), out.data<T>().begin());
  return out;
}

// A copy converted to another dtype, as ONNX's Cast converts (round to nearest even, saturating small floats). Fails
// (internal) if the processor cannot reach the tensor's memory.
Tensor convert(const Tensor& tensor, DType dtype);

}  // namespace sparkpilot
