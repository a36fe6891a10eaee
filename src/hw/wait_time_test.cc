#include "hw/wait_time.h"

#include <gtest/gtest.h>

namespace sparkpilot {
namespace {

TEST(WaitTime, OnlyGrows) {
  const WaitTime wait;
  const std::optional<double> first = wait.ms();
  if (!first) GTEST_SKIP() << "this system does not count it";
  EXPECT_GE(*first, 0);
  EXPECT_LT(*first, 1e9);
  const std::optional<double> second = wait.ms();
  ASSERT_TRUE(second);
  EXPECT_GE(*second, *first);
}

}  // namespace
}  // namespace sparkpilot
