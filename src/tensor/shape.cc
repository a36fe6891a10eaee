#include "tensor/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace sparkpilot {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > kMaxRank) fail("rank {} is above the {} supported", dims.size(), kMaxRank);
  int64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) fail("negative dimension {}", dims[i]);
    dims_[i] = dims[i];
    // A zero must not hide an absurd product of the other dimensions, so it counts as one here.
    if (__builtin_mul_overflow(count, std::max<int64_t>(1, dims[i]), &count) || count > kMaxElements) {
      fail("shape [{}] has more than 2^38 elements", fmt::join(dims, ","));
    }
  }
}

int64_t Shape::elements(int first, int last) const {
  int64_t count = 1;
  for (int i = first; i < last; ++i) count *= (*this)[i];
  return count;
}

std::array<int64_t, Shape::kMaxRank> Shape::strides() const {
  std::array<int64_t, kMaxRank> out{};
  int64_t step = 1;
  for (int i = rank_ - 1; i >= 0; --i) {
    out[static_cast<size_t>(i)] = step;
    step *= (*this)[i];
  }
  return out;
}

Shape Shape::with(int axis, int64_t size) const {
  Shape out = *this;
  out.set(axis, size);
  return Shape(out.dims());
}

Shape Shape::inserted(int axis, int64_t size) const {
  std::array<int64_t, kMaxRank + 1> dims{};
  std::copy(begin(), begin() + axis, dims.begin());
  dims[static_cast<size_t>(axis)] = size;
  std::copy(begin() + axis, end(), dims.begin() + axis + 1);
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank_) + 1));
}

Shape Shape::removed(int axis) const {
  std::array<int64_t, kMaxRank> dims{};
  std::copy(begin(), begin() + axis, dims.begin());
  std::copy(begin() + axis + 1, end(), dims.begin() + axis);
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank_) - 1));
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

std::string Shape::str() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) out += (i ? "," : "") + std::to_string((*this)[i]);
  return out + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  std::array<int64_t, Shape::kMaxRank> dims{};
  const int rank = std::max(a.rank(), b.rank());
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1, y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1) fail("shapes {} and {} do not broadcast", a.str(), b.str());
    dims[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank)));
}

int normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) fail("axis {} is outside [-{},{})", axis, rank, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace sparkpilot
