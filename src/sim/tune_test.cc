#include "sim/tune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/random.h"
#include "base/test_error.h"
#include "base/test_files.h"

namespace sparkpilot::sim {
namespace {

using Values = std::vector<double>;

// Least at (0.3, 20), 1 there.
double valley(const Values& x) {
  return 1 + std::pow(x[0] - 0.3, 2) + std::pow(std::log(x[1] / 20), 2) + 0.5 * (x[0] - 0.3) * std::log(x[1] / 20);
}

TuneOptions options_of(Search search, int64_t trials) {
  return {.search = search,
          .ranges = {{"a", -1, 1, false}, {"b", 1, 1000, true}},
          .trials = trials,
          .seed = 4,
          .objective = "valley"};
}

TEST(Tune, EverySearchFindsTheValley) {
  const TuneResult cma = tune(options_of(Search::cma_es, 300), valley);
  ASSERT_TRUE(cma.best.has_value());
  EXPECT_NEAR(cma.trials[*cma.best].values[0], 0.3, 1e-3);
  EXPECT_NEAR(cma.trials[*cma.best].values[1], 20, 0.02);
  const TuneResult random = tune(options_of(Search::random, 300), valley);
  EXPECT_EQ(random.trials.size(), 300U);
  EXPECT_LT(*random.trials[*random.best].cost, 1.1);
  EXPECT_GT(*random.trials[*random.best].cost, *cma.trials[*cma.best].cost);
  const TuneResult grid = tune(options_of(Search::grid, 300), valley);
  EXPECT_EQ(grid.trials.size(), 289U);  // 17 by 17
  EXPECT_EQ(grid.ended, "the grid is complete");
  EXPECT_EQ(grid.trials[0].values, (Values{-1, 1}));
  EXPECT_EQ(grid.trials[16].values, (Values{1, 1}));
  EXPECT_NEAR(grid.trials[17].values[1], std::pow(1000, 1.0 / 16), 1e-12);
  EXPECT_LT(*grid.trials[*grid.best].cost, 1.1);
  EXPECT_EQ(tune(options_of(Search::grid, 289), valley).ended, "the grid is complete");
}

TEST(Tune, StaysInRangesAndFindsTheirEnds) {
  TuneOptions options = options_of(Search::cma_es, 400);
  const TuneResult result = tune(options, [](const Values& x) {
    EXPECT_GE(x[0], -1);
    EXPECT_LE(x[0], 1);
    EXPECT_GE(x[1], 1);
    EXPECT_LE(x[1], 1000);
    return -x[0] - x[1] / 1000;  // the best corner
  });
  EXPECT_NEAR(result.trials[*result.best].values[0], 1, 1e-2);
  EXPECT_NEAR(result.trials[*result.best].values[1], 1000, 10);
}

// Ended anywhere, within a generation too, and continued: the same trials as without an end.
TEST(Tune, GoesOnFromItsJournal) {
  for (const Search search : {Search::grid, Search::random, Search::cma_es}) {
    const TempFolder folder;
    const auto file = folder.path() / "journal";
    const TuneResult whole = tune(options_of(search, 49), valley);
    std::atomic<bool> stop = false;
    const TuneResult part =
        tune(options_of(search, 49), valley, file, false, &stop, [&](int64_t done) { stop = done == 20; });
    EXPECT_EQ(part.ended, "stopped");
    EXPECT_EQ(part.trials.size(), 20U);
    std::ofstream(file, std::ios::app) << "{\"values\": [0.1, 2";  // a process that was killed
    int called = 0;
    const TuneResult rest = tune(
        options_of(search, 49), [&](const Values& x) { return ++called, valley(x); }, file, true);
    EXPECT_EQ(rest.resumed, 20);
    EXPECT_EQ(called, static_cast<int>(whole.trials.size()) - 20);
    ASSERT_EQ(rest.trials.size(), whole.trials.size());
    for (size_t i = 0; i < rest.trials.size(); ++i) {
      EXPECT_EQ(rest.trials[i].values, whole.trials[i].values) << name(search) << i;
      EXPECT_EQ(rest.trials[i].cost, whole.trials[i].cost);
    }
    EXPECT_EQ(rest.best, whole.best);
    // All of it is there now.
    EXPECT_EQ(tune(options_of(search, 49), valley, file, true).resumed, std::ssize(whole.trials));
  }
}

TEST(Tune, WhatCannotBeDrivenHasNoCost) {
  const TempFolder folder;
  const auto file = folder.path() / "journal";
  const auto cost = [](const Values& x) { return x[0] < 0 ? std::numeric_limits<double>::infinity() : valley(x); };
  const TuneResult result = tune(options_of(Search::cma_es, 200), cost, file);
  EXPECT_NEAR(result.trials[*result.best].values[0], 0.3, 0.01);
  const TuneResult again = tune(options_of(Search::cma_es, 200), cost, file, true);
  EXPECT_EQ(again.resumed, std::ssize(result.trials));
  EXPECT_EQ(again.best, result.best);
  const TuneResult none =
      tune(options_of(Search::random, 10), [](const Values&) { return std::numeric_limits<double>::quiet_NaN(); });
  EXPECT_FALSE(none.best.has_value());
}

TEST(Tune, JournalsOfOtherSearchesAreRefused) {
  const TempFolder folder;
  const auto file = folder.path() / "journal";
  tune(options_of(Search::random, 5), valley, file);
  const auto error = [&](const TuneOptions& options) { return error_of([&] { tune(options, valley, file, true); }); };
  EXPECT_NE(error_of([&] { tune(options_of(Search::random, 5), valley, file); }).find("--resume"), std::string::npos);
  EXPECT_TRUE(error(options_of(Search::cma_es, 5))
                  .ends_with(R"(:1: is of another search: its search is "random", expected "cma-es")"));
  TuneOptions other = options_of(Search::random, 5);
  other.objective = "hill";
  EXPECT_TRUE(error(other).ends_with(R"(its objective is "valley", expected "hill")")) << error(other);
  other.objective = "valley" + std::string(200, ',') + "hill";
  const std::string cut = "its objective is \"valley\", expected \"valley" + std::string(114, ',') + "...\"";
  EXPECT_TRUE(error(other).ends_with(cut)) << error(other);
  std::ofstream(file, std::ios::app) << "{\"values\": [1, \"x\"], \"cost\": 1}\n";
  EXPECT_NE(error(options_of(Search::random, 9)).find(":7: expected a trial of 2 values"), std::string::npos);
  const std::string text = read_text(file), head = text.substr(0, text.find('\n') + 1);
  std::ofstream(file) << "{\"mine\": 1}";  // no whole line, and no journal
  EXPECT_NE(error(options_of(Search::random, 9)).find(":1: expected the journal"), std::string::npos);
  EXPECT_EQ(read_text(file), "{\"mine\": 1}");
  std::ofstream(file) << head.substr(0, 20);  // cut while it was begun
  EXPECT_EQ(error(options_of(Search::random, 5)), "");
  for (const char* line : {"[]", "7", "{\"values\": 1, \"cost\": 1}", "{\"values\": [1, 2, 3], \"cost\": 1}", "no"}) {
    std::ofstream(file) << head << line << "\n";
    EXPECT_NE(error(options_of(Search::random, 9)).find(":2: expected a trial"), std::string::npos) << line;
  }
}

// Bytes of a journal that were changed, lost or doubled: trials or an error of the user's, never anything else.
TEST(Tune, DamagedJournalsAreReadOrRefused) {
  const TuneOptions options = options_of(Search::random, 5);
  std::string good = journal_head(options) + "\n";
  for (int i = 0; i < 3; ++i) good += "{\"values\":[0.5,-1.25e-3],\"cost\":1.5}\n{\"values\":[1,0],\"cost\":null}\n";
  const JournalText whole = parse_journal(good + "{\"val", options, "journal");
  EXPECT_EQ(whole.trials.size(), 6U);
  EXPECT_EQ(whole.bytes, std::ssize(good));
  EXPECT_FALSE(whole.trials[1].cost);
  Random random(7);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    const auto place = [&] { return static_cast<size_t>(random.uniform() * static_cast<double>(text.size())); };
    for (int change = 0; change < 3; ++change) {
      const size_t at = place();
      if (change == 0) text[at] = static_cast<char>(random.uniform() * 256);
      else if (change == 1) text.erase(at, 1 + place() % 4);
      else text.insert(at, text.substr(place(), 5));
    }
    try {
      for (const Trial& trial : parse_journal(text, options, "journal").trials) {
        EXPECT_EQ(trial.values.size(), 2U);
        EXPECT_TRUE(!trial.cost || std::isfinite(*trial.cost));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_TRUE(std::string(error.what()).starts_with("journal:")) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Tune, RangesAreRead) {
  EXPECT_EQ(parse_range("ki=0.01:1"), (TuneRange{"ki", 0.01, 1, false}));
  EXPECT_EQ(parse_range("kp=-1e-3:2e3:log"), (TuneRange{"kp", -1e-3, 2e3, true}));
  for (const char* bad : {"", "ki", "ki=1", "=1:2", "ki=a:2", "ki=1:2:lin", "ki=1:", "ki=1:2x", "ki:1=2"}) {
    EXPECT_THROW(parse_range(bad), Error) << bad;
  }
  const auto search = [](const TuneRange& range) {
    return error_of([&] { tune({.ranges = {range}, .trials = 3}, valley); });
  };
  EXPECT_NE(search({"x", 2, 1, false}).find("rising"), std::string::npos);
  EXPECT_NE(search({"x", 0, 1, true}).find("above 0"), std::string::npos);
  EXPECT_NE(search({"x", 0, std::numeric_limits<double>::infinity(), false}).find("rising"), std::string::npos);
  EXPECT_NE(error_of([] {
              tune({.ranges = {{"x", 0, 1, false}, {"x", 0, 1, false}}}, valley);
            }).find("twice"),
            std::string::npos);
  EXPECT_THROW(search_named("annealing"), Error);
}

}  // namespace
}  // namespace sparkpilot::sim
