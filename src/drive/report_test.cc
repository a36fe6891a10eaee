#include "drive/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "drive/test_route.h"

namespace sparkpilot::drive {
namespace {

constexpr uint32_t kFirst = 100, kFrames = 60;
constexpr double kRunStart = 5000;  // s

// Two segments of a run that differs from its reference.
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
      frame.time = kRunStart + 0.05 * (frame.frame_id - kFirst);
      frame.model = true;
      if (number == 1) frame.v_ego = 20.0F;  // the speed is known for the second segment only
      segment.frames.push_back(frame);
    }
    out.result.segments.push_back(segment);
  }
  const nlohmann::ordered_json comparison{{"drives", 2}};
  out.reference = ReferenceReport{.name = "reference",
                                  .same = false,
                                  .verdict = "fields differ",
                                  .page = "compare.html",
                                  .comparison = std::make_shared<const nlohmann::ordered_json>(comparison)};
  return out;
}

TEST(Report, PlotsShareOneTimeAxis) {
  const std::string html = summary_html(report());
  const std::regex range("data-range=\"([^ ]+ [^ ]+) ");
  std::set<std::string> axes;
  int plots = 0;
  for (auto at = std::sregex_iterator(html.begin(), html.end(), range); at != std::sregex_iterator(); ++at, ++plots)
    axes.insert((*at)[1]);
  EXPECT_GE(plots, 2);  // the speed is known for half of the run
  EXPECT_EQ(axes, std::set<std::string>{"0 2.95"});
}

TEST(Report, TellsOfTheReferenceAndLeadsToTheWhole) {
  DriveReport run = report();
  const std::string html = summary_html(run);
  EXPECT_NE(html.find("<strong>Warning.</strong> fields differ"), std::string::npos);
  EXPECT_NE(html.find("<a href=\"./compare.html\">"), std::string::npos);
  EXPECT_EQ(summary_json(run)["comparison"]["drives"], 2);
  EXPECT_EQ(summary_json(run)["reference"], "reference");
  run.reference->same = true;
  EXPECT_EQ(summary_html(run).find("Warning."), std::string::npos);
}

// The recorded model's error stands in the first line only where no model ran.
TEST(Report, SaysWhereNoPlanCouldBeJudged) {
  DriveReport run = report();
  for (FrameResult& frame : run.result.segments[0].frames) frame.recorded_errors[1] = PlanError{.along = 1.5F};
  EXPECT_NE(summary_html(run).find("recorded model"), std::string::npos);
  run.result.networks = {{.file = "v", .role = "vision", .checkpoint = "", .device = "cpu"}};
  EXPECT_NE(summary_html(run).find("no plan of this run could be judged"), std::string::npos);
  for (FrameResult& frame : run.result.segments[0].frames) frame.errors[1] = PlanError{.along = 0.5F};
  EXPECT_EQ(summary_html(run).find("no plan of this run could be judged"), std::string::npos);
  EXPECT_NE(summary_html(run).find("0.50 m"), std::string::npos);
}

// What a segment says counts, not where the network was loaded last; an older result says nothing.
TEST(Report, DevicesAreThoseOfTheSegments) {
  DriveResult result = report().result;
  EXPECT_EQ(settle_devices(result), "cpu");
  result.networks = {{.file = "v", .role = "vision", .checkpoint = "", .device = "cuda:1"},
                     {.file = "p", .role = "policy", .checkpoint = "", .device = "cuda:1"}};
  EXPECT_EQ(settle_devices(result), "cuda:1");
  result.segments[0].devices = {{"vision", "cuda:0"}, {"policy", "cpu"}};
  EXPECT_EQ(settle_devices(result), "cuda:0, cpu");
  result.segments[1].devices = {{"vision", "cuda:1"}, {"policy", "cpu"}};
  EXPECT_EQ(settle_devices(result), "cuda:0, cuda:1, cpu");
  EXPECT_EQ(result.networks[0].device, "cuda:0, cuda:1");
  EXPECT_EQ(result.networks[1].device, "cpu");

  const std::string text = to_json(result.segments[0]).dump();
  EXPECT_EQ(segment_result_from(text, "segment.json").devices, result.segments[0].devices);
  nlohmann::ordered_json older = nlohmann::ordered_json::parse(text);
  older.erase("devices");
  EXPECT_TRUE(segment_result_from(older.dump(), "segment.json").devices.empty());
}

// JSON has none.
TEST(Report, NaNComesBackFromASegment) {
  SegmentResult result = report().result.segments.at(0);
  ASSERT_FALSE(result.frames.empty());
  result.frames[0].lane_probs[1] = NAN;
  result.frames[0].errors[0] = PlanError{1, NAN, 3};
  result.frames[0].lead_prob = NAN;
  const SegmentResult back = segment_result_from(to_json(result).dump(), "segment.json");
  EXPECT_TRUE(std::isnan(back.frames[0].lane_probs[1]));
  EXPECT_EQ(back.frames[0].lane_probs[0], result.frames[0].lane_probs[0]);
  EXPECT_TRUE(std::isnan(back.frames[0].lead_prob));
  EXPECT_FALSE(back.frames[0].v_ego);
  ASSERT_TRUE(back.frames[0].errors[0]);
  EXPECT_TRUE(std::isnan(back.frames[0].errors[0]->across));
  EXPECT_EQ(back.frames[0].errors[0]->heading_deg, 3);
}

// Another run's frames that a run is not asked for are left out, not those that it lacks.
TEST_F(DriveTest, WhatARunIsNotAskedForIsNotMissing) {
  using Ids = std::vector<uint32_t>;
  for (const int n : {0, 1}) write_log(n, frames(static_cast<uint32_t>(5 + 8 * n), 8));
  Route route = find_route((folder_ / "route").string());
  const auto of = [](const Ids& ids) {
    std::vector<ModelRecord> out;
    for (const uint32_t id : ids) out.emplace_back().frame_id = id;
    return out;
  };
  const auto left = [&](const Ids& ours) {
    std::vector<ModelRecord> reference = of(frames(4, 17));
    leave_out_unasked(route, options_, of(ours), reference);
    Ids out;
    for (const ModelRecord& record : reference) out.push_back(record.frame_id);
    return out;
  };
  EXPECT_EQ(left(frames(5, 16)), frames(5, 16)) << "the route begins with frame 5";
  EXPECT_EQ(left(frames(7, 3)), frames(5, 16));
  options_.limit = 3;
  EXPECT_EQ(left({6, 14, 15}), (Ids{5, 6, 7, 13, 14, 15}));
  EXPECT_EQ(left({5, 6, 7, 13, 14}), (Ids{5, 6, 7, 13, 14, 15}));
  route.segments.erase(route.segments.begin());
  EXPECT_EQ(left({14}), (Ids{13, 14, 15}));
}

}  // namespace
}  // namespace sparkpilot::drive
