// Runs a kernel as it must not matter how: under several schedules, which must give the same bits, and once under the
// checker.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "emulator/check.h"
#include "emulator/launch.h"

namespace sparkpilot::emulator {

constexpr Schedule kSchedules[] = {
    {},
    {.seed = 1},
    {.seed = 2, .late_copies = true},
    {.late_copies = true},
};

// A buffer of bytes at a multiple of 256, as a GPU's allocations lie.
class TestMemory {
 public:
  explicit TestMemory(size_t bytes) : bytes_(bytes), data_(bytes + 256) {}
  void* data() {
    const auto at = reinterpret_cast<uintptr_t>(data_.data());
    return data_.data() + (256 - at % 256) % 256;
  }
  size_t size() const { return bytes_; }
  void fill(int byte) { std::memset(data(), byte, bytes_); }
  std::vector<uint8_t> copy() { return {static_cast<uint8_t*>(data()), static_cast<uint8_t*>(data()) + bytes_}; }

 private:
  size_t bytes_;
  std::vector<uint8_t> data_;
};

// `out` after run(schedule), which launches a kernel that reads `in` and writes all of `out`.
inline std::vector<uint8_t> run_all_schedules(TestMemory& in, TestMemory& out,
                                              const std::function<void(const Schedule&)>& run) {
  Checker checker;
  checker.add_memory(in.data(), in.size(), false);
  checker.add_memory(out.data(), out.size(), true);
  std::vector<uint8_t> first;
  for (Schedule schedule : kSchedules) {
    if (first.empty()) schedule.checker = &checker;
    out.fill(0xee);
    run(schedule);
    if (first.empty()) first = out.copy();
    EXPECT_EQ(out.copy(), first) << "seed " << schedule.seed << ", late copies " << schedule.late_copies;
  }
  EXPECT_EQ(checker.take_findings(), std::vector<std::string>());
  return first;
}

}  // namespace sparkpilot::emulator
