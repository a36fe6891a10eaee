#include "sim/run_summary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sparkpilot::sim {
namespace {

TEST(RunSummary, CountsByCategoryAndNamesTheWorst) {
  const std::vector<std::string> metrics{"tracking_rmse", "gap_min", "collisions"};
  Scenario near, far;
  near.name = "near";
  near.bounds = {{"tracking_rmse", 0.1}, {"gap_min", 4}, {"collisions", 0}};
  far.name = "far";
  far.bounds = {{"tracking_rmse", 0.2}};
  const std::vector<ResultRow> rows{
      {"near", "a", 0, 1, true, {}, "", {0.05, 5, 0}},    {"near", "a", 1, 1, false, {}, "x", {0.05, 1, 0}},
      {"near", "a", 2, 1, false, {}, "x", {0.05, -1, 1}}, {"far", "b", 0, 1, true, {}, "", {0.1, {}, {}}},
      {"far", "b", 1, 1, false, 2.0, "x", {0.3, {}, {}}}, {"other", "b", 0, 1, true, {}, "", {0.2, {}, {}}}};
  const RunSummary s = summarize_run(rows, metrics, std::vector<Scenario>{near, far}, 4);
  EXPECT_EQ(s.worlds, 6);
  EXPECT_EQ(s.passed, 3);
  EXPECT_EQ(s.diverged, 1);
  ASSERT_EQ(s.categories.size(), 2u);
  EXPECT_EQ(s.categories[0].worlds, 3);
  EXPECT_EQ(s.categories[0].passed, 1);
  EXPECT_NEAR(*s.categories[0].means[1], 5.0 / 3, 1e-12);
  EXPECT_NEAR(*s.categories[1].means[0], 0.2, 1e-12);
  EXPECT_FALSE(s.categories[1].means[1]);
  ASSERT_EQ(s.worst.size(), 4u);
  EXPECT_EQ(s.worst[0].row, 2u);
  EXPECT_TRUE(std::isinf(s.worst[0].of_bound));
  EXPECT_EQ(s.worst[1].row, 4u);
  EXPECT_EQ(s.worst[1].metric, "");
  EXPECT_EQ(s.worst[2].row, 1u);
  EXPECT_EQ(s.worst[2].of_bound, 4);
  EXPECT_EQ(s.worst[2].metric, "gap_min");
  EXPECT_EQ(s.worst[3].row, 0u);
  EXPECT_EQ(s.worst[3].of_bound, 0.8);
}

TEST(RunSummary, NamesScenariosWithPlansThatWereNotSolved) {
  const std::vector<std::string> metrics{"unsolved_plans", "tracking_rmse", "infeasible_plans"};
  const std::vector<ResultRow> rows{
      {"good", "a", 0, 1, true, {}, "", {0, 1, 0}},  {"late", "a", 0, 1, true, {}, "", {3, 1, 0}},
      {"hard", "a", 0, 1, true, {}, "", {0, 1, 2}},  {"late", "a", 1, 1, true, {}, "", {4, 1, 5}},
      {"late", "a", 2, 1, true, {}, "", {0, 1, {}}}, {"other", "a", 0, 1, true, {}, "", {{}, 1, {}}}};
  const RunSummary s = summarize_run(rows, metrics, {});
  ASSERT_EQ(s.bad_plans.size(), 2U);
  EXPECT_EQ(s.bad_plans[0].scenario, "late");
  EXPECT_EQ(s.bad_plans[0].worlds, 2);
  EXPECT_EQ(s.bad_plans[0].unsolved, 7);
  EXPECT_EQ(s.bad_plans[0].infeasible, 5);
  EXPECT_EQ(s.bad_plans[1].scenario, "hard");
  EXPECT_EQ(s.bad_plans[1].infeasible, 2);
  EXPECT_TRUE(summarize_run(rows, std::vector<std::string>{"tracking_rmse"}, {}).bad_plans.empty());
}

// As of courses of files.
TEST(RunSummary, WithoutBoundsTheWorstIsFurthestFromItsLane) {
  Scenario scenario;
  scenario.name = "s";
  const std::vector<ResultRow> rows{{"s", "a", 0, 1, true, {}, "", {0.1}},
                                    {"s", "a", 1, 1, true, {}, "", {0.3}},
                                    {"s", "a", 2, 1, true, {}, "", {0.2}}};
  const RunSummary s = summarize_run(rows, std::vector<std::string>{"offset_max"}, std::vector<Scenario>{scenario});
  ASSERT_EQ(s.worst.size(), 3u);
  EXPECT_EQ(s.worst[0].row, 1u);
  EXPECT_EQ(s.worst[1].row, 2u);
}

TEST(RunSummary, WorldsInWhichTheAlgorithmFailedComeFirst) {
  Scenario scenario;
  scenario.name = "s";
  scenario.bounds = {{"tracking_rmse", 0.1}};
  const std::vector<std::string> metrics{"tracking_rmse", "gap_min"};
  const std::vector<ResultRow> rows{{"s", "a", 0, 1, false, 2.0, "x", {0.3, {}}},
                                    {"s", "a", 1, 1, false, {}, "x", {0.3, {}}},
                                    {"s", "a", 2, 1, false, {}, "signal 11", {{}, {}}},
                                    {"s", "a", 3, 1, true, {}, "", {0.05, {}}}};
  const RunSummary s = summarize_run(rows, metrics, std::vector<Scenario>{scenario}, 2);
  EXPECT_EQ(s.failed, 1);
  EXPECT_EQ(s.diverged, 1);
  ASSERT_EQ(s.worst.size(), 2u);
  EXPECT_EQ(s.worst[0].row, 2u);
  EXPECT_TRUE(s.worst[0].failed);
  EXPECT_TRUE(std::isinf(s.worst[0].of_bound));
  EXPECT_EQ(s.worst[1].row, 0u);
}

}  // namespace
}  // namespace sparkpilot::sim
