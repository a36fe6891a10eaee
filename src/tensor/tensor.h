// Dense tensors: an owned, shared buffer (Tensor) and non-owning views for kernels (View, ConstView).
//
// All are row-major without gaps. A Tensor is a cheap handle: copies share the bytes. Data starts on a 64-byte boundary
// and the buffer has 64 readable bytes behind its end, so vector kernels may read (never write) past the last element.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sparkpilot {

inline constexpr size_t kAlignment = 64;

// Bytes of memory the machine has.
int64_t physical_memory();

// Aligned memory. Fails (user) when more than the machine's physical memory is asked for.
class Buffer {
 public:
  explicit Buffer(int64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0, reserved_ = 0;
};

struct ConstView {
  DType dtype = DType::none;
  Shape shape;
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
  Shape shape;
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
  // Uninitialised memory of its own; of packed types the last byte is zero, so bits behind the last element are too.
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
  void* raw() const { return data_; }
  View view() const { return {dtype_, shape_, data_}; }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  // Fails (internal) when T is not the tensor's dtype.
  template <typename T>
  std::span<T> data() const {
    if (dtype_of<T>() != dtype_) fail_internal("tensor of {} read as {}", name(dtype_), name(dtype_of<T>()));
    return {static_cast<T*>(data_), static_cast<size_t>(elements())};
  }
  // i32 or i64 contents as i64; fails (user) on another dtype.
  std::vector<int64_t> to_ints() const;
  // Any one-element tensor as a double; fails (user) on more or fewer elements.
  double to_scalar() const;

  // The same bytes under another shape with as many elements.
  Tensor reshaped(const Shape& shape) const;
  // A copy with its own memory.
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
  if (out.elements() != static_cast<int64_t>(values.size())) {
    fail("{} values given for shape {}", values.size(), shape.str());
  }
  std::copy(values.begin(), values.end(), out.data<T>().begin());
  return out;
}

// A copy converted to another dtype, as ONNX's Cast converts (round to nearest even, saturating small floats).
Tensor convert(const Tensor& tensor, DType dtype);

}  // namespace sparkpilot
