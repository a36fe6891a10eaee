// Several models on the same frames, decoded once: the same results as each alone.
#include <gtest/gtest.h>

#include "drive/test_route.h"

namespace sparkpilot::drive {
namespace {

class SideBySide : public DriveTest {
 protected:
  // Two segments with a gap in the frames and a driver camera.
  void make_route() const {
    for (int n = 0; n < 2; ++n) {
      write_video(segment(n) / "fcamera.hevc", 9, 9 * n);
      write_video(segment(n) / "dcamera.hevc", 9, 5 * n);
      std::vector<uint32_t> ids = frames(static_cast<uint32_t>(11 * n), 9);
      for (size_t i = 6; i < ids.size(); ++i) ids[i] += 2;
      write_log(n, ids, true);
    }
  }

  std::vector<DriveOptions> three_runs(const std::string& folder) const {
    std::vector<DriveOptions> runs(3, options_);
    runs[0].models.driver_monitoring = folder_ / "tiny_dmonitoring_model.onnx";
    runs[1].session.passes.precision = Precision::fp16;
    runs[1].models.driver_monitoring = runs[0].models.driver_monitoring;
    runs[2].session.passes.off = {"all"};
    for (size_t i = 0; i < runs.size(); ++i) runs[i].out = folder_ / folder / std::to_string(i);
    return runs;
  }
};

TEST_F(SideBySide, GivesTheResultsOfEachAlone) {
  make_route();
  const Route route = find_route((folder_ / "route").string());
  const std::vector<DriveOptions> together = three_runs("together"), apart = three_runs("apart");
  const std::vector<DriveResult> results = drive_side_by_side(route, together);
  ASSERT_EQ(results.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const DriveResult alone = drive_route(route, apart[i]);
    ASSERT_EQ(results[i].segments.size(), 2u);
    EXPECT_EQ(results[i].networks.size(), alone.networks.size());
    for (size_t s = 0; s < 2; ++s) {
      const SegmentResult &one = results[i].segments[s], &other = alone.segments[s];
      EXPECT_EQ(first_difference(messages(together[i].out / one.name), messages(apart[i].out / one.name)), "")
          << "run " << i << ", segment " << s;
      EXPECT_TRUE(one.complete);
      EXPECT_EQ(one.dropped, other.dropped);
      EXPECT_EQ(one.driver_frames, other.driver_frames);
      EXPECT_EQ(one.driver_frames, i < 2 ? 9 : 0);
      EXPECT_EQ(one.notes, other.notes);
      EXPECT_EQ(one.cameras.size(), i < 2 ? 2u : other.cameras.size() + 1) << "the third has no use for the driver's";
      ASSERT_EQ(one.frames.size(), other.frames.size());
      EXPECT_GT(one.frames[0].vision_ms, 0);
      EXPECT_EQ(std::filesystem::exists(together[i].out / one.name / "overlay.mp4"), i == 0);
    }
  }
  EXPECT_NE(first_difference(messages(together[0].out / results[0].segments[0].name),
                             messages(together[1].out / results[1].segments[0].name)),
            "");
}

// 0 is what the stages leave the networks.
TEST_F(SideBySide, EachMayHaveItsOwnThreads) {
  make_route();
  std::vector<DriveOptions> runs = three_runs("out");
  for (DriveOptions& run : runs) {
    run.session.passes = options_.session.passes;
    run.models = runs[0].models;
  }
  runs[1].session.threads = 2;
  runs[2].session.threads = 3;
  const std::vector<DriveResult> results = drive_side_by_side(find_route((folder_ / "route").string()), runs);
  EXPECT_EQ(results[0].shares.infer, 1);
  EXPECT_EQ(results[1].shares.infer, 2);
  EXPECT_EQ(results[2].shares.infer, 3);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(results[i].shares.decode, results[0].shares.decode);
    for (const SegmentResult& segment : results[0].segments) {
      EXPECT_EQ(first_difference(messages(runs[i].out / segment.name), messages(runs[0].out / segment.name)), "") << i;
    }
  }
  EXPECT_EQ(drive_route(find_route((folder_ / "route").string()), runs[1]).shares.infer, 2) << "alone, too";
}

TEST_F(SideBySide, RewrittenModelsAreTheirOwnRun) {
  make_route();
  const Route route = find_route((folder_ / "route").string());
  std::vector<DriveOptions> runs = three_runs("out");
  runs.resize(2);
  int rewritten = 0;
  runs[1].models.rewrite = [&](Graph graph, const std::filesystem::path& file) {
    EXPECT_TRUE(file == options_.models.vision || file == options_.models.policy) << file;
    ++rewritten;
    return graph;
  };
  runs[1].models.rewritten_as = "as it was";
  const std::vector<DriveResult> results = drive_side_by_side(route, runs);
  EXPECT_EQ(rewritten, 2);
  EXPECT_NE(results[1].run.find("as it was"), std::string::npos);
  EXPECT_EQ(results[0].run.find("as it was"), std::string::npos);
}

TEST_F(SideBySide, StepsAreSeenAndAStopEndsAll) {
  make_route();
  std::vector<DriveOptions> runs = three_runs("out");
  std::atomic<bool> stop{false};
  int steps = 0;
  for (DriveOptions& run : runs) run.stop = &stop;
  runs[1].stepped = [&](DrivingModel& model) {
    EXPECT_FALSE(model.inputs().empty());
    if (++steps == 3) stop = true;
  };
  const std::vector<DriveResult> results = drive_side_by_side(find_route((folder_ / "route").string()), runs);
  EXPECT_EQ(steps, 3);
  for (const DriveResult& result : results) {
    EXPECT_TRUE(result.stopped);
    ASSERT_EQ(result.segments.size(), 1u);
    EXPECT_FALSE(result.segments[0].complete);
    EXPECT_EQ(result.segments[0].frames.size(), 3u);
  }
}

}  // namespace
}  // namespace sparkpilot::drive
