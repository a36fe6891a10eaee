#include <gtest/gtest.h>

#include <vector>

#include "hw/cpu.h"
#include "hw/memory.h"
#include "hw/peak.h"

namespace sparkpilot {
namespace {

TEST(Cpu, AnswersTheSameTwice) {
  EXPECT_EQ(&cpu_features(), &cpu_features());
  EXPECT_GE(cpu_features().logical, 1);
  EXPECT_FALSE(cpu_features().isa().empty());
}

TEST(Peak, IsPlausible) {
  const Peak peak = measured_peak(1);
  // From a slow embedded core to any processor of this decade.
  EXPECT_GT(peak.flops_per_second, 1e8);
  EXPECT_LT(peak.flops_per_second, 1e13);
  EXPECT_GT(peak.bytes_per_second, 1e7);
  EXPECT_LT(peak.bytes_per_second, 1e13);
}

TEST(Memory, PeakFollowsWhatIsTouched) {
  const auto before = resident_memory_bytes();
  if (!before || !reset_peak_memory()) GTEST_SKIP() << "the system does not say";
  constexpr size_t kBytes = size_t{64} << 20;
  {
    const std::vector<char> block(kBytes, 1);
    asm volatile("" : : "r"(block.data()) : "memory");  // or clang leaves the whole block out
  }
  ASSERT_TRUE(peak_memory_bytes().has_value());
  EXPECT_GE(*peak_memory_bytes() - *before, static_cast<int64_t>(kBytes * 9 / 10));
}

}  // namespace
}  // namespace sparkpilot
