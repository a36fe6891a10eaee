#include "drive/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

namespace sparkpilot::drive {
namespace {

constexpr uint32_t kFirst = 100, kFrames = 60;
constexpr double kStart = 5000;  // s

ModelRecord model_of(uint32_t frame, bool action) {
  ModelRecord out;
  out.frame_id = frame;
  out.velocity.x = {20, 21};
  if (action) out.action = ActionRecord{0.001F, 0.3F, false};
  return out;
}

// Two segments of a run whose reference has no action and differs in one field.
DriveReport report() {
  DriveReport out{.route = "route", .out = "/nowhere", .device = "cpu", .machine = "machine", .version = "1"};
  for (const int number : {0, 1}) {
    SegmentResult segment;
    segment.number = number;
    segment.name = "segment " + std::to_string(number);
    segment.complete = true;
    for (uint32_t i = 0; i < kFrames / 2; ++i) {
      FrameResult frame;
      frame.index = i;
      frame.frame_id = kFirst + static_cast<uint32_t>(number) * kFrames / 2 + i;
      frame.time = kStart + 0.05 * (frame.frame_id - kFirst);
      frame.model = true;
      if (number == 1) frame.v_ego = 20.0F;  // the speed is known for the second segment only
      segment.frames.push_back(frame);
    }
    out.result.segments.push_back(segment);
  }
  ReferenceReport reference{.name = "reference"};
  for (uint32_t i = 0; i < kFrames; ++i) {
    reference.ours.push_back(model_of(kFirst + i, true));
    reference.theirs.push_back(model_of(kFirst + i, false));
  }
  reference.theirs[7].velocity.x[0] = 25;
  for (uint32_t i = 0; i < 40; ++i) reference.theirs.push_back(model_of(kFirst + kFrames + i, false));
  reference.comparison = compare_models(reference.ours, reference.theirs);
  out.reference = reference;
  return out;
}

TEST(Report, PlotsShareOneTimeAxis) {
  const std::string html = summary_html(report());
  const std::regex range("data-range=\"([^ ]+ [^ ]+) ");
  std::set<std::string> axes;
  int plots = 0;
  for (auto at = std::sregex_iterator(html.begin(), html.end(), range); at != std::sregex_iterator(); ++at, ++plots)
    axes.insert((*at)[1]);
  EXPECT_GE(plots, 5);  // the reference has 40 frames more; the speed is known for half of the run
  EXPECT_EQ(axes, std::set<std::string>{"0 2.95"});
}

TEST(Report, WhatTheReferenceLacksIsNotCompared) {
  const DriveReport run = report();
  const std::string html = summary_html(run);
  const std::regex row("<tr class=\"faint\"><td>desired_curvature</td>.*<td>not compared</td></tr>");
  EXPECT_TRUE(std::regex_search(html, row));
  EXPECT_NE(html.find(">reference: not compared</text>"), std::string::npos) << "the legend takes it for compared";
  const auto json = summary_json(run);
  EXPECT_EQ(json["comparison"]["fields"]["desired_curvature"]["outcome"], "not compared");
  EXPECT_TRUE(json["comparison"]["fields"]["desired_curvature"]["ok"].is_null());
}

TEST(Report, RowsBeyondTheirToleranceHaveAColour) {
  DriveReport run = report();
  const std::string html = summary_html(run);
  const std::regex row("<tr class=\"bad\"><td>velocity_x</td>.*<td>beyond</td></tr>");
  EXPECT_TRUE(std::regex_search(html, row));
  run.reference->comparison = compare_models(run.reference->ours, run.reference->ours);
  EXPECT_EQ(summary_html(run).find("<tr class=\"bad\">"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::drive
