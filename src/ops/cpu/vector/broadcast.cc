#include "ops/cpu/vector/broadcast.h"

#include "ops/cpu/vector/strides.h"

namespace sparkpilot {

Broadcast::Broadcast(const Shape& output, std::span<const Shape> operands) : elements_(output.elements()) {
  std::vector<Strides> full;
  for (const Shape& shape : operands) {
    full.push_back(broadcast_strides(shape, output));
    dense_.push_back(shape.elements() == elements_);
    scalar_.push_back(shape.elements() == 1);
  }
  strides_.resize(operands.size());
  rank_ = 0;
  for (int axis = 0; axis < output.rank(); ++axis) {
    const auto from = static_cast<size_t>(axis);
    if (output[axis] == 1) continue;
    // Merge the axis with the previous one if that has, in each operand, the stride of a whole axis of this one.
    bool joins = rank_ > 0;
    for (size_t k = 0; k < operands.size() && joins; ++k) {
      joins = strides_[k][last()] == full[k][from] * output[axis];
    }
    if (!joins) {
      dims_[static_cast<size_t>(rank_++)] = output[axis];
    } else {
      dims_[last()] *= output[axis];
    }
    for (size_t k = 0; k < operands.size(); ++k) strides_[k][last()] = full[k][from];
  }
  if (rank_ == 0) {
    rank_ = 1;
    dims_[0] = 1;
  }
}

bool Broadcast::row(int k) const {
  const auto& strides = strides_[static_cast<size_t>(k)];
  return strides[last()] == 1 &&
         std::all_of(strides.begin(), strides.begin() + rank_ - 1, [](int64_t s) { return s == 0; });
}

int64_t Broadcast::offset(int k, int64_t position) const {
  const auto& strides = strides_[static_cast<size_t>(k)];
  int64_t offset = 0;
  for (int d = rank_ - 1; d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    offset += position % dims_[at] * strides[at];
    position /= dims_[at];
  }
  return offset;
}

}  // namespace sparkpilot
