#include "sim/cma_es.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "base/statistics.h"
#include "base/test_error.h"

namespace sparkpilot::sim {
namespace {

using Point = std::vector<double>;
using Objective = std::function<double(const Point&)>;

double sphere(const Point& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}
double ellipsoid(const Point& x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += std::pow(10, 6.0 * static_cast<double>(i) / static_cast<double>(x.size() - 1)) * x[i] * x[i];
  }
  return sum;
}
double rosenbrock(const Point& x) {
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    sum += 100 * std::pow(x[i + 1] - x[i] * x[i], 2) + std::pow(1 - x[i], 2);
  }
  return sum;
}
double rastrigin(const Point& x) {
  double sum = 0;
  for (const double v : x) sum += 10 + v * v - 10 * std::cos(2 * std::numbers::pi * v);
  return sum;
}

// Evaluations until a value is at most 1e-10; infinite if the search stops before.
double evaluations(const Objective& function, CmaEs::Options options) {
  CmaEs search(std::move(options));
  double count = 0;
  while (search.stop().empty() && count < 100'000) {
    std::vector<double> values;
    for (const Point& point : search.ask()) values.push_back(function(point));
    count += static_cast<double>(values.size());
    search.tell(values);
    if (search.best()->value <= 1e-10) return count;
  }
  return std::numeric_limits<double>::infinity();
}

// Beside the package cma 4.5.0: medians of 51 runs by bench/sim/cma_evaluations.py, and how many of them succeeded.
TEST(CmaEs, NeedsAboutAsManyEvaluationsAsTheAuthorsPackage) {
  struct Case {
    const char* name;
    Objective function;
    CmaEs::Options options;
    double theirs;
    int succeed;  // of 51
  };
  const Case cases[] = {{"sphere", sphere, {.start = Point(10, 1.0), .sigma = 0.5}, 1650, 51},
                        {"ellipsoid", ellipsoid, {.start = Point(8, 1.0), .sigma = 0.5}, 3010, 51},
                        {"rosenbrock", rosenbrock, {.start = Point(6, 0.0), .sigma = 0.3}, 2367, 50},
                        {"rastrigin", rastrigin, {.start = Point(4, 2.0), .sigma = 2, .population = 100}, 5200, 38}};
  for (const Case& c : cases) {
    std::vector<double> counts;
    for (uint64_t seed = 1; seed <= 51; ++seed) {
      CmaEs::Options options = c.options;
      options.seed = seed;
      const double count = evaluations(c.function, options);
      if (std::isfinite(count)) counts.push_back(count);
    }
    printf("%s: median %.0f of %zu of 51, theirs %.0f of %d\n", c.name, median(counts), counts.size(), c.theirs,
           c.succeed);
    EXPECT_GE(std::ssize(counts), c.succeed - 8) << c.name;
    EXPECT_LT(median(counts), 1.25 * c.theirs) << c.name;
    EXPECT_GT(median(counts), 0.75 * c.theirs) << c.name;
  }
}

TEST(CmaEs, OneNumberAndValuesThatAreNotFinite) {
  // Left of 1 there is nothing: NaN. The least is at the edge's right.
  CmaEs search({.start = {4}, .sigma = 1, .seed = 3});
  while (search.stop().empty() && search.generation() < 300) {
    std::vector<double> values;
    for (const Point& p : search.ask()) {
      values.push_back(p[0] < 1 ? std::numeric_limits<double>::quiet_NaN() : (p[0] - 1.5) * (p[0] - 1.5));
    }
    search.tell(values);
  }
  EXPECT_NEAR(search.best()->point[0], 1.5, 1e-5);
  EXPECT_NE(search.stop(), "");
  // Nothing but NaN: it ends, without a best.
  CmaEs lost({.start = {0, 0}});
  while (lost.stop().empty() && lost.generation() < 300) {
    lost.tell(std::vector<double>(lost.ask().size(), std::numeric_limits<double>::quiet_NaN()));
  }
  EXPECT_FALSE(lost.best().has_value());
  EXPECT_LT(lost.generation(), 300);
  for (const double x : lost.mean()) EXPECT_TRUE(std::isfinite(x));
}

TEST(CmaEs, GoesOnToTheSamePointsWhenToldTheSameValues) {
  const CmaEs::Options options{.start = {1, 2, 3}, .sigma = 0.5, .seed = 8};
  CmaEs whole(options), again(options);
  std::vector<std::vector<double>> journal;
  for (int g = 0; g < 20; ++g) {
    std::vector<double> values;
    for (const Point& p : whole.ask()) values.push_back(rosenbrock(p));
    journal.push_back(values);
    whole.tell(values);
  }
  for (const auto& values : journal) {
    again.ask();
    again.tell(values);
  }
  EXPECT_EQ(again.ask(), whole.ask());
  EXPECT_EQ(again.ask(), again.ask());
  EXPECT_EQ(again.best()->value, whole.best()->value);
}

TEST(CmaEs, RefusesWhatIsNoSearch) {
  EXPECT_THROW(CmaEs({.start = {}}), Error);
  EXPECT_THROW(CmaEs({.start = {1}, .sigma = 0}), Error);
  EXPECT_THROW(CmaEs({.start = {1}, .population = 3}), Error);
  CmaEs search({.start = {1}});
  EXPECT_THROW(search.tell(std::vector<double>(4, 0.0)), Error);  // before ask()
}

}  // namespace
}  // namespace sparkpilot::sim
