#include "train/sampler.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace sparkpilot::train {

Sampler::Sampler(int64_t size, uint64_t seed, bool shuffle) : size_(size), seed_(seed), shuffle_(shuffle) {
  if (size < 1) fail("there are no samples");
  if (size > int64_t{1} << 32) fail("{} samples, at most 2^32 can be shuffled", size);
}

int64_t Sampler::at(int64_t position) {
  const int64_t epoch = position / size_, place = position % size_;
  if (!shuffle_) return place;
  if (epoch != epoch_) {
    // Fisher and Yates, with words that depend on seed, epoch and place only.
    order_.resize(static_cast<size_t>(size_));
    std::iota(order_.begin(), order_.end(), 0u);
    for (uint64_t i = order_.size() - 1; i > 0; --i) {
      const auto words = philox4x32(seed_, static_cast<uint64_t>(epoch) << 32 | i);
      std::swap(order_[i], order_[(uint64_t{words[0]} << 32 | words[1]) % (i + 1)]);
    }
    epoch_ = epoch;
  }
  return order_[static_cast<size_t>(place)];
}

}  // namespace sparkpilot::train
