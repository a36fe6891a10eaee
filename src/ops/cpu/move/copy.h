// Strided copies between arrays of different layouts, shared by Transpose, Slice, Concat, Split, Pad, Expand, Tile and
// DepthToSpace.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ir/op.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// One loop of a copy: `count` steps, with the distance of a step in elements in the source (`from`) and in the
// destination (`to`). The source's step may be zero (broadcast) or negative (reversed); no destination element may be
// written twice.
struct CopyLoop {
  int64_t count = 1, from = 0, to = 0;
};

// Up to kMax loops, without allocation.
class CopyLoops {
 public:
  void add(int64_t count, int64_t from, int64_t to) { loops_[static_cast<size_t>(size_++)] = {count, from, to}; }
  std::span<const CopyLoop> span() const { return {loops_.data(), static_cast<size_t>(size_)}; }
  static constexpr int kMax = 2 * Shape::kMaxRank;

 private:
  std::array<CopyLoop, kMax> loops_{};
  int size_ = 0;
};

// to[to_start + sum i_k to_k] = from[from_start + sum i_k from_k] for all i_k in [0, count_k). The order of the loops
// does not matter: they are sorted and merged here. Contiguous runs are copied by memcpy, transpositions in square
// tiles, the rest element by element; in parallel. Packed dtypes are copied element by element on one thread. Source
// and destination must not overlap.
void copy_strided(DType dtype, const CopyLoops& loops, const void* from, int64_t from_start, void* to,
                  int64_t to_start);

// Sets every element to *value (one element of the dtype; packed dtypes: in the low bits).
void fill(DType dtype, void* to, int64_t count, const void* value);

// The kernel of ops that are views: copies if the runtime gave the output separate memory.
void run_view(const Call& call);

// Reads an i32 or i64 operand (axes, indices) without a copy.
class IntOperand {
 public:
  IntOperand() = default;
  explicit IntOperand(const ConstView& view) : view_(view) {}
  bool present() const { return view_.present(); }
  int64_t size() const { return view_.elements(); }
  int64_t operator[](int64_t i) const {
    return view_.dtype == DType::i64 ? view_.as<int64_t>()[i] : view_.as<int32_t>()[i];
  }

 private:
  ConstView view_;
};

}  // namespace sparkpilot
