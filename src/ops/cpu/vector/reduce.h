// Reductions: which elements of a tensor are reduced to which output, and the fast kernels for floats.
#pragma once

#include <algorithm>
#include <array>

#include "ir/op.h"

namespace sparkpilot {

enum class Reduce : uint8_t { sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp };

// The axes of a reduction, with adjacent axes of one kind merged. The innermost group of axes is a run of `inner()`
// contiguous elements, either reduced to one output (inner_reduced) or kept as that many adjacent outputs.
class ReducePlan {
 public:
  // Bit i of `axes`: axis i is reduced.
  ReducePlan(const Shape& shape, uint32_t axes);

  int64_t outputs() const { return outputs_; }
  int64_t count() const { return count_; }  // elements that are reduced to one output
  bool inner_reduced() const { return inner_reduced_; }
  int64_t inner() const { return inner_; }

  // The input offset of the group'th output (inner_reduced) or of the group'th row of inner() outputs.
  int64_t base(int64_t group) const {
    if (kept_.rank <= 1) return group * kept_.strides[0];  // no division
    int64_t offset = 0;
    for (int d = kept_.rank - 1; d >= 0; --d) {
      offset += group % kept_.dims[at(d)] * kept_.strides[at(d)];
      group /= kept_.dims[at(d)];
    }
    return offset;
  }

  // How many outputs in a row have runs that lie side by side (inner_reduced); 1 if none do.
  int64_t adjacent() const {
    if (kept_.rank == 0 || kept_.strides[at(kept_.rank - 1)] != inner_) return 1;
    return kept_.dims[at(kept_.rank - 1)];
  }
  // Whether each output is the reduction of a single run.
  bool single_run() const { return reduced_.rank == 0 && count_ > 0; }
  // Runs that are reduced to one output.
  int64_t runs() const { return inner_reduced_ ? (inner_ == 0 ? 0 : count_ / inner_) : count_; }
  // How many runs, of the innermost reduced axis outside them, lie side by side; 1 if none do.
  int64_t touching_runs() const {
    if (reduced_.rank == 0 || reduced_.strides[at(reduced_.rank - 1)] != inner_) return 1;
    return reduced_.dims[at(reduced_.rank - 1)];
  }
  // Calls fn(offset) for every run that is reduced into the outputs at `base`; never if count() is 0.
  template <typename Fn>
  void each_run(int64_t base, Fn&& fn) const {
    if (count_ > 0) each_runs(base, 0, runs(), 1, [&](int64_t offset, int64_t) { fn(offset); });
  }
  // Calls fn(offset, n) for the runs [first, last) of the outputs at `base`, n of them at a time that lie side by side,
  // at most `most`, which is 1 where they do not touch.
  template <typename Fn>
  void each_runs(int64_t base, int64_t first, int64_t last, int64_t most, Fn&& fn) const {
    std::array<int64_t, Shape::kMaxRank> index{};
    int64_t offset = base, left = last - first, rest = first;
    for (int d = reduced_.rank - 1; d >= 0 && rest > 0; --d) {
      index[at(d)] = rest % reduced_.dims[at(d)];
      offset += index[at(d)] * reduced_.strides[at(d)];
      rest /= reduced_.dims[at(d)];
    }
    while (left > 0) {
      int d = reduced_.rank - 1;
      const int64_t n = d < 0 ? 1 : std::min({most, left, reduced_.dims[at(d)] - index[at(d)]});
      fn(offset, n);
      left -= n;
      for (int64_t steps = n; d >= 0; --d, steps = 1) {
        offset += steps * reduced_.strides[at(d)];
        if ((index[at(d)] += steps) < reduced_.dims[at(d)]) break;
        offset -= reduced_.strides[at(d)] * reduced_.dims[at(d)];
        index[at(d)] = 0;
      }
    }
  }

 private:
  struct Axes {
    int rank = 0;
    std::array<int64_t, Shape::kMaxRank> dims{}, strides{};
  };
  static size_t at(int d) { return static_cast<size_t>(d); }

  Axes kept_, reduced_;  // without the innermost group
  bool inner_reduced_ = true;
  int64_t inner_ = 1, outputs_ = 1, count_ = 1;
};

// y = the reduction of x for f32, f16 and bf16 and every kind except prod; in float, with partial sums of blocks.
void reduce_floats(Reduce kind, const ReducePlan& plan, const ConstView& x, const View& y);
// The largest or smallest of n integers or booleans, n > 0; `best` is one of them.
void integer_extreme(bool max, DType dtype, const void* x, int64_t n, void* best);
// As reduce_floats() for integers and booleans, for sum, max and min of at least one element.
void reduce_integers(Reduce kind, const ReducePlan& plan, const ConstView& x, const View& y);

}  // namespace sparkpilot
