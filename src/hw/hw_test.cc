#include <gtest/gtest.h>

#include <vector>

#include "hw/cpu.h"
#include "hw/memory.h"

namespace sparkpilot {
namespace {

TEST(Cpu, AnswersTheSameTwice) {
  EXPECT_EQ(&cpu_features(), &cpu_features());
  EXPECT_GE(cpu_features().logical, 1);
  EXPECT_FALSE(cpu_features().isa().empty());
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
