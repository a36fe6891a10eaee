// Runs kernels of kernels.inc in the emulator: under several schedules, which must give the same bits, and once under
// the checker.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "emulator/test_kernel.h"
#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot::cuda {

// A type that kernels store numbers in.
struct TestStorage {
  std::string name;  // as at the end of a kernel's name
  DType dtype;
  double last_place;  // twice the relative error of rounding
  double least;       // half of the smallest number above 0

  // Normal values with this standard deviation, already rounded to the type.
  std::vector<double> random(size_t count, uint64_t seed, double deviation) const {
    Random source(seed);
    std::vector<double> out(count);
    for (double& x : out) x = rounded(source.normal() * deviation);
    return out;
  }
  double rounded(double value) const {
    uint8_t bytes[8];
    store_element(dtype, bytes, 0, value);
    return load_element(dtype, bytes, 0);
  }
  // Of a result that is computed in fp32 with this relative error and then stored.
  double tolerance(double computed) const { return computed + last_place / 2; }
  // Of a product by weights of 8 or 4 bits: within 1e-6 of a sum in double, the rounding to f32 included.
  double of_small_product() const { return tolerance(1e-6 - 0x1p-24); }
  size_t bytes() const { return static_cast<size_t>(bits(dtype)) / 8; }
};
inline const std::vector<TestStorage> kStorages = {
    {"f32", DType::f32, 0x1p-23, 0}, {"f16", DType::f16, 0x1p-10, 0x1p-25}, {"bf16", DType::bf16, 0x1p-7, 0}};

inline size_t size_of(long long elements) { return static_cast<size_t>(elements); }

inline Storage storage_of(const TestStorage& storage) {
  return storage.dtype == DType::f32 ? Storage::f32 : storage.dtype == DType::f16 ? Storage::f16 : Storage::bf16;
}

using KernelEntry = std::function<void(const emulator::LaunchShape&, const emulator::Schedule&, const void*)>;
// All kernels by name.
const std::map<std::string, KernelEntry>& kernels_by_name();

// The memory of one case: inputs, which kernels may not write, and one output.
class TestRun {
 public:
  const void* input(const TestStorage& storage, const std::vector<double>& values) {
    emulator::TestMemory& memory = inputs_.emplace_back(values.size() * storage.bytes());
    for (size_t i = 0; i < values.size(); ++i)
      store_element(storage.dtype, memory.data(), static_cast<int64_t>(i), values[i]);
    checker_.add_memory(memory.data(), memory.size(), false);
    return memory.data();
  }
  const void* bytes(const void* data, size_t size) {
    emulator::TestMemory& memory = inputs_.emplace_back(size);
    std::memcpy(memory.data(), data, size);
    checker_.add_memory(memory.data(), memory.size(), false);
    return memory.data();
  }
  void* output(const TestStorage& storage, size_t count) {
    if (!written_.empty()) ADD_FAILURE() << "the output comes before scratch memory";
    out_dtype_ = storage.dtype;
    least_ = storage.least;
    return scratch(count * storage.bytes());
  }
  // Memory that kernels write and read; it holds NaN before each schedule.
  void* scratch(size_t bytes) {
    emulator::TestMemory& memory = written_.emplace_back(bytes);
    checker_.add_memory(memory.data(), memory.size(), true);
    return memory.data();
  }
  void count_traffic() { checker_.count_traffic(true); }

  // Adds a launch; those of a case run one after another.
  template <typename Arguments>
  void launch(const std::string& kernel, const Arguments& arguments, const KernelLaunch& how) {
    launches_.push_back([=](const emulator::Schedule& schedule) {
      const auto found = kernels_by_name().find(kernel);
      if (found == kernels_by_name().end()) FAIL() << "no kernel " << kernel;
      found->second({.grid = {how.grid_x, how.grid_y, how.grid_z},
                     .block = {how.threads},
                     .dynamic_shared_bytes = how.shared_bytes},
                    schedule, &arguments);
    });
  }

  // Runs all; the output's elements.
  std::vector<double> values() {
    std::vector<uint8_t> first;
    for (emulator::Schedule schedule : emulator::kSchedules) {
      if (first.empty()) schedule.checker = &checker_;
      for (emulator::TestMemory& memory : written_) memory.fill(0xff);
      for (const auto& run : launches_) run(schedule);
      if (first.empty()) first = written_.front().copy();
      EXPECT_EQ(written_.front().copy(), first) << "seed " << schedule.seed << ", late copies " << schedule.late_copies;
    }
    EXPECT_EQ(checker_.take_findings(), std::vector<std::string>());
    std::vector<double> out(first.size() * 8 / static_cast<size_t>(bits(out_dtype_)));
    for (size_t i = 0; i < out.size(); ++i) out[i] = load_element(out_dtype_, first.data(), static_cast<int64_t>(i));
    return out;
  }
  // By source line, of the checked run (after count_traffic() and values()).
  std::vector<emulator::Checker::Traffic> traffic() { return checker_.take_traffic(); }

  // Every element within `tolerance` of the largest magnitude around it: |y - expected| <= tolerance * max(|expected|,
  // scale).
  testing::AssertionResult near(const std::vector<double>& expected, double tolerance, double scale = 0) {
    const std::vector<double> y = values();
    if (y.size() != expected.size())
      return testing::AssertionFailure() << y.size() << " elements, expected " << expected.size();
    for (size_t i = 0; i < y.size(); ++i) {
      const double bound = tolerance * std::max(std::fabs(expected[i]), scale) + least_;
      if (!(std::fabs(y[i] - expected[i]) <= bound)) {
        return testing::AssertionFailure() << "element " << i << ": " << y[i] << ", expected " << expected[i];
      }
    }
    return testing::AssertionSuccess();
  }
  // All elements together: the relative L2 error is at most `tolerance`.
  testing::AssertionResult near_in_norm(const std::vector<double>& expected, double tolerance) {
    const std::vector<double> y = values();
    if (y.size() != expected.size())
      return testing::AssertionFailure() << y.size() << " elements, expected " << expected.size();
    double difference = 0, norm = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      difference += (y[i] - expected[i]) * (y[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    const double error = std::sqrt(difference / norm);
    if (error <= tolerance) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "relative L2 error " << error << ", allowed " << tolerance;
  }

 private:
  emulator::Checker checker_;
  std::deque<emulator::TestMemory> inputs_, written_;  // the output first
  DType out_dtype_ = DType::f32;
  double least_ = 0;
  std::vector<std::function<void(const emulator::Schedule&)>> launches_;
};

}  // namespace sparkpilot::cuda
