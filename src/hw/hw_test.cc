#include <gtest/gtest.h>

#include "hw/cpu.h"
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

}  // namespace
}  // namespace sparkpilot
