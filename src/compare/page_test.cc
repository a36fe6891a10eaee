#include "compare/page.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace sparkpilot::compare {
namespace {

constexpr uint32_t kFirst = 100, kFrames = 60;

drive::ModelRecord model_of(uint32_t frame, bool action) {
  drive::ModelRecord out;
  out.frame_id = frame;
  out.timestamp_eof = 5'000'000'000'000 + uint64_t{frame} * 50'000'000;
  out.velocity.x = {20, 21};
  out.position = {.x = {0, 10, 20, 30, 40, 50, 60, 70}, .y = {0, 0, 0, 0, 0, 0, 0, 0}, .z = {}, .t = {}};
  out.position.t = {0, 1, 2, 3, 4, 5, 6, 7};
  if (action) out.action = drive::ActionRecord{0.001F, 0.3F, false};
  return out;
}

// Two drives. The first has no action and 40 frames more, and differs in a field of one frame; the second swerves
// twice.
class PageTest : public testing::Test {
 protected:
  PageTest() {
    first.name = "first";
    second.name = "second <b>";
    for (uint32_t i = 0; i < kFrames; ++i) {
      first.models.push_back(model_of(kFirst + i, false));
      second.models.push_back(model_of(kFirst + i, true));
    }
    for (uint32_t i = 0; i < 40; ++i) first.models.push_back(model_of(kFirst + kFrames + i, false));
    first.models[7].velocity.x[0] = 25;
    second.models[10].position.y[6] = 2;
    second.models[11].position.y[6] = 1.5F;
    second.models[50].position.y[6] = 3;
  }

  ComparisonPage page(const drive::Tolerances& tolerances = {}) const {
    ComparisonPage out{.first = &first, .others = {}, .version = "1"};
    ComparedDrive& one = out.others.emplace_back();
    one.drive = &second;
    one.terms = driving_terms(second.models, first.models);
    one.worst = worst_moments(one.terms, 10);
    one.fields = drive::compare_models(second.models, first.models, tolerances);
    return out;
  }

  Drive first, second;
};

TEST_F(PageTest, PlotsShareOneTimeAxis) {
  const std::string html = to_html(page());
  const std::regex range("data-range=\"([^ ]+ [^ ]+) ");
  std::set<std::string> axes;
  int plots = 0;
  for (auto at = std::sregex_iterator(html.begin(), html.end(), range); at != std::sregex_iterator(); ++at, ++plots)
    axes.insert((*at)[1]);
  EXPECT_GE(plots, 3);
  EXPECT_EQ(axes, std::set<std::string>{"0 4.95"}) << "the first drive is 40 frames longer";
}

TEST_F(PageTest, WhatTheFirstLacksIsNotCompared) {
  const std::regex row("<tr class=\"faint\"><td>desired_curvature</td>.*<td>not compared</td></tr>");
  const std::string html = to_html(page());
  EXPECT_TRUE(std::regex_search(html, row));
  const size_t plot = html.find("Desired curvature");
  ASSERT_NE(plot, std::string::npos);
  const std::string drawn = html.substr(plot, html.find("</svg>", plot) - plot);
  EXPECT_NE(drawn.find(">first: not compared<"), std::string::npos) << drawn;
  const std::regex lacks(": not compared<");
  EXPECT_EQ(std::distance(std::sregex_iterator(html.begin(), html.end(), lacks), {}), 2)
      << "curvature and acceleration";
}

TEST_F(PageTest, RowsBeyondTheirToleranceHaveAColour) {
  const std::regex row("<tr class=\"bad\"><td>velocity_x</td>.*<td>beyond</td></tr>");
  EXPECT_TRUE(std::regex_search(to_html(page()), row));
  drive::Tolerances wide;
  wide.scale(1e6);
  EXPECT_EQ(to_html(page(wide)).find("<tr class=\"bad\">"), std::string::npos);
}

TEST_F(PageTest, TheWorstMomentsAreOfDifferentSeconds) {
  const std::vector<FrameTerms> worst = worst_moments(driving_terms(second.models, first.models), 10);
  ASSERT_EQ(worst.size(), 2u) << "frame 111 is next to 110; the others are equal";
  EXPECT_EQ(worst[0].frame_id, kFirst + 50);
  EXPECT_EQ(worst[1].frame_id, kFirst + 10);
  EXPECT_NEAR(worst[0].values[3].value_or(0), 3, 1e-6);
  EXPECT_EQ(worst_moments(driving_terms(first.models, first.models), 10).size(), 0u);
  EXPECT_EQ(worst_moments(driving_terms(second.models, first.models), 1).size(), 1u);
}

TEST_F(PageTest, PicturesLeadIntoTheFilm) {
  ComparisonPage with = page();
  with.others[0].film_file = "compare.mp4";
  with.others[0].film.seconds = {{kFirst + 50, 2.5}};
  with.others[0].film.pictures = {{kFirst + 50, {0xff, 0xd8, 0xff, 0xe0, 1}}};
  const std::string html = to_html(with);
  EXPECT_NE(html.find("<a href=\"./compare.mp4#t=2.50\"><img"), std::string::npos);
  EXPECT_NE(html.find("frame 150, 2.50 s: plan at 1 s 0 m"), std::string::npos);
  EXPECT_EQ(html.find("second <b>"), std::string::npos) << "names are text";
}

TEST_F(PageTest, HoldsWithoutFrames) {
  const Drive empty{.name = "empty", .route = {}, .recordings = {}, .models = {}};
  ComparisonPage none{.first = &empty, .others = {}, .version = "1"};
  none.others.emplace_back().drive = &empty;
  none.others[0].terms = driving_terms({}, {});
  EXPECT_NE(to_html(none).find("0 frames in both"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::compare
