// Maps the elements of a broadcast output to those of an op's operands.
//
// A Broadcast is made in `prepare`. Adjacent dimensions with the same pattern for all operands are merged, so that most
// ops have one to three left. The innermost dimension is a run: within it an operand steps by 1 or, if it is broadcast,
// by 0. Kernels iterate over runs (for_runs), or use block() to make an operand's elements contiguous.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

class Broadcast {
 public:
  // Every operand must broadcast to `output`.
  Broadcast(const Shape& output, std::span<const Shape> operands);

  int64_t elements() const { return elements_; }  // of the output
  int64_t run() const { return dims_[last()]; }
  // Operand k's step within a run: 0 or 1.
  int64_t step(int k) const { return strides_[static_cast<size_t>(k)][last()]; }
  // Operand k has the output's shape.
  bool dense(int k) const { return dense_[static_cast<size_t>(k)]; }
  // Operand k has one element.
  bool scalar(int k) const { return scalar_[static_cast<size_t>(k)]; }
  // Operand k has the elements of one run, the same in every run.
  bool row(int k) const;
  // Where operand k has the output's element at `position`.
  int64_t offset(int k, int64_t position) const;

  // Calls fn(position, offsets, n) for the parts of runs that cover the output's elements [begin, end): `position` is
  // an index in the output, offsets[i] an index in operand which[i], n the number of elements.
  template <size_t K, typename Fn>
  void for_runs(const std::array<int, K>& which, int64_t begin, int64_t end, Fn&& fn) const;

 private:
  size_t last() const { return static_cast<size_t>(rank_ - 1); }

  int rank_ = 1;  // at least 1
  int64_t elements_ = 0;
  std::array<int64_t, Shape::kMaxRank> dims_{};
  std::vector<std::array<int64_t, Shape::kMaxRank>> strides_;
  std::vector<bool> dense_, scalar_;
};

template <size_t K, typename Fn>
void Broadcast::for_runs(const std::array<int, K>& which, int64_t begin, int64_t end, Fn&& fn) const {
  if (begin >= end) return;
  std::array<const int64_t*, K> strides;
  std::array<int64_t, K> at{};  // of the run's first element
  std::array<int64_t, Shape::kMaxRank> index{};
  for (size_t k = 0; k < K; ++k) strides[k] = strides_[static_cast<size_t>(which[k])].data();
  int64_t rest = begin / run(), inside = begin % run();
  for (size_t d = last(); d-- > 0; rest /= dims_[d]) {
    index[d] = rest % dims_[d];
    for (size_t k = 0; k < K; ++k) at[k] += index[d] * strides[k][d];
  }
  for (int64_t position = begin; position < end;) {
    const int64_t n = std::min(run() - inside, end - position);
    std::array<int64_t, K> offsets = at;
    for (size_t k = 0; k < K; ++k) offsets[k] += inside * strides[k][last()];
    fn(position, offsets, n);
    position += n;
    inside = 0;
    for (size_t d = last(); d-- > 0;) {
      for (size_t k = 0; k < K; ++k) at[k] += strides[k][d];
      if (++index[d] < dims_[d]) break;
      for (size_t k = 0; k < K; ++k) at[k] -= strides[k][d] * dims_[d];
      index[d] = 0;
    }
  }
}

// Elements that a kernel converts or gathers at a time: all its blocks stay in the first-level cache.
inline constexpr int64_t kBlock = 256;

// Operand k's elements for the output's [position, position + n), n <= kBlock, contiguous and as W: in `scratch`, or in
// place if they already are.
template <typename W, typename T>
const W* block(const Broadcast& b, int k, const T* data, int64_t position, int64_t n, W* scratch) {
  const auto value = [](const T& x) { return static_cast<W>(static_cast<Compute<T>>(x)); };
  if (b.dense(k)) {
    if constexpr (std::is_same_v<T, W>) return data + position;
    for (int64_t i = 0; i < n; ++i) scratch[i] = value(data[position + i]);
  } else if (b.scalar(k)) {
    std::fill_n(scratch, n, value(*data));
  } else {
    const int64_t step = b.step(k);
    b.for_runs<1>({k}, position, position + n, [&](int64_t at, const std::array<int64_t, 1>& offset, int64_t count) {
      W* to = scratch + (at - position);
      const T* from = data + offset[0];
      if (step == 0) std::fill_n(to, count, value(*from));
      else
        for (int64_t i = 0; i < count; ++i) to[i] = value(from[i]);
    });
  }
  return scratch;
}

// Returns operand k block by block. What every block has, an element or a short run, is repeated once at construction;
// what lies in memory as it is wanted is read in place.
template <typename W, typename T>
class Blocks {
 public:
  Blocks(const Broadcast& plan, int k, const T* data) : plan_(plan), k_(k), data_(data) {
    if (plan.dense(k) && std::is_same_v<T, W>) return;
    if (plan.scalar(k)) repeat(1);
    else if (plan.row(k) && plan.run() <= kBlock && plan.elements() >= 4 * kBlock) repeat(plan.run());
  }
  const W* at(int64_t position, int64_t n) {
    if (period_ > 0) return scratch_ + position % period_;
    if constexpr (std::is_same_v<T, W>) {
      if (plan_.dense(k_)) return data_ + position;
      const int64_t run = position / plan_.run();
      if (position + n <= (run + 1) * plan_.run()) {
        if (plan_.step(k_) == 1) return data_ + plan_.offset(k_, position);
        if (run != filled_) std::fill_n(scratch_, std::min(kBlock, plan_.run()), data_[plan_.offset(k_, position)]);
        filled_ = run;
        return scratch_;
      }
      filled_ = -1;
    }
    return block(plan_, k_, data_, position, n, scratch_);
  }

 private:
  void repeat(int64_t period) {
    period_ = period;
    const int64_t count = std::min(kBlock, plan_.elements()) + period - 1;
    for (int64_t i = 0; i < period; ++i) scratch_[i] = static_cast<W>(static_cast<Compute<T>>(data_[i]));
    for (int64_t i = period; i < count; ++i) scratch_[i] = scratch_[i - period];
  }

  const Broadcast& plan_;
  int k_;
  const T* data_;
  int64_t period_ = 0;   // of the repeated elements; 0: not repeated
  int64_t filled_ = -1;  // the run whose one element scratch_ holds
  alignas(64) W scratch_[2 * kBlock];
};

}  // namespace sparkpilot
