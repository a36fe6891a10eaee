// A driving model's inputs from the past: queues of pictures, features, desires and curvatures, sampled as each era's
// network expects (openpilot: selfdrive/modeld/modeld.py).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sparkpilot::drive {

// The last `length` rows of `width` values each; zeros at first. One thread at a time; allocates only in its
// constructor.
template <typename T>
class History {
 public:
  History(int length, size_t width) : length_(length), width_(width), rows_(static_cast<size_t>(length) * width) {}

  int length() const { return length_; }
  void push(std::span<const T> row);
  // The row pushed `age` pushes ago: 0 is the newest.
  std::span<const T> row(int age) const;
  // Writes `out.size() / width` rows, oldest first, `stride` pushes apart, the newest of age `newest`.
  void sample(int stride, int newest, std::span<T> out) const;
  // Writes the maximum of each column over groups of `stride` rows, for as many groups, the newest ending at age 0.
  void sample_max(int stride, std::span<T> out) const;
  void reset();

 private:
  int length_;
  size_t width_;
  int at_ = 0;  // where the next row goes
  std::vector<T> rows_;
};

extern template class History<float>;
extern template class History<uint8_t>;

// Index of the desire input from a log's fields: laneChangeDirection (0 none, 1 left, 2 right) and laneChangeState (0
// off, 1 before, 2 starting, 3 finishing) give 0 (none), 3 (left) or 4 (right).
int desire_of_lane_change(int state, int direction);

// A desire is given to the network as a pulse: set in the frame in which it begins, zero in the others.
class DesirePulse {
 public:
  // `desire` in [0, 8), anything else counts as none; index 0 (none) never pulses. Writes eight values.
  void next(int desire, std::span<float> out);
  void reset() { previous_ = 0; }

 private:
  int previous_ = 0;
};

}  // namespace sparkpilot::drive
