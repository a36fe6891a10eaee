#include <gtest/gtest.h>

#include <sstream>
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

TEST(Cpu, LesserProcessorsAreRefused) {
  require_processor(cpu_features());
  const auto refusal = [](const CpuFeatures& lesser) -> std::string {
    try {
      require_processor(lesser);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      return error.what();
    }
    return {};
  };
#if defined(__x86_64__)
  EXPECT_EQ(refusal({.model = "Old 1"}).find("this processor (Old 1) lacks AVX2, "), 0U);
#else
  EXPECT_EQ(refusal({}), "");
#endif
}

TEST(Cpu, DesignIsThatOfTheFirstProcessor) {
  CpuFeatures x86;
  std::istringstream intel(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon 9\nstepping\t: 7\n"
      "\nprocessor\t: 1\nvendor_id\t: other\ncpu family\t: 7\nmodel\t\t: 86\n");
  read_design(intel, x86);
  EXPECT_EQ(x86.maker, "GenuineIntel");
  EXPECT_EQ(x86.family, 6);
  EXPECT_EQ(x86.design, 85);
  CpuFeatures arm;
  std::istringstream grace("processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd87\n");
  read_design(grace, arm);
  EXPECT_EQ(arm.maker, "0x41");
  EXPECT_EQ(arm.family, 0);
  EXPECT_EQ(arm.design, 0xd87);
  CpuFeatures none;
  std::istringstream odd(": \n:\nmodel\nmodel:\nmodel: \nmodel: x\ncpu family: 99999999999999\nvendor_id:\n");
  read_design(odd, none);
  EXPECT_EQ(none.maker, "");
  EXPECT_EQ(none.family, 0);
  EXPECT_EQ(none.design, 0);
}

TEST(Memory, PeakFollowsWhatIsTouched) {
  const auto before = resident_memory_bytes();
  if (!before || !reset_peak_memory()) GTEST_SKIP() << "the system does not say";
  constexpr size_t kBytes = size_t{64} << 20;
  {
    const std::vector<char> block(kBytes, 1);
    asm volatile("" : : "r"(block.data()) : "memory");  // without this, clang leaves the whole block out
  }
  ASSERT_TRUE(peak_memory_bytes().has_value());
  EXPECT_GE(*peak_memory_bytes() - *before, static_cast<int64_t>(kBytes * 9 / 10));
}

}  // namespace
}  // namespace sparkpilot
