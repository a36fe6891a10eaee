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

// What fails on the way costs its own results, not those of the others.
TEST(Interleaved, GoOnWithoutWhatFails) {
  int left = 5;
  const std::vector<TimedRuns> things{timed([] {}), [&](int64_t count) {
                                        std::vector<double> ms(static_cast<size_t>(count), 2.0);
                                        if (--left == 0) ms.pop_back();
                                        return ms;
                                      }};
  const std::vector<InterleavedTimes> turns = time_interleaved(things, {.rounds = 8, .round_ms = 0, .min_runs = 3});
  EXPECT_EQ(turns[0].rounds.size(), 8u);
  EXPECT_TRUE(turns[1].ms.empty());
  EXPECT_TRUE(turns[1].rounds.empty());
  EXPECT_EQ(left, 0);
}

TEST(Interleaved, TakesTimesAsTheyAreGiven) {
  const std::vector<TimedRuns> things{[](int64_t count) { return std::vector<double>(static_cast<size_t>(count), 5); }};
  const std::vector<InterleavedTimes> turns = time_interleaved(things, {.rounds = 2, .round_ms = 50, .min_runs = 3});
  EXPECT_EQ(turns[0].ms.size(), 20u);
  EXPECT_EQ(turns[0].rounds, (std::vector<double>{5, 5}));
}

}  // namespace
}  // namespace sparkpilot
