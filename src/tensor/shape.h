// Shapes: up to eight non-negative dimensions, held in place.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace sparkpilot {

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

// NumPy's broadcast of two shapes; fails (user) where a dimension fits neither.
Shape broadcast(const Shape& a, const Shape& b);
// An axis counted from the end where negative, as an index in [0, rank); fails (user) outside [-rank, rank).
int normalize_axis(int64_t axis, int rank);

}  // namespace sparkpilot
