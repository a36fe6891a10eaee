#include "route/draw/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "route/draw/markup.h"

namespace sparkpilot::drive {
namespace plot_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// The path of the figure's first series.
std::string path_of(const std::string& svg) {
  const size_t at = svg.find("data-name"), begin = svg.find(" d=\"", at);
  if (at == std::string::npos) return "";
  return svg.substr(begin + 4, svg.find('"', begin + 4) - begin - 4);
}

TEST(Markup, Ticks) {
  const Ticks ticks = nice_ticks(-0.13, 0.52, 6);
  EXPECT_DOUBLE_EQ(ticks.step, 0.1);
  ASSERT_EQ(ticks.at.size(), 7U);
  EXPECT_DOUBLE_EQ(ticks.at.front(), -0.1);
  EXPECT_DOUBLE_EQ(ticks.at.back(), 0.5);
  EXPECT_DOUBLE_EQ(nice_ticks(0, 60, 8).step, 10);
  EXPECT_DOUBLE_EQ(nice_ticks(0, 1e12, 5).step, 2e11);
  EXPECT_LT(nice_ticks(1e15, 1e15 + 0.5, 5).at.size(), 1001U);
}

TEST(Markup, Numbers) {
  EXPECT_EQ(number(0.30000000000000004, 0.1), "0.3");
  EXPECT_EQ(number(-2, 1),
            "\u2212"
            "2");
  EXPECT_EQ(number(-0.0, 0.5), "0.0");
  EXPECT_EQ(number(1250, 250), "1250");
  EXPECT_EQ(number(2e11, 1e11), "2e+11");
  EXPECT_EQ(coordinate(-0.04), "0.0");
}

TEST(Markup, Shortens) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "ab…");
  EXPECT_EQ(shortened("äöüß", 3), "äö…");
  EXPECT_EQ(shortened("", 3), "");
}

TEST(Plot, BreaksAtGaps) {
  Plot plot{.title = "t", .y_label = "m"};
  plot.series = {{.name = "a", .x = {0, 1, 2, 3, 4, 5, 6}, .y = {1, 2, NAN, 4, kInf, 1e300, 3}}};
  const std::string text = svg(plot), path = path_of(text), dots = path_of(text.substr(text.find("sp-d c0")));
  EXPECT_EQ(count(path, "M"), 1U) << path;
  EXPECT_EQ(count(dots, "M"), 2U) << "points on their own are dots: " << dots;
  EXPECT_EQ(count(dots, "h0"), 2U) << dots;
  EXPECT_NE(text.find(".sp-d{stroke-width:5}"), std::string::npos);
  EXPECT_EQ(svg(plot), svg(plot));
}

TEST(Plot, HoldsWithoutValues) {
  for (const Plot& plot : {Plot{}, Plot{.series = {{}}}, Plot{.series = {{.name = "a", .x = {NAN}, .y = {NAN}}}},
                           Plot{.series = {{.name = "a", .x = {1, 2}}}}}) {
    const std::string text = svg(plot);
    EXPECT_NE(text.find("no values"), std::string::npos);
    EXPECT_EQ(text.find("nan"), std::string::npos) << text;
    EXPECT_EQ(text.find("inf"), std::string::npos) << text;
    EXPECT_NE(text.find("</svg>"), std::string::npos);
  }
}

TEST(Plot, ReachesAsFarAsItIsTold) {
  Plot plot{.series = {{.x = {2, 3}, .y = {0, 1}}}, .x_low = 0, .x_high = 10, .y_low = -1, .y_high = 4};
  EXPECT_NE(svg(plot).find("data-range=\"0 10 -1.2 4.2\""), std::string::npos) << svg(plot);
  plot.x_high = 1;  // below the values
  EXPECT_NE(svg(plot).find("data-range=\"0 3 "), std::string::npos);
}

TEST(Plot, HoldsWithOnePointAndWithALevelLine) {
  for (const double value : {0.0, -3.0, 1e29, 1e-13}) {
    const std::string one = svg(Plot{.series = {{.name = "a", .x = {2}, .y = {value}}}});
    EXPECT_NE(path_of(one).find("h0"), std::string::npos);
    const std::string level = svg(Plot{.series = {{.name = "a", .x = {1, 2}, .y = {value, value}}}});
    EXPECT_EQ(level.find("nan"), std::string::npos);
    EXPECT_EQ(count(path_of(level), "L"), 1U);
  }
}

TEST(Plot, ThinsManyPointsAndKeepsExtremes) {
  Plot plot{.title = "t"};
  plot.series.resize(1);
  for (int i = 0; i < 100000; ++i) {
    plot.series[0].x.push_back(i / 1000.0);
    plot.series[0].y.push_back(i == 50001 ? 9.0 : std::sin(i * 0.7));
  }
  const std::string text = svg(plot), path = path_of(text);
  EXPECT_LT(text.size(), 60000U);
  // The single high point is at the top; the space above it is the axis's margin.
  const std::string top = coordinate(44 + (280 - 38 - 44) * 0.04 / 1.08);
  EXPECT_EQ(count(path, " " + top + "L"), 1U) << top;
}

TEST(Plot, SpeaksToThoseWhoCannotSeeIt) {
  const std::string text =
      svg(Plot{.title = "Speed", .y_label = "m/s", .series = {{.name = "a", .x = {0, 1}, .y = {2, 5}}}});
  EXPECT_NE(text.find("role=\"img\""), std::string::npos);
  EXPECT_NE(text.find("<title>Speed</title>"), std::string::npos);
  EXPECT_NE(text.find("<desc>Lines of m/s over time, s; a: 2 values from 2 to 5.</desc>"), std::string::npos);
  EXPECT_NE(text.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(Histogram, MarksPercentiles) {
  Histogram histogram{.title = "latency"};
  for (int i = 0; i <= 100; ++i) histogram.values.push_back(i);
  histogram.values.push_back(NAN);
  const std::string text = svg(histogram);
  EXPECT_NE(text.find(">p50 50 ms<"), std::string::npos);
  EXPECT_NE(text.find(">p99 99 ms<"), std::string::npos);
  EXPECT_GE(count(text, "<rect"), 10U);
  EXPECT_LE(count(text, "<rect"), 80U);
}

TEST(Histogram, CountsWhatLiesFarBeyond) {
  Histogram histogram;
  for (int i = 0; i < 1000; ++i) histogram.values.push_back(20 + i % 10);
  histogram.values.push_back(5000);
  EXPECT_NE(svg(histogram).find("ms (1 more, up to 5e+03)"), std::string::npos);
}

TEST(Histogram, HoldsWithFewValues) {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {NAN, kInf}, {5}, {5, 5, 5}, {0, 0}, {-1e30, 1e30}}) {
    const std::string text = svg(Histogram{.values = values});
    EXPECT_EQ(text.find("nan"), std::string::npos);
    EXPECT_NE(text.find("</svg>"), std::string::npos);
  }
}

TEST(Histogram, Percentile) {
  EXPECT_FALSE(percentile({}, 50));
  EXPECT_DOUBLE_EQ(*percentile({3, 1, 2, 4}, 50), 2);
  EXPECT_DOUBLE_EQ(*percentile({3, 1, 2, 4}, 51), 3);
  EXPECT_DOUBLE_EQ(*percentile({3, 1, 2, 4}, 0), 1);
  EXPECT_DOUBLE_EQ(*percentile({3, 1, 2, 4}, 100), 4);
  EXPECT_DOUBLE_EQ(*percentile({7}, 99), 7);
}

}  // namespace plot_test
}  // namespace sparkpilot::drive
