#include "train/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>

#include "base/error.h"

namespace sparkpilot::train {
namespace {

std::vector<int64_t> taken(Sampler sampler, int64_t from, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(sampler.at(from + i));
  return out;
}

TEST(Sampler, TakesEverySampleOnceAnEpochInAnotherOrder) {
  const std::vector<int64_t> all = taken({100, 7}, 0, 300);
  std::vector<std::vector<int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back(all.begin() + epoch * 100, all.begin() + (epoch + 1) * 100);
    std::vector<int64_t> sorted = epochs.back(), expected(100);
    std::ranges::sort(sorted);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(sorted, expected);
    EXPECT_NE(epochs.back(), expected);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_NE(all, taken({100, 8}, 0, 300));
  // From any position on, and back.
  EXPECT_EQ(taken({100, 7}, 137, 100), (std::vector<int64_t>(all.begin() + 137, all.begin() + 237)));
  Sampler sampler(100, 7);
  EXPECT_EQ(sampler.at(250), all[250]);
  EXPECT_EQ(sampler.at(3), all[3]);
}

TEST(Sampler, IsTheSameOnEveryMachine) {
  // Computed with Python from the formulas; another order would break what is resumed.
  EXPECT_EQ(taken({6, 1}, 0, 12), (std::vector<int64_t>{1, 2, 3, 0, 5, 4, 4, 2, 0, 3, 5, 1}));
  EXPECT_EQ(taken({1, 5}, 0, 3), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(taken({3, 5, false}, 1, 4), (std::vector<int64_t>{1, 2, 0, 1}));
  EXPECT_THROW(Sampler(0, 1), Error);
}

// Every order of four samples is about as frequent as the others.
TEST(Sampler, HasNoFavouriteOrder) {
  std::map<std::vector<int64_t>, int> counts;
  Sampler sampler(4, 3);
  for (int64_t epoch = 0; epoch < 24'000; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 4; ++i) order.push_back(sampler.at(4 * epoch + i));
    ++counts[order];
  }
  ASSERT_EQ(counts.size(), 24);
  double square = 0;
  for (const auto& [order, count] : counts) square += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(square, 49.7);  // chi-square of 23 degrees of freedom, one in a thousand
}

// Sample i is {i, 2 i} and {i as bytes}.
class Numbers final : public Samples {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  std::span<const Field> fields() const override { return fields_; }
  int64_t size() const override { return size_; }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    if (index == bad) fail("sample {} is damaged", index);
    std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
    const float pair[]{static_cast<float>(index), static_cast<float>(2 * index)};
    std::memcpy(to[0], pair, sizeof pair);
    *to[1] = static_cast<std::byte>(index);
    ++reads;
  }
  int64_t bad = -1;
  int sleep_us = 0;
  mutable std::atomic<int> reads{0};

 private:
  int64_t size_;
  std::vector<Field> fields_{{"pair", DType::f32, {2}}, {"byte", DType::u8, {1, 1}}};
};

TEST(Loader, GivesTheSamplersOrderFromAnyPosition) {
  const Numbers samples(10);
  const std::vector<int64_t> order = taken({10, 4}, 0, 60);
  for (const int64_t first : {0, 12}) {
    Loader loader(samples, {10, 4}, 4, first, 3);
    for (int64_t at = first; at < 48; at += 4) {
      const std::span<const Tensor> batch = loader.next();
      ASSERT_EQ(batch.size(), 2);
      EXPECT_EQ(batch[0].shape(), (Shape{4, 2}));
      EXPECT_EQ(batch[1].shape(), (Shape{4, 1, 1}));
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // the thread goes on meanwhile
      for (size_t i = 0; i < 4; ++i) {
        const int64_t index = order[static_cast<size_t>(at) + i];
        EXPECT_EQ(loader.indices()[i], index);
        EXPECT_EQ(batch[0].data<float>()[2 * i], static_cast<float>(index));
        EXPECT_EQ(batch[0].data<float>()[2 * i + 1], static_cast<float>(2 * index));
        EXPECT_EQ(batch[1].data<uint8_t>()[i], index);
      }
    }
  }
}

TEST(Loader, ReadsAheadAndCountsWaiting) {
  Numbers samples(10);
  samples.sleep_us = 3000;
  Loader loader(samples, {10, 4}, 2, 0, 2);
  loader.next();
  EXPECT_GE(loader.waited_ns(), 5'000'000);  // two samples
  // Two batches ahead of the one in use, and not one more.
  for (int i = 0; i < 6000 && samples.reads < 6; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(samples.reads, 6);
  const int64_t waited = loader.waited_ns();
  loader.next();
  loader.next();
  EXPECT_EQ(loader.waited_ns(), waited);
}

TEST(Loader, FailsWhereTheSampleIsNeeded) {
  Numbers samples(10);
  samples.bad = 5;
  Loader loader(samples, {10, 1, false}, 2);
  loader.next();
  loader.next();
  for (int i = 0; i < 2; ++i) {
    try {
      loader.next();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "sample 5 is damaged");
    }
  }
  EXPECT_THROW(Loader(samples, {10, 1}, 0), Error);
}

TEST(Loader, EndsInTheMiddleOfABatch) {
  Numbers samples(1000);
  samples.sleep_us = 60'000;  // a minute for all of them
  const auto start = std::chrono::steady_clock::now();
  { Loader loader(samples, {1000, 1}, 1000); }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Notes in which epoch each sample was read.
class Epochs final : public Samples {
 public:
  std::span<const Field> fields() const override { return fields_; }
  int64_t size() const override { return 3; }
  void begin_epoch(int64_t epoch) const override { epoch_ = epoch; }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    const int64_t value = 10 * epoch_ + index;
    std::memcpy(to[0], &value, sizeof value);
  }

 private:
  mutable int64_t epoch_ = -1;
  std::vector<Field> fields_{{"x", DType::i64, {}}};
};

TEST(Loader, SaysWhenAnEpochBegins) {
  const Epochs samples;
  Loader loader(samples, Sampler(3, 0, false), 2, 1);
  std::vector<int64_t> got;
  for (int i = 0; i < 4; ++i) {
    for (const int64_t x : loader.next()[0].data<int64_t>()) got.push_back(x);
  }
  // Also within a batch, and from the middle on.
  EXPECT_EQ(got, (std::vector<int64_t>{1, 2, 10, 11, 12, 20, 21, 22}));
}

}  // namespace
}  // namespace sparkpilot::train
