// Whole routes: the same bytes on every machine, and what openpilot's readers expect.
#include "route/synth/synth.h"

#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/fnv.h"
#include "base/parallel.h"
#include "route/contract/frame.h"
#include "route/contract/test_targets.h"
#include "route/log/driven_path.h"
#include "route/log/plan_error.h"
#include "route/log/reader.h"
#include "route/log/timeline.h"
#include "route/synth/log.h"
#include "route/synth/noise.h"
#include "route/test_files.h"
#include "route/video/reader.h"

namespace sparkpilot::drive {
namespace {

uint64_t picture_hash(uint64_t seed, synth::Light light, int threads, const char* device = "mici") {
  const ThreadScope scope(threads);
  SynthOptions options;
  options.seed = seed, options.seconds = 3, options.device = device, options.light = light;
  const SynthDrive drive(options);
  SynthFrame frame;
  Fnv hash;
  for (const int64_t index : {0, 31}) {
    drive.frame(index, frame);
    hash.bytes(frame.road.bytes().data(), frame.road.bytes().size());
    hash.bytes(frame.wide.bytes().data(), frame.wide.bytes().size());
  }
  return hash.value();
}

uint64_t log_hash(uint64_t seed, int threads) {
  const ThreadScope scope(threads);
  SynthOptions options;
  options.seed = seed, options.seconds = 3;
  const SynthDrive drive(options);
  synth::LogOptions log;
  log.dongle = "5eed000000000001", log.log_id = "00000001--5e00000001", log.frames = drive.frames();
  Fnv hash;
  synth::segment_events(drive.world(), log, 0, [&](capnp::MessageBuilder& message, bool decimated) {
    const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
    hash.bytes(words.begin(), words.size() * sizeof(capnp::word));
    hash.bytes(&decimated, 1);
  });
  return hash.value();
}

TEST(Synth, TheSameBitsOnEveryMachineAndForAnyNumberOfThreads) {
  EXPECT_EQ(picture_hash(1, synth::Light::day, 1), 16052971396420887889ULL);
  EXPECT_EQ(picture_hash(1, synth::Light::day, 2), picture_hash(1, synth::Light::day, 1));
  EXPECT_EQ(picture_hash(7, synth::Light::night, 3), 1204078041498246614ULL);
  for_each_target([] {  // of a width that is no multiple of the pixels that are drawn at once
    EXPECT_EQ(picture_hash(3, synth::Light::dusk, 1, "neo"), 16829208779130535793ULL);
  });
  EXPECT_EQ(log_hash(1, 1), 11857939744538931810ULL);
  EXPECT_EQ(log_hash(1, 2), log_hash(1, 1));
  EXPECT_NE(log_hash(2, 1), log_hash(1, 1));
}

// Levels halve: of 1.5 texels times a power of two that is the level, of more the next.
TEST(SynthNoise, LevelsAreAsCoarseAsAPixel) {
  for (const float texels : {0.0F, 1e-9F, 1.0F, 1.4999999F, 1.5F}) EXPECT_EQ(synth::Noise::level(texels), 0) << texels;
  for (int level = 1; level < synth::Noise::kLevels; ++level) {
    const float least = 1.5F * static_cast<float>(1 << (level - 1));
    EXPECT_EQ(synth::Noise::level(least), level - 1);
    EXPECT_EQ(synth::Noise::level(std::nextafter(least, 1e9F)), level);
    EXPECT_EQ(synth::Noise::level(2 * least), level);
  }
  for (const float texels : {1e4F, 1e30F, std::numeric_limits<float>::infinity()})
    EXPECT_EQ(synth::Noise::level(texels), synth::Noise::kLevels - 1) << texels;
}

std::map<std::string, int> kinds(const std::filesystem::path& path) {
  std::map<std::string, int> counts;
  LogReader reader(path);
  uint64_t last = 0;
  while (reader.next()) {
    EXPECT_TRUE(reader.known());
    EXPECT_GE(reader.event().getLogMonoTime(), last);
    last = reader.event().getLogMonoTime();
    ++counts[event_kind(reader.event())];
  }
  EXPECT_EQ(reader.damage(), "");
  return counts;
}

TEST(Synth, RoutesHaveTheRatesOfADevice) {
  const TempFolder folder;
  SynthOptions options;
  options.seconds = 62, options.road_video = options.wide = options.qcamera = false;
  const SynthRoute route = synth_route(folder.path(), options);
  ASSERT_EQ(route.segments.size(), 2U);
  const auto full = kinds(route.segments[0].folder / "rlog.zst"), few = kinds(route.segments[0].folder / "qlog.zst");
  const std::map<std::string, int> expected = {{"initData", 1},
                                               {"carParams", 1},
                                               {"sentinel", 2},
                                               {"can", 6000},
                                               {"carState", 6000},
                                               {"carControl", 6000},
                                               {"selfdriveState", 6000},
                                               {"modelV2", 1200},
                                               {"cameraOdometry", 1200},
                                               {"roadCameraState", 1200},
                                               {"liveCalibration", 240},
                                               {"deviceState", 120},
                                               {"accelerometer", 6240},
                                               {"livePose", 1200},
                                               {"liveLocationKalman", 1200}};
  for (const auto& [kind, count] : expected) EXPECT_EQ(full.at(kind), count) << kind;
  EXPECT_EQ(few.at("carState"), 600);
  EXPECT_EQ(few.at("modelV2"), 30);
  EXPECT_EQ(few.at("initData"), 1);
  EXPECT_EQ(few.count("can"), 0U);
  EXPECT_EQ(full.count("roadEncodeIdx"), 0U);  // no video, no index into it
  EXPECT_EQ(kinds(route.segments[1].folder / "rlog.zst").at("modelV2"), 40);
}

TEST(Synth, TheDecimatedLogHasTheIndexOfTheOnlyVideo) {
  SynthOptions options;
  options.seconds = 1;
  const SynthDrive drive(options);
  for (const bool full : {true, false}) {
    synth::LogOptions log;
    log.frames = drive.frames(), log.road_video = full;
    int indices = 0;
    synth::segment_events(drive.world(), log, 0, [&](capnp::MessageBuilder& message, bool decimated) {
      indices += decimated && message.getRoot<cereal::Event>().isQRoadEncodeIdx() ? 1 : 0;
    });
    EXPECT_EQ(indices, full ? 0 : 20);
  }
}

// The path from the log's poses equals the plan of every frame, for each kind of pose message in the log.
TEST(Synth, PlansAreThePathOfTheLog) {
  const TempFolder folder;
  SynthOptions options;
  options.seed = 3, options.seconds = 14, options.road = synth::RoadKind::city;
  options.road_video = options.wide = options.qcamera = false;
  const SynthRoute route = synth_route(folder.path(), options);
  const Timeline log = read_timeline(route.segments.at(0).folder / "rlog.zst");
  ASSERT_EQ(log.models.size(), 280U);
  for (const DrivenPath& path :
       {DrivenPath::from_pose(log.pose, log.calibration), DrivenPath::from_location(log.location)}) {
    int compared = 0;
    for (const ModelRecord& model : log.models) {
      for (const double horizon : {1.0, 4.0, 6.0}) {
        const auto error = plan_error(model, path, horizon);
        if (!error) continue;
        EXPECT_LT(error->distance(), 0.01 + 0.01 * horizon) << path.source() << " frame " << model.frame_id;
        EXPECT_LT(std::fabs(error->heading_deg), 0.05) << path.source() << " frame " << model.frame_id;
        ++compared;
      }
    }
    EXPECT_GT(compared, 500) << path.source();
  }
  // Geographic positions move as the speeds say.
  const auto& places = log.location;
  for (auto at = places.begin(); at + 1 != places.end(); ++at) {
    const Vector3 &from = at->second.position_ecef, &to = (at + 1)->second.position_ecef;
    const double moved = std::hypot(to[0] - from[0], to[1] - from[1], to[2] - from[2]);
    const double mean = 0.5 * (at->second.velocity_calibrated[0] + (at + 1)->second.velocity_calibrated[0]);
    EXPECT_NEAR(moved, mean * 0.05, 2e-3);
  }
}

TEST(Synth, ATinyRouteIsWhole) {
  const TempFolder folder;
  const SynthRoute route = tiny_route(folder.path(), 6);
  const std::filesystem::path segment = route.segments.at(0).folder;
  int indices = 0;
  LogReader log(segment / "rlog.zst");
  while (log.next()) {
    if (!log.event().isRoadEncodeIdx()) continue;
    EXPECT_EQ(log.event().getRoadEncodeIdx().getSegmentId(), static_cast<uint32_t>(indices));
    EXPECT_EQ(log.event().getRoadEncodeIdx().getFrameId(), static_cast<uint32_t>(indices));
    ++indices;
  }
  EXPECT_EQ(indices, 6);
  for (const auto& [name, width, height] :
       {std::tuple{"fcamera.hevc", 1344, 760}, std::tuple{"ecamera.hevc", 1344, 760},
        std::tuple{"qcamera.ts", 526, 330}}) {
    VideoReader video(segment / name);
    EXPECT_EQ(video.width(), width);
    EXPECT_EQ(video.height(), height);
    int frames = 0;
    while (video.next()) ++frames;
    EXPECT_EQ(frames, 6) << name;
  }
}

TEST(Synth, FinishedSegmentsAreKept) {
  const TempFolder folder;
  const auto first = tiny_route(folder.path(), 2, true);
  EXPECT_FALSE(first.segments.at(0).kept);
  EXPECT_TRUE(tiny_route(folder.path(), 2, true).segments.at(0).kept);
  EXPECT_THROW(tiny_route(folder.path(), 3, true), Error);
  SynthOptions options;
  options.device = "toaster";
  EXPECT_THROW(synth_route(folder.path(), options), Error);
}

// The picture that a model gets is the same whether it is warped from a camera's or drawn at once: what differs is the
// sensor's noise and how edges are sampled. A shift of a few pixels differs more.
TEST(Synth, ModelFramesAreWhereTheCamerasAre) {
  SynthOptions options;
  options.seed = 5, options.seconds = 2, options.device = "tici", options.light = synth::Light::day;
  const SynthDrive drive(options);
  SynthFrame frame;
  drive.frame(20, frame);
  YuvImage scratch;
  std::vector<uint8_t> direct(kFrameBytes), warped(kFrameBytes);
  for (const bool big : {false, true}) {
    drive.draw_model_frame(20, big, scratch, direct);
    const Camera& camera = big ? drive.cameras().wide : drive.cameras().road;
    prepare_frame((big ? frame.wide : frame.road).view(),
                  warp_matrix(drive.world().calibration(), camera.intrinsics(), big), Sampling::bilinear, warped);
    // Luma of even rows and columns; chroma of every pixel, a part of a pixel off.
    const auto difference = [&](int plane, int shift_x, int shift_y) {
      double sum = 0;
      int64_t count = 0;
      for (int y = 8; y < kFrameHeight - 8; ++y) {
        for (int x = 8; x < kFrameWidth - 8; ++x, ++count) {
          const auto at = [&](int column, int row) {
            return static_cast<size_t>((plane * kFrameHeight + row) * kFrameWidth + column);
          };
          sum += std::abs(direct[at(x, y)] - warped[at(x + shift_x, y + shift_y)]);
        }
      }
      return sum / static_cast<double>(count);
    };
    for (const int plane : {0, 3}) {
      const double here = difference(plane, 0, 0);
      EXPECT_LT(here, 4) << big << plane;
      for (const auto& [x, y] : {std::pair{2, 0}, {-2, 0}, {0, 2}, {0, -2}})
        EXPECT_GT(difference(plane, x, y), 1.3 * here) << big << plane;
    }
    EXPECT_LT(difference(4, 0, 0), 2);
    EXPECT_LT(difference(5, 0, 0), 2);
  }
}

}  // namespace
}  // namespace sparkpilot::drive
