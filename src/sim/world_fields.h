// Worlds as arrays of numbers, floats but for tests: in groups of `lanes` worlds, each group [field][world], the groups
// behind each other (sim/world-inl.h says why a world is nothing but numbers).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace sparkpilot::sim {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
template <class Real>
using AlignedNumbers = std::unique_ptr<Real, FreeMemory>;
// Zeros, aligned to 64 bytes.
template <class Real>
AlignedNumbers<Real> aligned_numbers(int64_t count) {
  const size_t bytes = (static_cast<size_t>(count) * sizeof(Real) + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, bytes);
  if (!memory) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return AlignedNumbers<Real>(static_cast<Real*>(memory));
}

// The numbers of a T of Reals.
template <class T, class Real = double>
inline constexpr int64_t kFieldsOf = sizeof(T) / sizeof(Real);

template <class From = double, class T, class To>
void put_fields(const T& from, int64_t world, int64_t lanes, To* to) {
  constexpr int64_t kFields = kFieldsOf<T, From>;
  From values[kFields];
  std::memcpy(values, &from, sizeof(T));
  to += world / lanes * kFields * lanes + world % lanes;
  for (int64_t f = 0; f < kFields; ++f) to[f * lanes] = static_cast<To>(values[f]);
}

// Where the first row of a world lies, in groups of [row][field][world]; put_row() returns where the next one does.
template <class Row>
float* rows_of(float* to, int64_t world, int64_t lanes, int64_t rows) {
  return to + world / lanes * rows * kFieldsOf<Row> * lanes + world % lanes;
}
template <class Row>
float* put_row(const Row& row, int64_t lanes, float* to) {
  double values[kFieldsOf<Row>];
  std::memcpy(values, &row, sizeof(row));
  for (int64_t f = 0; f < kFieldsOf<Row>; ++f, to += lanes) *to = static_cast<float>(values[f]);
  return to;
}

template <class T, class From>
T get_fields(const From* from, int64_t world, int64_t lanes) {
  double values[kFieldsOf<T>];
  from += world / lanes * kFieldsOf<T> * lanes + world % lanes;
  for (int64_t f = 0; f < kFieldsOf<T>; ++f) values[f] = from[f * lanes];
  T out;
  std::memcpy(static_cast<void*>(&out), values, sizeof(out));
  return out;
}

}  // namespace sparkpilot::sim
