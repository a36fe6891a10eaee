#include "sim/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/random.h"
#include "base/test_error.h"
#include "sim/batch.h"
#include "sim/compare_report.h"

namespace sparkpilot::sim {
namespace {

using Json = nlohmann::ordered_json;

// Scenarios in two categories with a tracking error each, of all variants the same but for a part that depends on the
// variant. `figure` has the last word.
Results run_of(int scenarios, int variants, const std::function<void(ResultRow&)>& figure = {}) {
  Results out;
  out.info.algorithm = "lateral_torque";
  out.info.vehicle = "civic";
  out.info.seed = 1;
  out.info.metrics = {"tracking_rmse", "offset_max"};
  for (int s = 0; s < scenarios; ++s) {
    for (int v = 0; v < variants; ++v) {
      ResultRow& row = out.rows.emplace_back();
      row.scenario = fmt::format("scenario_{:02}", s);
      row.category = s % 2 == 0 ? "curves" : "ice";
      row.variant = v;
      row.seed = static_cast<uint64_t>(100 * s + v);
      row.passed = true;
      row.values = {0.2 + 0.01 * s + 0.003 * v, 0.5};
      if (figure) figure(row);
    }
  }
  return out;
}

const Difference& difference(const Comparison& c, std::string_view metric, Scope scope, std::string_view of = {}) {
  for (const Difference& d : c.differences) {
    if (d.metric->name == metric && d.scope == scope && d.of == of) return d;
  }
  throw std::runtime_error("no " + std::string(metric) + " of " + std::string(of));
}

Comparison compare(const Results& a, const Results& b, const CompareOptions& options = {}) {
  return compare_runs(a, b, options, "a", "b");
}

// -0.005 to 0.005: noise that is no difference in the mean.
double jitter(const ResultRow& row) { return 0.0005 * static_cast<double>(philox4x32(9, row.seed)[0] % 21) - 0.005; }

TEST(SimCompare, AMeanByHand) {
  const Results a = run_of(1, 6),
                b = run_of(1, 6, [](ResultRow&row) { *row.values[0] += row.variant < 3 ? 0.1 : 0.2; });
  const Comparison c = compare(a, b);
  EXPECT_EQ(c.pairs, 6);
  const Difference& d = difference(c, "tracking_rmse", Scope::all);
  EXPECT_NEAR(d.a.mean, 0.2075, 1e-12);
  EXPECT_NEAR(d.a.median, 0.2075, 1e-12);
  EXPECT_NEAR(d.b.mean, 0.3575, 1e-12);
  EXPECT_NEAR(d.delta.mean, 0.15, 1e-12);
  EXPECT_NEAR(*d.percent, 100 * 0.15 / 0.2075, 1e-9);
  EXPECT_EQ(d.clusters, 6);
  EXPECT_FALSE(d.by_scenario);
  EXPECT_NEAR(d.p_wilcoxon, 2.0 / 64, 1e-12);
  EXPECT_EQ(d.change, Change::worse);
  EXPECT_GT(*d.low_holm, 0);
  EXPECT_GE(*d.high_holm - *d.low_holm, d.high - d.low);
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::scenario, "scenario_00").change, Change::not_judged);
  EXPECT_EQ(difference(c, "offset_max", Scope::all).change, Change::none);
  EXPECT_EQ(c.regressions, 1);
  EXPECT_TRUE(c.regressed());
  EXPECT_EQ(regression_lines(c).size(), 1U);
  // The other way round it is better.
  const Comparison back = compare(b, a);
  EXPECT_EQ(back.improvements, 1);
  EXPECT_FALSE(back.regressed());
}

TEST(SimCompare, ARunAgainstItselfShowsNothing) {
  const Results a = run_of(20, 3);
  const Comparison c = compare(a, a);
  EXPECT_FALSE(c.regressed());
  EXPECT_TRUE(c.worst.empty());
  EXPECT_TRUE(c.notes.empty());
  for (const Difference& d : c.differences) {
    EXPECT_EQ(d.delta.mean, 0);
    EXPECT_EQ(d.p, 1);
    EXPECT_EQ(d.p_wilcoxon, 1);
    EXPECT_NE(d.change, Change::worse);
  }
  EXPECT_TRUE(difference(c, "offset_max", Scope::all).by_scenario);
  EXPECT_FALSE(difference(c, "offset_max", Scope::category, "ice").by_scenario);
}

// A category alone gets worse: it is found, by its name, and the others are not.
TEST(SimCompare, FindsTheCategoryThatGotWorse) {
  const Results a = run_of(20, 10), b = run_of(20, 10, [](ResultRow&row) {
                                      *row.values[0] *= row.category == "ice" ? 1.08 : 1;
                                      *row.values[0] += jitter(row);
                                    });
  const Comparison c = compare(a, b, {.threshold = {{"tracking_rmse", 5}}});
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::category, "ice").change, Change::worse);
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::category, "curves").change, Change::none);
  EXPECT_EQ(c.regressions, 1);
  EXPECT_EQ(c.worst_by->name, "tracking_rmse");
  ASSERT_EQ(c.worst.size(), kNamedPairs);
  for (size_t i = 0; i < c.worst.size(); ++i) {
    EXPECT_EQ(c.worst[i].category, "ice");
    if (i > 0) {
      EXPECT_GE(*c.worst[i - 1].b - *c.worst[i - 1].a, *c.worst[i].b - *c.worst[i].a);
    }
  }
}

TEST(SimCompare, WhatIsBelowTheThresholdIsSmall) {
  const Results a = run_of(20, 10),
                b = run_of(20, 10, [](ResultRow&row) { *row.values[0] *= 1.015 + 0.1 * jitter(row); });
  const auto change = [&](const CompareOptions& options) {
    return difference(compare(a, b, options), "tracking_rmse", Scope::all).change;
  };
  EXPECT_EQ(change({}), Change::small);
  EXPECT_EQ(change({.threshold = {{"tracking_rmse", 1}}}), Change::worse);
  // Where A's mean is 0, the least difference of the unit counts.
  const auto with_offset = [](double offset) {
    return run_of(20, 10, [offset](ResultRow& row) { row.values[1] = offset * (1 + jitter(row)); });
  };
  EXPECT_EQ(difference(compare(with_offset(0), with_offset(0.0009)), "offset_max", Scope::all).change, Change::small);
  const Comparison above = compare(with_offset(0), with_offset(0.0011));
  EXPECT_EQ(difference(above, "offset_max", Scope::all).change, Change::worse);
  EXPECT_FALSE(difference(above, "offset_max", Scope::all).percent.has_value());
}

TEST(SimCompare, TooFewWorldsAreNotJudged) {
  const Results a = run_of(1, 4), b = run_of(1, 4, [](ResultRow&row) { *row.values[0] *= 2; });
  const Comparison c = compare(a, b);
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::all).change, Change::not_judged);
  EXPECT_FALSE(difference(c, "tracking_rmse", Scope::all).p_holm.has_value());
  EXPECT_FALSE(c.regressed());
}

TEST(SimCompare, WorldsThatNewlyFailAreRegressions) {
  const Results a = run_of(3, 10, [](ResultRow& row) { row.passed = row.variant != 7; });
  const Results b = run_of(3, 10, [](ResultRow& row) {
    if (row.variant != 3) return;
    row.passed = false;
    row.diverged = 2.5;
    row.reason = "diverged";
    row.values[0] = 1e6;  // of which nothing must be seen in means
  });
  const Comparison c = compare(a, b);
  EXPECT_EQ(c.newly_failed, 3);
  EXPECT_EQ(c.newly_passed, 3);
  EXPECT_EQ(c.newly_diverged, 3);
  EXPECT_EQ(c.failed_a, 3);
  EXPECT_EQ(c.regressions, 0);
  EXPECT_TRUE(c.regressed());
  ASSERT_EQ(c.newly_failed_names.size(), 3U);
  EXPECT_EQ(c.newly_failed_names[1].scenario, "scenario_01");
  EXPECT_EQ(c.newly_failed_names[1].reason, "diverged");
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::all).pairs, 27);
}

// A world that missed a bound and in which the algorithm fails now has no figures that could be judged.
TEST(SimCompare, WorldsInWhichTheAlgorithmNewlyFailsAreRegressions) {
  const auto failing = [](int64_t crashed_variants, uint64_t seed) {
    Results run = run_of(3, 10, [=](ResultRow& row) {
      row.passed = false;
      row.reason = "offset_max 0.5 above 0.25 m";
      row.seed += 1000 * seed;
      if (row.variant >= crashed_variants) return;
      row.reason = "p.py: exit code 5";
      row.values = {std::nullopt, std::nullopt};
    });
    run.info.seed = seed;
    return run;
  };
  const Comparison c = compare(failing(0, 1), failing(9, 1));
  EXPECT_EQ(c.newly_failed + c.newly_diverged, 0);
  EXPECT_EQ(c.newly_without_figures, 27);
  EXPECT_EQ(c.left_out, 27);
  EXPECT_EQ(c.regressions, 0);
  EXPECT_TRUE(c.regressed());
  ASSERT_EQ(c.newly_failed_names.size(), kNamedPairs);
  EXPECT_EQ(c.newly_failed_names[0].reason, "p.py: exit code 5");
  EXPECT_NE(regression_lines(c).at(0).find("27 newly failed in the algorithm"), std::string::npos);
  EXPECT_EQ(to_json(c)["left_out"], 27);
  EXPECT_EQ(compare(failing(0, 1), failing(10, 1)).left_out, 30);
  const Comparison back = compare(failing(9, 1), failing(0, 1));
  EXPECT_EQ(back.newly_without_figures, 0);
  EXPECT_EQ(back.left_out, 27);
  EXPECT_FALSE(back.regressed());
  // With other seeds by the numbers: 3 may be chance, 27 are not.
  EXPECT_FALSE(compare(failing(0, 1), failing(1, 2)).regressed());
  EXPECT_TRUE(compare(failing(0, 1), failing(9, 2)).regressed());
}

// With other seeds a world fails or passes by chance, so it is the numbers that count.
TEST(SimCompare, WithOtherSeedsFailuresAreCounted) {
  const auto with_failures = [](uint64_t seed, int fail_at, int fail_at_more) {
    Results run = run_of(3, 10, [=](ResultRow& row) {
      row.passed = row.variant != fail_at && row.variant != fail_at_more;
      row.seed += 1000 * seed;
    });
    run.info.seed = seed;
    return run;
  };
  const Comparison by_chance = compare(with_failures(1, 2, 3), with_failures(2, 4, 5));
  EXPECT_FALSE(by_chance.same_seeds);
  EXPECT_EQ(by_chance.pairs, 30);
  EXPECT_EQ(by_chance.newly_failed, 6);
  EXPECT_FALSE(by_chance.regressed());
  ASSERT_FALSE(by_chance.notes.empty());
  EXPECT_NE(by_chance.notes[0].find("seed: 1 in A, 2 in B"), std::string::npos);
  EXPECT_NE(by_chance.notes[0].find("but for variant 0"), std::string::npos);
  const Comparison more = compare(with_failures(1, -1, -1), with_failures(2, 4, 5));
  EXPECT_DOUBLE_EQ(more.p_failed, 2.0 / 64);
  EXPECT_TRUE(more.regressed());
}

TEST(SimCompare, RowsWithoutAPartnerAreCountedAndNamed) {
  Results a = run_of(2, 8), b = run_of(2, 8);
  b.rows[3].seed = 77;
  b.rows.push_back(b.rows.back());
  b.rows.back().variant = 50;
  b.info.vehicle = "truck";
  b.info.parameters = {{"ki", 0.2}};
  b.info.metrics = {"offset_max", "tracking_rmse"};  // in another order
  for (ResultRow& row : b.rows) std::swap(row.values[0], row.values[1]);
  const Comparison c = compare(a, b);
  EXPECT_EQ(c.pairs, 15);
  EXPECT_EQ(c.only_a_names, std::vector<std::string>{"scenario_00 variant 3, seed 3"});
  EXPECT_EQ(c.only_b, 2);
  EXPECT_EQ(c.notes,
            (std::vector<std::string>{"vehicle: civic in A, truck in B", "parameter ki: none in A, 0.2 in B"}));
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::all).delta.mean, 0);
}

TEST(SimCompare, TheOrderOfRowsAndTheNumberOfThreadsDoNotMatter) {
  const Results a = run_of(14, 6);
  Results b = run_of(14, 6, [](ResultRow& row) { *row.values[0] *= 1.01 + jitter(row); });
  const std::string one = to_csv(compare(a, b));
  std::reverse(b.rows.begin(), b.rows.end());
  const ThreadScope threads(3);
  EXPECT_EQ(to_csv(compare(a, b)), one);
}

TEST(SimCompare, WhatCannotBeComparedIsSaid) {
  const Results a = run_of(2, 3);
  Results twice = a, other = a, huge = a, alien = a;
  twice.rows.push_back(twice.rows[4]);
  for (ResultRow& row : other.rows) row.scenario += "x";
  huge.rows[0].values[0] = 1e300;
  alien.info.metrics = {"jerk_rms", "speed_rmse"};
  const auto error = [&](const Results& b, const CompareOptions& options = {}) {
    return error_of([&] { compare(a, b, options); });
  };
  EXPECT_NE(error(twice).find("b: scenario_01 variant 1, seed 101 is there twice"), std::string::npos) << error(twice);
  EXPECT_NE(error(other).find("no world in common"), std::string::npos);
  EXPECT_NE(error(huge).find("1e+300"), std::string::npos);
  EXPECT_NE(error(alien).find("no metric is in both"), std::string::npos);
  EXPECT_NE(error(a, {.alpha = 0}).find("alpha 0"), std::string::npos);
  EXPECT_NE(error(a, {.worst_by = "speed_rmse"}).find("they have tracking_rmse, offset_max"), std::string::npos);
  EXPECT_NE(error(a, {.threshold = {{"speed", 1}}}).find("no metric \"speed\""), std::string::npos);
  EXPECT_NE(error({.info = a.info}).find("no world in common"), std::string::npos);
}

TEST(SimCompare, MissingFiguresAreLeftOut) {
  const Results a = run_of(2, 8), b = run_of(2, 8, [](ResultRow&row) {
                                    row.values[1] = std::nullopt;
                                    if (row.variant == 2) row.values[0] = std::nullopt;
                                  });
  const Comparison c = compare(a, b);
  EXPECT_EQ(difference(c, "tracking_rmse", Scope::all).pairs, 14);
  const Difference& none = difference(c, "offset_max", Scope::all);
  EXPECT_EQ(none.pairs, 0);
  EXPECT_EQ(none.change, Change::not_judged);
  EXPECT_EQ(to_html(c, "a", "b").find("nan"), std::string::npos);
  const Json json = to_json(c);
  for (const Json& each : json["differences"]) {
    EXPECT_EQ(each["a"]["mean"].is_null(), each["pairs"] == 0) << each.dump();
    EXPECT_EQ(each["low"].is_null(), each["pairs"] == 0) << each.dump();
  }
  EXPECT_NE(to_csv(c).find("offset_max,m,all,,0,0,variants,,,,,,,,,,,,,,,"), std::string::npos) << to_csv(c);
}

// Names out of files are hostile: no markup in the page, no new columns, and JSON that is read again.
TEST(SimCompare, ReportsKeepHostileNamesHarmless) {
  const std::string bad = "<script>alert(1)</script>,\"x\"\xff";
  const auto named = [&](double factor) {
    Results run = run_of(2, 8, [&](ResultRow& row) {
      row.scenario += bad;
      row.category += bad;
      *row.values[0] *= factor;
      row.passed = factor == 1 || row.variant > 0;
      row.reason = row.passed ? "" : bad;
    });
    run.info.algorithm = bad + std::to_string(factor);
    return run;
  };
  const Comparison c = compare(named(1), named(1.5));
  const std::string html = to_html(c, bad, bad);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert"), std::string::npos);
  for (size_t at = html.find("://"); at != std::string::npos; at = html.find("://", at + 1)) {
    EXPECT_EQ(html.substr(at, 13), "://www.w3.org");  // the name of SVG; nothing is loaded from there
  }
  const Json json = Json::parse(to_json(c).dump(-1, ' ', false, Json::error_handler_t::replace));
  EXPECT_EQ(json["differences"].size(), c.differences.size());
  EXPECT_EQ(json["regressed"], true);
  const std::string csv = to_csv(c);
  EXPECT_EQ(std::ranges::count(csv, '\n'), std::ssize(c.differences) + 1);
}

// ---- With real worlds ----

constexpr int kScenarios = 20, kVariants = 25;  // 500 worlds

// Courses in four categories, with ranges; sensors with noise.
WorldSpec world(int scenario, uint64_t seed) {
  Random random(seed);
  WorldSpec spec;
  spec.number = seed & ((uint64_t{1} << 46) - 1);
  spec.course.speed = random.uniform(12 + scenario, 18 + scenario);
  const double lateral = random.uniform(0.3, 1.2) / (spec.course.speed * spec.course.speed);
  if (scenario % 4 == 0) {
    spec.course.turn = lateral;
    spec.course.turn_at = random.uniform(0.5, 1.5);
  } else if (scenario % 4 == 1) {
    spec.course.wave = lateral;
    spec.course.frequency = random.uniform(0.5, 1.5);
  } else if (scenario % 4 == 2) {
    spec.course.turn = lateral / 2;
    spec.course.turn_ramp = 0.5;
    spec.course.roll = random.uniform(-0.03, 0.03);
  } else {
    spec.course.side = random.uniform(0.2, 0.8);
    spec.course.side_at = 1;
    spec.course.side_for = random.uniform(0.5, 2);
  }
  spec.noise = {.angle = 0.1, .speed = 0.05, .curvature = 1e-4, .acceleration = 0.05};
  return spec;
}

// `parameters` chooses the variants, `noise` the noise.
Results drive(uint64_t parameters, uint64_t noise, const std::function<void(WorldSpec&)>& change = {}) {
  Results out;
  out.info.seed = parameters;
  out.info.metrics = {"tracking_rmse", "tracking_max", "jerk_rms", "saturated", "offset_max", "speed_rmse"};
  const auto seed_of = [&](int64_t i) { return 1'000'000 * parameters + static_cast<uint64_t>(i); };
  const auto results = run_worlds(kScenarios * kVariants,
                                  [&](int64_t i) {
                                    WorldSpec spec = world(static_cast<int>(i / kVariants), seed_of(i));
                                    if (change) change(spec);
                                    return spec;
                                  },
                                  {.lateral = Lateral::torque, .tyres = Tyres::linear, .steps = 400, .seed = noise});
  for (int64_t i = 0; i < std::ssize(results); ++i) {
    const WorldResult& r = results[static_cast<size_t>(i)];
    ResultRow& row = out.rows.emplace_back();
    row.scenario = fmt::format("scenario_{:02}", i / kVariants);
    row.category = fmt::format("category_{}", i / kVariants % 4);
    row.variant = i % kVariants;
    row.seed = seed_of(i);
    row.passed = !r.diverged;
    row.values = {r.tracking_rmse, r.tracking_max, r.jerk_rms, r.saturated, r.offset_max, r.speed_rmse};
  }
  return out;
}

// How many comparisons make a figure: docs/sim_compare.md has those of 200.
int comparisons() {
  const char* const given = std::getenv("SPARKPILOT_TEST_COMPARISONS");
  return given == nullptr ? 40 : std::max(1, std::atoi(given));
}

// An interval that excludes 0, small differences included: stricter than what ends with exit code 4.
bool flagged(const Comparison& c) {
  return c.failures_regressed || std::ranges::any_of(c.differences, [](const Difference& d) {
           return d.change != Change::none && d.change != Change::not_judged;
         });
}

const CompareOptions& quick() {
  static const CompareOptions options{.resamples = 1000};
  return options;
}

TEST(SimCompareFigures, AnAlgorithmAgainstItselfIsSeldomFlagged) {
  const ThreadScope alone(1);  // short calls
  for (const bool other_variants : {false, true}) {
    const int all = comparisons();
    int found = 0, regressed = 0;
    for (uint64_t i = 0; i < static_cast<uint64_t>(all); ++i) {
      const Comparison c = other_variants ? compare(drive(2 * i + 1, 5), drive(2 * i + 2, 5), quick())
                                          : compare(drive(1, 2 * i), drive(1, 2 * i + 1), quick());
      EXPECT_EQ(c.same_seeds, !other_variants);
      found += flagged(c);
      regressed += c.regressed();
    }
    printf("other %s: %d of %d flagged, %d as regressions\n", other_variants ? "variants" : "noise", found, all,
           regressed);
    EXPECT_LE(found, 0.07 * all);
  }
}

void expect_found(const char* what, int of, const std::function<void(WorldSpec&)>& change, double factor) {
  const ThreadScope alone(1);
  int found = 0, over_all = 0;
  double percent = 0;
  for (uint64_t i = 0; i < static_cast<uint64_t>(of); ++i) {
    Results b = drive(1, 2 * i + 1, change);
    for (ResultRow& row : b.rows) *row.values[0] *= factor;
    const Comparison c = compare(drive(1, 2 * i), b, quick());
    const Difference& d = difference(c, "tracking_rmse", Scope::all);
    found += c.regressed();
    over_all += d.change == Change::worse;
    percent += *d.percent / of;
  }
  printf("%s: %d of %d found, %d as worse over all worlds, whose mean is %.1f %% worse\n", what, found, of, over_all,
         percent);
  EXPECT_GE(found, 0.9 * of);
  if (!change) {
    EXPECT_GE(over_all, 0.9 * of);
  }
}

// Every tracking error 5 % larger, beside other noise.
TEST(SimCompareFigures, FivePercentWorseIsFound) { expect_found("5 % planted", comparisons() / 4, {}, 1.05); }

// The controller believes a car that turns more easily than it does. How much worse that is depends on the scenario.
TEST(SimCompareFigures, ADetunedControllerIsFound) {
  expect_found(
      "detuned", comparisons() / 4, [](WorldSpec& spec) { spec.lateral.accel_factor *= 1.3; }, 1);
}

}  // namespace
}  // namespace sparkpilot::sim
