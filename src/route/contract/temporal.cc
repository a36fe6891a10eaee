#include "route/contract/temporal.h"

#include <algorithm>

#include "route/contract/outputs.h"

namespace sparkpilot::drive {

template <typename T>
void History<T>::push(std::span<const T> row) {
  std::copy_n(row.begin(), width_, rows_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(at_) * width_));
  at_ = (at_ + 1) % length_;
}

template <typename T>
std::span<const T> History<T>::row(int age) const {
  const int index = (at_ + length_ - 1 - age % length_) % length_;
  return {rows_.data() + static_cast<size_t>(index) * width_, width_};
}

template <typename T>
void History<T>::sample(int stride, int newest, std::span<T> out) const {
  const int count = static_cast<int>(out.size() / width_);
  for (int i = 0; i < count; ++i) {
    const std::span<const T> from = row(newest + (count - 1 - i) * stride);
    std::copy(from.begin(), from.end(), out.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * width_));
  }
}

template <typename T>
void History<T>::sample_max(int stride, std::span<T> out) const {
  sample(stride, 0, out);
  const int count = static_cast<int>(out.size() / width_);
  for (int i = 0; i < count; ++i) {
    for (int k = 1; k < stride; ++k) {
      const std::span<const T> from = row((count - 1 - i) * stride + k);
      T* to = out.data() + static_cast<size_t>(i) * width_;
      for (size_t c = 0; c < width_; ++c) to[c] = std::max(to[c], from[c]);
    }
  }
}

template <typename T>
void History<T>::reset() {
  std::fill(rows_.begin(), rows_.end(), T{});
  at_ = 0;
}

template class History<float>;
template class History<uint8_t>;

int desire_of_lane_change(int state, int direction) {
  const bool changing = state == 2 || state == 3;
  return !changing || direction < 1 || direction > 2 ? 0 : 2 + direction;
}

void DesirePulse::next(int desire, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  if (desire <= 0 || desire >= kDesires) desire = 0;
  if (desire != 0 && desire != previous_) out[static_cast<size_t>(desire)] = 1;
  previous_ = desire;
}

}  // namespace sparkpilot::drive
