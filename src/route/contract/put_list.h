// Writes numbers into a message's list.
#pragma once

#include <cstddef>
#include <span>

namespace sparkpilot::drive {

// `init` makes the list with a given length and returns its builder.
template <typename Init>
void put(Init&& init, std::span<const float> values) {
  auto list = init(static_cast<unsigned>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) list.set(static_cast<unsigned>(i), values[i]);
}

// Every `stride`-th of `values` from `first` on.
template <typename Init>
void put(Init&& init, std::span<const float> values, int first, int stride, int count) {
  auto list = init(static_cast<unsigned>(count));
  for (int i = 0; i < count; ++i) {
    const int at = first + i * stride;
    list.set(static_cast<unsigned>(i), values[static_cast<size_t>(at)]);
  }
}

}  // namespace sparkpilot::drive
