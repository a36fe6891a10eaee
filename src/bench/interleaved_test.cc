#include "bench/interleaved.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace sparkpilot {
namespace {

TEST(Interleaved, AlternateInOrder) {
  std::string order;
  const std::vector<std::function<void()>> runs{[&] { order += 'a'; }, [&] { order += 'b'; }};
  const std::vector<InterleavedTimes> turns = time_interleaved(runs, {.rounds = 3, .round_ms = 0, .min_runs = 2});
  EXPECT_EQ(order, "aabbaabbbbaaaabb");  // the first four: to see how long they take
  ASSERT_EQ(turns.size(), 2u);
  for (const InterleavedTimes& each : turns) {
    EXPECT_EQ(each.ms.size(), 6u);
    EXPECT_EQ(each.rounds.size(), 3u);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(each.rounds[r], (each.ms[2 * r] + each.ms[2 * r + 1]) / 2);
    }
  }
}

TEST(Interleaved, ReportProgressAndRefuseNothing) {
  const std::vector<std::function<void()>> runs{[] {}};
  std::vector<double> done;
  time_interleaved(runs, {.rounds = 4, .round_ms = 0, .progress = [&](double share) { done.push_back(share); }});
  EXPECT_EQ(done, (std::vector<double>{0.25, 0.5, 0.75, 1}));
  EXPECT_THROW(time_interleaved(runs, {.rounds = 0}), Error);
}

}  // namespace
}  // namespace sparkpilot
