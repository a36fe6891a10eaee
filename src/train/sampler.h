// The order in which training takes samples.
#pragma once

#include <cstdint>
#include <vector>

namespace sparkpilot::train {

// Permutations of [0, size), another one each epoch, one after the other. A position counts the samples taken since the
// beginning of training, so the state of a run is the seed and one number. The same on every machine.
class Sampler {
 public:
  // Without `shuffle` every epoch is 0, 1, 2, ... Fails (user) if the size is less than 1 or above 2^32.
  Sampler(int64_t size, uint64_t seed, bool shuffle = true);

  // The sample at a position. Takes a moment at the beginning of an epoch, as the epoch's order is made then.
  int64_t at(int64_t position);
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;  // of order_
  std::vector<uint32_t> order_;
};

}  // namespace sparkpilot::train
