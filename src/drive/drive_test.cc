// Hand-made routes of small pictures through the tiny models: what the pipeline does if a route is incomplete.
#include "drive/drive.h"

#include <capnp/message.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/file.h"
#include "drive/segment_run.h"
#include "drive/test_route.h"
#include "onnx/export.h"
#include "onnx/zoo.h"
#include "route/log/model_compare.h"
#include "route/log/reader.h"
#include "route/log/writer.h"
#include "route/test_files.h"
#include "route/video/reader.h"
#include "route/video/writer.h"
#include "sparkpilot/error.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace {
namespace fs = std::filesystem;

TEST_F(DriveTest, EveryFrameHasItsMessages) {
  write_video(segment(0) / "fcamera.hevc", 12);
  write_log(0, frames(5, 12));
  const DriveResult result = drive();
  ASSERT_EQ(result.segments.size(), 1u);
  const SegmentResult& s = result.segments[0];
  EXPECT_TRUE(s.complete);
  EXPECT_EQ(s.frames.size(), 12u);
  EXPECT_EQ(s.dropped, 0);
  EXPECT_EQ(s.frames[3].frame_id, 8u);
  EXPECT_EQ(s.frames[3].v_ego, 10.0F);
  EXPECT_EQ(read_models(out(0)).size(), 12u);
  LogReader log(out(0) / "rlog.zst");
  int64_t odometry = 0;
  while (log.next()) odometry += event_kind(log.event()) == "cameraOdometry";
  EXPECT_EQ(odometry, 12);
  VideoReader video(out(0) / "overlay.mp4");
  int64_t shown = 0;
  while (video.next()) ++shown;
  EXPECT_EQ(shown, 12);
  for (const auto& entry : fs::directory_iterator(out(0)))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos);
}

TEST_F(DriveTest, LostFramesHaveNoMessageAndAreSaid) {
  write_video(segment(0) / "fcamera.hevc", 6);
  write_log(0, {5, 6, 9, 10, 11, 12});
  const DriveResult result = drive();
  EXPECT_EQ(result.segments[0].dropped, 2);
  std::vector<uint32_t> ids;
  for (const ModelRecord& model : read_models(out(0))) ids.push_back(model.frame_id);
  EXPECT_EQ(ids, (std::vector<uint32_t>{5, 6, 10, 11, 12}));
}

// Its messages are not valid, and the segment says so.
TEST_F(DriveTest, APlanThatIsNotFiniteIsTold) {
  Graph policy = build_zoo_model("tiny_driving_policy");
  for (const NodeId id : policy.order()) {
    if (policy.node(id).op->name != "Gemm" && policy.node(id).op->name != "MatMul") continue;
    const Tensor* weights = policy.constant(policy.node(id).inputs[1]);
    if (!weights) continue;
    Tensor wrong = weights->clone();
    for (int64_t i = 0; i < wrong.elements(); ++i) store_element(wrong.dtype(), wrong.raw(), i, NAN);
    policy.value(policy.node(id).inputs[1]).constant = wrong;
  }
  save_onnx(policy, options_.models.policy);
  write_video(segment(0) / "fcamera.hevc", 6);
  write_log(0, frames(0, 6));
  const SegmentResult result = drive().segments.at(0);
  EXPECT_TRUE(has_note(result, "the plan is not finite in 6 of 6 frames"));
  for (const FrameResult& frame : result.frames) EXPECT_FALSE(frame.valid);
  int messages = 0;
  LogReader log(out(0) / "rlog.zst");
  while (log.next()) {
    const std::string kind = event_kind(log.event());
    if (kind != "modelV2" && kind != "cameraOdometry") continue;
    EXPECT_FALSE(log.event().getValid()) << kind;
    ++messages;
  }
  EXPECT_EQ(messages, 12);
}

TEST_F(DriveTest, FewerFramesThanTheIndexNames) {
  write_video(segment(0) / "fcamera.hevc", 6);
  write_log(0, frames(0, 9));
  const SegmentResult result = drive().segments.at(0);
  EXPECT_EQ(result.frames.size(), 6u);
  EXPECT_TRUE(has_note(result, "3 frames fewer")) << fmt::format("{}", result.notes.size());
}

// A device stamps the pictures of qcamera.ts with their timestampEof. Without such stamps the end is taken for lost.
TEST_F(DriveTest, PicturesWithTheirTimesAreFoundWhereOthersAreLost) {
  write_log(0, frames(0, 10));
  options_.qcamera = true;
  options_.models = {};
  const auto ids_of = [&](int64_t first) {
    VideoWriter writer(segment(0) / "qcamera.ts", {.width = kWidth, .height = kHeight, .first = first});
    for (int i = 4; i < 10; ++i) writer.write(picture(i).view());
    writer.commit();
    const SegmentResult result = drive().segments.at(0);
    std::vector<uint32_t> ids;
    for (const FrameResult& frame : result.frames) ids.push_back(frame.frame_id);
    const bool timed = ids.front() == 4;
    EXPECT_TRUE(has_note(result, timed ? "4 frames fewer than the log's index names; 6 are placed by their times"
                                       : "4 frames fewer than the log's index names, taken for the last ones"));
    return ids;
  };
  EXPECT_EQ(ids_of(0), frames(0, 6));
  EXPECT_EQ(ids_of((kStart / kFrame) + 5), frames(4, 6));
}

TEST_F(DriveTest, AnotherSegmentsLogIsTold) {
  write_video(segment(3) / "fcamera.hevc", 4);
  write_log(1, frames(24, 4));
  fs::rename(segment(1) / "rlog.zst", segment(3) / "rlog.zst");
  EXPECT_TRUE(has_note(drive().segments.at(0), "by its log it is segment 1"));
}

// No two segments have frames of the same number.
TEST_F(DriveTest, FramesWithoutAnIndexAreNumberedBySegments) {
  for (const int n : {0, 2}) {
    write_video(segment(n) / "fcamera.hevc", 3);
    write_log(n, {});
  }
  std::vector<uint32_t> ids;
  for (const SegmentResult& result : drive().segments) {
    for (const FrameResult& frame : result.frames) ids.push_back(frame.frame_id);
    EXPECT_TRUE(has_note(result, fmt::format("frames are numbered from {}", ids[ids.size() - 3])));
  }
  EXPECT_EQ(ids, (std::vector<uint32_t>{0, 1, 2, 2400, 2401, 2402}));
}

TEST_F(DriveTest, FramesThatTheIndexDoesNotKnowAreLeftOut) {
  write_video(segment(0) / "fcamera.hevc", 9);
  write_log(0, frames(0, 6));
  const SegmentResult result = drive().segments.at(0);
  EXPECT_EQ(result.frames.size(), 6u);
  EXPECT_TRUE(has_note(result, "3 frames that the log's index does not know"));
}

TEST_F(DriveTest, ASegmentThatCannotBeDrivenIsLeftOut) {
  write_video(segment(0) / "fcamera.hevc", 4);
  write_log(0, frames(0, 4));
  write_log(1, frames(4, 4));  // no video
  write_video(segment(2) / "fcamera.hevc", 4);
  write_text(segment(2) / "rlog.zst", "<html>not found</html>");
  write_video(segment(3) / "fcamera.hevc", 4);
  write_log(3, frames(12, 4));
  const DriveResult result = drive();
  ASSERT_EQ(result.segments.size(), 4u);
  for (const SegmentResult& segment : result.segments) {
    const bool bad = segment.number == 1 || segment.number == 2;
    EXPECT_EQ(segment.left_out, bad);
    EXPECT_EQ(segment.complete, !bad);
    EXPECT_EQ(segment.frames.empty(), bad);
    EXPECT_EQ(segment.notes.empty(), !bad);
  }
}

TEST_F(DriveTest, WithoutALogFramesAreNumbered) {
  write_video(segment(0) / "fcamera.hevc", 5);
  const SegmentResult result = drive().segments.at(0);
  EXPECT_EQ(result.frames.size(), 5u);
  EXPECT_TRUE(has_note(result, "no encode index"));
  EXPECT_FALSE(result.frames[0].valid);  // there was no calibration
  EXPECT_EQ(result.frames[4].time, 0.2);
  write_video(segment(2) / "fcamera.hevc", 5);
  EXPECT_EQ(drive().segments.at(1).frames[4].time, 120.2);
}

TEST_F(DriveTest, AWideCameraThatIsNoVideoIsStoodInFor) {
  write_video(segment(0) / "fcamera.hevc", 5);
  write_text(segment(0) / "ecamera.hevc", "nothing of the kind");
  write_log(0, frames(0, 5));
  const SegmentResult result = drive().segments.at(0);
  EXPECT_EQ(result.frames.size(), 5u);
  EXPECT_FALSE(result.notes.empty());
}

TEST_F(DriveTest, PicturesOfNoKnownCameraNeedAFocalLength) {
  write_video(segment(0) / "fcamera.hevc", 3);
  write_log(0, frames(0, 3));
  options_.focal_length.reset();
  const std::string said = error();
  EXPECT_NE(said.find("160x96"), std::string::npos) << said;
  EXPECT_NE(said.find("--focal-length"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(out(0)));
}

TEST_F(DriveTest, StateGoesFromSegmentToSegment) {
  for (int n = 0; n < 3; ++n) {
    write_video(segment(n) / "fcamera.hevc", 8);
    write_log(n, frames(static_cast<uint32_t>(8 * n), 8));
  }
  drive();
  const std::vector<ModelRecord> alone = read_models(options_.out);
  ASSERT_EQ(alone.size(), 24u);
  // Another process drives only the middle segment, once the first run has ended.
  options_.out = folder_ / "second";
  options_.ranks = 3;
  options_.rank = 1;
  EXPECT_EQ(drive().segments.size(), 1u);
  const std::vector<ModelRecord> part = read_models(options_.out);
  ASSERT_EQ(part.size(), 8u);
  const ModelComparison same = compare_models(part, std::span(alone).subspan(8, 8));
  for (const FieldComparison& field : same.fields) EXPECT_EQ(field.max.value_or(0), 0) << field.name;
}

// Short segments: the models' state depends on several segments before; frames are lost, too.
TEST_F(DriveTest, StateReachesBackOverShortSegments) {
  constexpr uint32_t kSegments = 20, kFrames = 16;
  for (uint32_t n = 0; n < kSegments; ++n) {
    std::vector<uint32_t> ids = frames(18 * n, kFrames);
    for (size_t i = 6 + n % 8; i < ids.size(); ++i) ids[i] += n % 3;
    write_video(segment(static_cast<int>(n)) / "fcamera.hevc", kFrames, static_cast<int>(7 * n));
    write_log(static_cast<int>(n), ids);
  }
  options_.overlay = false;
  for (const int64_t limit : {0, 13}) {
    options_.limit = limit;
    options_.ranks = 1, options_.rank = 0;
    options_.out = folder_ / fmt::format("alone{}", limit);
    drive();
    const fs::path alone = options_.out;
    options_.ranks = kSegments;
    for (options_.rank = 18; options_.rank < 20; ++options_.rank) {
      options_.out = folder_ / fmt::format("part{}_{}", limit, options_.rank);
      ASSERT_EQ(drive().segments.size(), 1u);
      const std::string name = out(options_.rank).filename().string();
      EXPECT_EQ(first_difference(messages(options_.out / name), messages(alone / name)), "") << "segment " << name;
    }
  }
  // With a limit the model has seen what lies between: the messages are those of the whole run.
  const std::vector<ModelRecord> some = read_models(folder_ / "alone13"), all = read_models(folder_ / "alone0");
  EXPECT_LT(some.size(), all.size());
  const ModelComparison same = compare_models(some, all);
  EXPECT_EQ(same.frames, std::ssize(some));
  for (const FieldComparison& field : same.fields) EXPECT_EQ(field.max.value_or(0), 0) << field.name;
}

// A gap resets the state: a run that drove the segments before it gives the same results as one that begins after it.
TEST_F(DriveTest, AGapBetweenSegmentsEndsTheState) {
  for (const int n : {0, 1, 3}) {
    write_video(segment(n) / "fcamera.hevc", 8, 5 * n);
    write_log(n, frames(static_cast<uint32_t>(8 * n), 8));
  }
  drive();
  const fs::path alone = options_.out / out(3).filename();
  options_.out = folder_ / "behind";
  options_.ranks = 3, options_.rank = 2;
  drive();
  EXPECT_EQ(first_difference(messages(out(3)), messages(alone)), "");
}

TEST_F(DriveTest, ResumeKeepsWhatIsDoneAndRefusesAnotherRun) {
  for (int n = 0; n < 2; ++n) {
    write_video(segment(n) / "fcamera.hevc", 5);
    write_log(n, frames(static_cast<uint32_t>(5 * n), 5));
  }
  drive();
  std::string row = read_file(out(1) / "segment.json");
  row.replace(row.find("\"complete\":true"), 15, "\"complete\":false");
  write_text(out(1) / "segment.json", row);
  const auto before = fs::last_write_time(out(0) / "rlog.zst");
  options_.resume = true;
  fs::rename(segment(0) / "rlog.zst", segment(0) / "qlog.zst");
  EXPECT_NE(error().find("was made from the log \"rlog.zst\", this run reads \"qlog.zst\""), std::string::npos);
  fs::rename(segment(0) / "qlog.zst", segment(0) / "rlog.zst");
  options_.session.passes.off = {"all"};
  EXPECT_NE(error().find("another run"), std::string::npos);
  options_.session.passes.off = {};
  EXPECT_EQ(drive().segments.size(), 2u);
  EXPECT_EQ(fs::last_write_time(out(0) / "rlog.zst"), before);
  EXPECT_TRUE(fs::exists(out(1) / "segment.json"));
  options_.raw = true;
  EXPECT_NE(error().find("another run"), std::string::npos);
  write_text(out(0) / "segment.json", "{}");
  EXPECT_NE(error().find("segment.json"), std::string::npos);
}

TEST_F(DriveTest, AStopFinishesTheFiles) {
  write_video(segment(0) / "fcamera.hevc", 20);
  write_log(0, frames(0, 20));
  std::atomic<bool> stop{false};
  options_.stop = &stop;
  options_.progress = [&](const DriveProgress& p) { stop = p.frame >= 3; };
  const DriveResult result = drive();
  EXPECT_TRUE(result.stopped);
  ASSERT_EQ(result.segments.size(), 1u);
  EXPECT_FALSE(result.segments[0].complete);
  const size_t driven = read_models(out(0)).size();
  EXPECT_GE(driven, 3u);
  EXPECT_LT(driven, 20u);
  EXPECT_EQ(result.segments[0].frames.size(), driven);
}

TEST_F(DriveTest, ASegmentWithoutAFrameHasNeitherLogNorVideo) {
  write_video(segment(0) / "fcamera.hevc", 5);
  write_log(0, frames(0, 5));
  const Route route = find_route((folder_ / "route").string());
  const Timeline timeline = read_timeline(segment(0) / "rlog.zst");
  DrivingModel model(options_.models, {.threads = 1});
  ModelPublisher publisher;
  SegmentJob job;
  job.segment = &route.segments.at(0);
  job.timeline = &timeline;
  job.lanes.push_back({.options = &options_, .model = &model, .publisher = &publisher, .folder = out(0)});
  DriveState state;
  const auto there = [&](const char* file) { return fs::exists(out(0) / file); };
  run_segment(job, state);
  EXPECT_TRUE(there("rlog.zst") && there("overlay.mp4"));
  std::atomic<bool> stop{true};
  options_.stop = &stop;
  EXPECT_TRUE(run_segment(job, state).at(0).frames.empty());
  EXPECT_FALSE(there("rlog.zst") || there("overlay.mp4")) << "what an earlier run left is gone, too";
}

TEST_F(DriveTest, AStopBeforeTheFirstFrameLeavesNoFiles) {
  for (const int number : {0, 1}) write_video(segment(number) / "fcamera.hevc", 5);
  std::atomic<bool> stop{false};
  options_.stop = &stop;
  options_.note = [&](const std::string&) { stop = true; };  // the note that there is no log comes before the networks
                                                             // run
  options_.rank = 1;
  options_.ranks = 2;
  const DriveResult result = drive();
  EXPECT_TRUE(result.stopped);
  EXPECT_TRUE(result.segments.empty());
  EXPECT_FALSE(fs::exists(out(1)));
}

TEST_F(DriveTest, TheDriverIsMonitoredWhereThereIsACamera) {
  write_video(segment(0) / "fcamera.hevc", 6);
  write_video(segment(0) / "dcamera.hevc", 6);
  write_log(0, frames(3, 6), true);
  options_.models.driver_monitoring = folder_ / "tiny_dmonitoring_model.onnx";
  options_.focal_length.reset();
  const DriveResult result = drive();
  EXPECT_EQ(result.segments[0].driver_frames, 6);
  EXPECT_EQ(result.networks.size(), 3u);
  const std::vector<DriverRecord> drivers = read_drivers(out(0));
  ASSERT_EQ(drivers.size(), 6u);
  EXPECT_EQ(drivers[2].frame_id, 5u);
  EXPECT_GT(drivers[2].left.face, 0);
  EXPECT_NE(drivers[2].left.orientation, drivers[4].left.orientation);  // the picture moves
  ModelComparison same;
  compare_drivers(drivers, drivers, {}, same);
  EXPECT_EQ(same.driver_frames, 6);
  EXPECT_TRUE(std::all_of(same.fields.begin(), same.fields.end(),
                          [](const FieldComparison& f) { return f.ok && f.values > 0; }));
  std::vector<DriverRecord> changed = drivers;
  changed[1].right.phone += 0.5F;
  ModelComparison differs;
  compare_drivers(changed, drivers, {}, differs);
  for (const FieldComparison& field : differs.fields)
    EXPECT_EQ(field.ok, field.name != "driver_phone_prob") << field.name;
}

TEST_F(DriveTest, AModelOfTheRoadIsNoDriverMonitoring) {
  write_video(segment(0) / "fcamera.hevc", 3);
  write_video(segment(0) / "dcamera.hevc", 3);
  write_log(0, frames(0, 3), true);
  options_.models.driver_monitoring = folder_ / "tiny_driving_vision.onnx";
  EXPECT_NE(error().find("input_img"), std::string::npos) << error();
}

TEST_F(DriveTest, ARecordingIsNeverWrittenOver) {
  write_video(segment(0) / "fcamera.hevc", 3);
  write_log(0, frames(0, 3));
  const std::string recorded = read_file(segment(0) / "rlog.zst");
  options_.out = folder_ / "route";
  for (const bool from_log : {false, true}) {
    if (from_log) options_.models = {};
    EXPECT_NE(error().find("recording"), std::string::npos) << error();
    EXPECT_EQ(read_file(segment(0) / "rlog.zst"), recorded);
  }
}

TEST_F(DriveTest, ResultsOfAnotherRouteAreLeftAlone) {
  write_video(segment(0) / "fcamera.hevc", 3);
  write_log(0, frames(0, 3));
  drive();
  fs::rename(folder_ / "route" / "2024-01-02--03-04-05--0", folder_ / "route" / "2024-01-02--03-04-06--0");
  EXPECT_NE(error().find("another route"), std::string::npos) << error();
  EXPECT_EQ(read_models(out(0)).size(), 3u);
}

// Without one the log's first moment is the first frame's, so that speed and calibration are those of the frames.
TEST_F(DriveTest, AQcameraHasAnIndexOfItsOwn) {
  fs::create_directories(segment(0));
  VideoWriter video(segment(0) / "qcamera.ts", {.width = kWidth, .height = kHeight});
  for (int i = 0; i < 4; ++i) video.write(picture(i).view());
  video.commit();
  for (const bool indexed : {true, false}) {
    LogWriter log(segment(0) / "rlog.zst");
    for (uint32_t i = 0; i < 4; ++i) {
      capnp::MallocMessageBuilder message;
      auto event = message.initRoot<cereal::Event>();
      event.setLogMonoTime(kStart + kFrame * i);
      if (indexed) {
        auto index = event.initQRoadEncodeIdx();
        index.setFrameId(20 + i);
        index.setSegmentId(i);
        index.setTimestampEof(kStart + kFrame * i);
      } else {
        event.initCarState().setVEgo(static_cast<float>(i));
      }
      log.write(message);
    }
    log.commit();
    const SegmentResult result = drive().segments.at(0);
    ASSERT_EQ(result.frames.size(), 4u);
    EXPECT_EQ(result.frames[3].frame_id, indexed ? 23u : 3u);
    EXPECT_EQ(result.frames[3].v_ego, indexed ? std::optional<float>() : 3.0F);
    EXPECT_NEAR(result.frames[3].time, 100.15, 1e-9) << "of the clock of the device, as kStart";
    EXPECT_EQ(has_note(result, "no encode index"), !indexed);
  }
}

TEST_F(DriveTest, OnlyWhatWasRecorded) {
  write_video(segment(0) / "fcamera.hevc", 4);
  write_log(0, frames(0, 4));
  options_.models = {};
  const SegmentResult result = drive().segments.at(0);
  EXPECT_EQ(result.frames.size(), 4u);
  EXPECT_FALSE(fs::exists(out(0) / "rlog.zst"));
  EXPECT_TRUE(fs::exists(out(0) / "overlay.mp4"));
}

TEST_F(DriveTest, Comma2k19WithoutItsLog) {
  const fs::path place = folder_ / "c2k" / "b0c9d2329ad1606b|2018-07-27--06-03-57" / "3";
  write_video(place / "video.hevc", 8);
  // A straight road at 10 m/s, with position and orientation, on the equator: east is y of ECEF.
  fs::create_directories(place / "global_pose");
  std::vector<double> times, positions, orientations, velocities;
  for (int i = 0; i < 8; ++i) {
    const double t = 50 + 0.05 * i;
    times.push_back(t);
    positions.insert(positions.end(), {6378137.0, 10 * (t - 50), 0.0});
    orientations.insert(orientations.end(), {0.5, -0.5, -0.5, 0.5});  // x east, y south, z down
    velocities.insert(velocities.end(), {0.0, 10.0, 0.0});
  }
  const auto save = [&](const char* name, const std::vector<double>& values, int64_t columns) {
    const Shape shape = columns == 1 ? Shape{8} : Shape{8, columns};
    save_npy(place / "global_pose" / name, {DType::f64, shape, values.data()});
  };
  save("frame_times", times, 1);
  save("frame_positions", positions, 3);
  save("frame_orientations", orientations, 4);
  save("frame_velocities", velocities, 3);
  const Route route = find_route((folder_ / "c2k" / "b0c9d2329ad1606b|2018-07-27--06-03-57").string());
  const SegmentResult result = drive_route(route, options_).segments.at(0);
  ASSERT_EQ(result.frames.size(), 8u);
  EXPECT_NEAR(result.frames[4].time, 50.2, 1e-9);
  EXPECT_NEAR(static_cast<double>(*result.frames[4].v_ego), 10, 1e-3);
  EXPECT_TRUE(result.frames[4].valid) << "calibrated by its motion";
  EXPECT_FALSE(has_note(result, "no calibration"));
}

TEST_F(DriveTest, AFullFolderNameIsNoFolder) {
  write_video(segment(0) / "fcamera.hevc", 3);
  write_log(0, frames(0, 3));
  write_text(folder_ / "file", "");
  options_.out = folder_ / "file";
  EXPECT_NE(error().find("file"), std::string::npos);
}

TEST(SegmentFolder, HasTheLogsName) {
  EXPECT_EQ(segment_folder({.name = "0123456789abcdef|2024-01-02--03-04-05"}, {.number = 7}),
            "2024-01-02--03-04-05--7");
  EXPECT_EQ(segment_folder({.name = "a/b"}, {.number = 0}), "a_b--0");
  EXPECT_EQ(segment_folder({.name = ""}, {.number = 2}), "route--2");
}

}  // namespace
}  // namespace sparkpilot::drive
