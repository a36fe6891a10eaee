// Worlds as arrays of floats: in groups of `lanes` worlds, each group [field][world], the groups behind each other
// (sim/world-inl.h says why a world is nothing but numbers).
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

namespace sparkpilot::sim {

// The numbers of a T of doubles.
template <class T>
inline constexpr int64_t kFieldsOf = sizeof(T) / sizeof(double);

template <class T>
void put_fields(const T& from, int64_t world, int64_t lanes, float* to) {
  double values[kFieldsOf<T>];
  std::memcpy(values, &from, sizeof(T));
  to += world / lanes * kFieldsOf<T> * lanes + world % lanes;
  for (int64_t f = 0; f < kFieldsOf<T>; ++f) to[f * lanes] = static_cast<float>(values[f]);
}

// The rows of a world, in groups of [row][field][world].
template <class Row>
void put_rows(const std::vector<Row>& rows, int64_t world, int64_t lanes, float* to) {
  to += world / lanes * std::ssize(rows) * kFieldsOf<Row> * lanes + world % lanes;
  for (const Row& row : rows) {
    double values[kFieldsOf<Row>];
    std::memcpy(values, &row, sizeof(row));
    for (int64_t f = 0; f < kFieldsOf<Row>; ++f, to += lanes) *to = static_cast<float>(values[f]);
  }
}

template <class T>
T get_fields(const float* from, int64_t world, int64_t lanes) {
  double values[kFieldsOf<T>];
  from += world / lanes * kFieldsOf<T> * lanes + world % lanes;
  for (int64_t f = 0; f < kFieldsOf<T>; ++f) values[f] = from[f * lanes];
  T out;
  std::memcpy(static_cast<void*>(&out), values, sizeof(out));
  return out;
}

}  // namespace sparkpilot::sim
