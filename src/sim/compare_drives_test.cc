#include "sim/compare_drives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/compare_report.h"
#include "sim/scenario_run.h"

namespace sparkpilot::sim {
namespace compare_drives_test {

Results driven(const std::vector<std::string>& names, std::vector<Parameter> set, uint64_t seed = 3) {
  const ScenarioRun run({.scenarios = select_scenarios(names), .variants = 3, .seed = seed, .set = std::move(set)});
  return {run.info(), run.run(0, run.rows())};
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(CompareDrives, DrivesTheWorstPairsAgain) {
  const std::vector<std::string> names{"curve_firm", "cut_in_near"};
  const Results a = driven(names, {}), b = driven(names, {{"kp", 0.3}});
  const Comparison c = compare_runs(a, b, {.worst_by = "tracking_rmse", .resamples = 200}, "a", "b");
  ASSERT_GE(c.worst.size(), 3U);
  const std::vector<DrivenPair> pairs = drive_worst(c);
  ASSERT_EQ(pairs.size(), kDrawnPairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const DrivenPair& pair = pairs[i];
    EXPECT_EQ(pair.a.why_not + pair.b.why_not, "");
    EXPECT_EQ(pair.pair.scenario, c.worst[i].scenario);
    EXPECT_EQ(pair.lead, pair.pair.scenario == "cut_in_near");
    // What the runs have of these worlds, whose figures are those of vectors.
    EXPECT_NEAR(*pair.a.again, *c.worst[i].a, 1e-4 * *c.worst[i].a);
    EXPECT_NEAR(*pair.b.again, *c.worst[i].b, 1e-4 * *c.worst[i].b);
    EXPECT_LT(*pair.a.again, *pair.b.again);
    EXPECT_GT(pair.a.trace.rows.size(), 100U);
    EXPECT_EQ(pair.a.trace.rows.size(), pair.b.trace.rows.size());
  }
  const std::string without = to_html(c, "a", "b"), page = to_html(c, "a", "b", pairs);
  const auto leads = static_cast<size_t>(std::ranges::count(pairs, true, &DrivenPair::lead));
  EXPECT_EQ(count_of(page, "<svg") - count_of(without, "<svg"), 5 * pairs.size() + leads);
  const std::string title =
      "Offset from the middle of the lane, " + c.worst[0].scenario + " variant " + std::to_string(c.worst[0].variant);
  EXPECT_NE(page.find(title), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(page.find("Driven again"), std::string::npos);
  EXPECT_EQ(to_html(c, "a", "b", drive_worst(c)), page);  // the same bytes

  // Rows of another program than their record says.
  Comparison other = c;
  *other.worst[0].a *= 0.9;
  EXPECT_NE(to_html(other, "a", "b", drive_worst(other, {}, 1)).find("Driven again, A has"), std::string::npos);
}

// Those that do not pass in B alone, without those that are among the worst.
TEST(CompareDrives, DrivesWhatNewlyFailed) {
  const std::vector<std::string> names{"curve_gentle", "curve_firm", "s_curve_highway"};
  const Results a = driven(names, {}), b = driven(names, {{"kp", 10}});
  const Comparison c = compare_runs(a, b, {.worst_by = "tracking_rmse", .resamples = 200}, "a", "b");
  ASSERT_GT(c.newly_failed_names.size(), kDrawnPairs);
  const std::vector<DrivenPair> worst = drive_worst(c), failed = drive_newly_failed(c);
  ASSERT_FALSE(failed.empty());
  ASSERT_LE(failed.size(), kDrawnPairs);
  for (const DrivenPair& pair : failed) {
    EXPECT_EQ(pair.a.why_not + pair.b.why_not, "");
    EXPECT_NE(pair.pair.reason, "");
    EXPECT_GT(pair.b.trace.rows.size(), 100U);
    for (const DrivenPair& other : worst) {
      EXPECT_FALSE(other.pair.scenario == pair.pair.scenario && other.pair.variant == pair.pair.variant);
    }
  }
  const std::string without = to_html(c, "a", "b", worst), page = to_html(c, "a", "b", worst, failed);
  EXPECT_EQ(count_of(page, "<svg") - count_of(without, "<svg"), 5 * failed.size());
  const NamedPair& first = failed[0].pair;
  EXPECT_NE(page.find(first.scenario + ", variant " + std::to_string(first.variant) + ", in B: "), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(drive_newly_failed(c, {}, 1).size(), 1U);
}

// Worlds of other seeds have other parameters, so the lane of one says nothing of the other's.
TEST(CompareDrives, DrawsWorldsOfDifferentSeeds) {
  const Results a = driven({"curve_firm"}, {}, 3), b = driven({"curve_firm"}, {{"kp", 0.3}}, 4);
  const Comparison c = compare_runs(a, b, {.worst_by = "tracking_rmse", .resamples = 200}, "a", "b");
  ASSERT_FALSE(c.worst.empty());
  const std::vector<DrivenPair> pairs = drive_worst(c, {}, 1);
  EXPECT_EQ(pairs[0].a.why_not + pairs[0].b.why_not, "");
  EXPECT_NEAR(*pairs[0].a.again, *c.worst[0].a, 1e-4 * *c.worst[0].a);
  EXPECT_NEAR(*pairs[0].b.again, *c.worst[0].b, 1e-4 * *c.worst[0].b);
  EXPECT_EQ(to_html(c, "a", "b", pairs).find(">asked for<"), std::string::npos);
}

TEST(CompareDrives, SaysWhatCannotBeDrivenAgain) {
  const Results a = driven({"curve_firm"}, {}), b = driven({"curve_firm"}, {{"kp", 0.3}});
  const Comparison good = compare_runs(a, b, {.worst_by = "tracking_rmse", .resamples = 200}, "a", "b");
  ASSERT_FALSE(good.worst.empty());
  const auto why = [&](auto change) {
    Comparison c = good;
    change(c);
    const std::vector<DrivenPair> pairs = drive_worst(c, {}, 1);
    const std::string why_not = pairs[0].a.why_not + pairs[0].b.why_not;
    EXPECT_TRUE(why_not.empty() || to_html(c, "a", "b", pairs).find("Not drawn over time") != std::string::npos);
    return why_not;
  };
  EXPECT_EQ(why([](Comparison&) {}), "");
  EXPECT_NE(why([](Comparison& c) { c.a.program = "0.0.1"; }).find("A was made by version 0.0.1"), std::string::npos);
  EXPECT_NE(why([](Comparison& c) {
              c.b.algorithm_md5 = "77";
            }).find("B was driven by lateral_torque (MD5 77): give it with --algorithm"),
            std::string::npos);
  EXPECT_NE(why([](Comparison& c) { c.a.vehicle = "my_car"; }).find("my_car of A is from a file"), std::string::npos);
  EXPECT_NE(why([](Comparison& c) { c.worst[0].scenario = "bend"; }).find("bend is from a file"), std::string::npos);
  EXPECT_NE(why([](Comparison& c) { c.worst[0].variant = 3; }).find("no world of the run"), std::string::npos);
  EXPECT_NE(why([](Comparison& c) { c.b.planner = "none"; }).find("none"), std::string::npos);
  EXPECT_NE(why([](Comparison& c) { c.a.parameters.push_back({"no_such", 1}); }).find("no_such"), std::string::npos);
}

}  // namespace compare_drives_test
}  // namespace sparkpilot::sim
