// The first samples of others: to see whether a model can learn anything by heart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "train/samples.h"

namespace sparkpilot::train {

class FirstSamples : public Samples {
 public:
  // At most `count` of `all`, which must outlive it.
  FirstSamples(const Samples& all, int64_t count) : all_(all), count_(std::min(count, all.size())) {}
  std::span<const Field> fields() const override { return all_.fields(); }
  int64_t size() const override { return count_; }
  void begin_epoch(int64_t epoch) const override { all_.begin_epoch(epoch); }
  void read(int64_t index, std::span<std::byte* const> to) const override { all_.read(index, to); }

 private:
  const Samples& all_;
  int64_t count_;
};

}  // namespace sparkpilot::train
