#include "route/log/timeline.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "route/log/test_log.h"
#include "route/test_files.h"

namespace sparkpilot::drive {
namespace {

using Fill = std::function<void(cereal::Event::Builder)>;

Timeline timeline_of(std::initializer_list<std::pair<uint64_t, Fill>> events, const TimelineOptions& options = {}) {
  const TempFolder folder;
  LogWriter writer(folder / "rlog.zst");
  for (const auto& [time, fill] : events) {
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<cereal::Event>();
    event.setLogMonoTime(time);
    fill(event);
    writer.write(message);
  }
  writer.commit();
  return read_timeline(folder / "rlog.zst", options);
}

Fill speed(float v) {
  return [v](cereal::Event::Builder event) { event.initCarState().setVEgo(v); };
}

Fill calibration(std::vector<float> rpy) {
  return [rpy](cereal::Event::Builder event) {
    auto list = event.initLiveCalibration().initRpyCalib(static_cast<unsigned>(rpy.size()));
    for (unsigned i = 0; i < rpy.size(); ++i) list.set(i, rpy[i]);
  };
}

Fill road_index(uint32_t frame_id, uint32_t index, uint64_t eof) {
  return [=](cereal::Event::Builder event) {
    auto idx = event.initRoadEncodeIdx();
    idx.setFrameId(frame_id);
    idx.setSegmentId(index);
    idx.setTimestampSof(eof - 10);
    idx.setTimestampEof(eof);
  };
}

Fill plan_enabled(bool enabled) {
  return [enabled](cereal::Event::Builder event) { event.initSelfdriveState().setEnabled(enabled); };
}

Fill old_enabled(bool enabled) {
  return [enabled](cereal::Event::Builder event) { event.initControlsState().setEnabled(enabled); };
}

Fill lane_change_of_plan(cereal::LaneChangeState state) {
  return [state](cereal::Event::Builder event) { event.initLateralPlanDEPRECATED().setLaneChangeState(state); };
}

Fill lane_change_of_model(cereal::LaneChangeState state) {
  return [state](cereal::Event::Builder event) { event.initModelV2().initMeta().setLaneChangeState(state); };
}

TEST(Samples, TheLatestAtATime) {
  Samples<int> samples;
  EXPECT_EQ(samples.at(5), nullptr);
  samples.add(30, 3);
  samples.add(10, 1);
  samples.add(20, 2);
  samples.add(20, 22);  // of two samples at the same time, the one added last
  samples.sort();
  EXPECT_EQ(samples.at(9), nullptr);
  EXPECT_EQ(*samples.at(10), 1);
  EXPECT_EQ(*samples.at(19), 1);
  EXPECT_EQ(*samples.at(20), 22);
  EXPECT_EQ(*samples.at(1000), 3);
}

TEST(Timeline, EventsNeedNotBeInOrder) {
  const Timeline log = timeline_of({{300, speed(3)}, {100, speed(1)}, {200, speed(2)}});
  EXPECT_EQ(log.events, 3);
  EXPECT_EQ(log.car.at(150)->v_ego, 1);
  EXPECT_EQ(log.car.at(250)->v_ego, 2);
  EXPECT_EQ(log.car.at(300)->v_ego, 3);
}

TEST(Timeline, CalibrationsThatAreNoneAreCounted) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Timeline log = timeline_of({{1, calibration({0.01F, 0.02F, 0.03F})},
                                    {2, calibration({nan, 0, 0})},
                                    {3, calibration({0, inf, 0})},
                                    {4, calibration({0, 0})},
                                    {5, calibration({})}});
  EXPECT_EQ(log.calibration.size(), 1u);
  EXPECT_EQ(log.bad_calibrations, 3);  // a device sends an empty list until it is calibrated
  EXPECT_FLOAT_EQ(static_cast<float>((*log.calibration.at(9))[1]), 0.02F);
}

TEST(Timeline, SpeedsThatAreNoneAreLeftOut) {
  const Timeline log = timeline_of({{1, speed(7)}, {2, speed(std::numeric_limits<float>::quiet_NaN())}});
  EXPECT_EQ(log.car.at(5)->v_ego, 7);
}

TEST(Timeline, FramesAreByIndexOnceEach) {
  const Timeline log = timeline_of({{9, road_index(12, 2, 300)},
                                    {8, road_index(10, 0, 100)},
                                    {7, road_index(11, 1, 200)},
                                    {10, road_index(99, 1, 250)}});
  ASSERT_EQ(log.road.size(), 3u);
  EXPECT_EQ(log.road[0].frame_id, 10u);
  EXPECT_EQ(log.road[1].frame_id, 99u);
  EXPECT_EQ(log.road[2].timestamp_eof, 300u);
}

TEST(Timeline, AFrameWithoutItsEndTakesItsStart) {
  const Timeline log =
      timeline_of({{1, [](cereal::Event::Builder event) { event.initRoadEncodeIdx().setTimestampSof(77); }}});
  EXPECT_EQ(log.road.at(0).timestamp_eof, 77u);
}

// As logs until 2020-11 have it.
TEST(Timeline, AnIndexWithoutTimesTakesTheCameras) {
  const auto index = [](uint32_t frame_id, uint32_t number) -> Fill {
    return [=](cereal::Event::Builder event) {
      auto idx = event.initRoadEncodeIdx();
      idx.setFrameId(frame_id);
      idx.setSegmentId(number);
    };
  };
  const auto state = [](uint32_t frame_id, uint64_t eof) -> Fill {
    return [=](cereal::Event::Builder event) {
      auto frame = event.initRoadCameraState();
      frame.setFrameId(frame_id);
      frame.setTimestampSof(eof - 10);
      frame.setTimestampEof(eof);
    };
  };
  const Timeline log = timeline_of({{1, state(7, 1000)},
                                    {1, index(7, 0)},
                                    {2, index(8, 1)},
                                    {3, index(9, 2)},
                                    {4, state(8, 1050)},
                                    {5, road_index(10, 3, 1150)},
                                    {6, state(10, 7)}});
  ASSERT_EQ(log.road.size(), 3u) << "of frame 9 no time is known";
  EXPECT_EQ(log.road[0].timestamp_sof, 990u);
  EXPECT_EQ(log.road[0].timestamp_eof, 1000u);
  EXPECT_EQ(log.road[1].timestamp_eof, 1050u);
  EXPECT_EQ(log.road[2].timestamp_eof, 1150u);
  EXPECT_TRUE(timeline_of({{1, index(7, 0)}}).road.empty());
}

TEST(Timeline, NewerMessagesGoBeforeOlderOnes) {
  const Timeline newer = timeline_of({{1, old_enabled(false)}, {2, plan_enabled(true)}, {3, old_enabled(false)}});
  EXPECT_TRUE(*newer.enabled.at(10));
  const Timeline older = timeline_of({{1, old_enabled(true)}});
  EXPECT_TRUE(*older.enabled.at(10));
}

TEST(Timeline, LaneChangesOfLateralPlanGoBeforeTheModels) {
  using State = cereal::LaneChangeState;
  const Timeline older =
      timeline_of({{1, lane_change_of_plan(State::LANE_CHANGE_STARTING)}, {2, lane_change_of_model(State::OFF)}});
  EXPECT_EQ(older.lane_change.at(10)->state, 2);
  const Timeline newer = timeline_of({{2, lane_change_of_model(State::LANE_CHANGE_FINISHING)}});
  EXPECT_EQ(newer.lane_change.at(10)->state, 3);
}

TEST(Timeline, DeviceAndCarAreNamed) {
  const Timeline log = timeline_of(
      {{1, [](cereal::Event::Builder e) { e.initDeviceState().setDeviceType(cereal::InitData::DeviceType::MICI); }},
       {2,
        [](cereal::Event::Builder e) { e.initRoadCameraState().setSensor(cereal::FrameData::ImageSensor::OS04C10); }},
       {3, [](cereal::Event::Builder e) {
          auto car = e.initCarParams();
          car.setCarFingerprint("SOME CAR");
          car.setSteerActuatorDelay(0.1F);
        }}});
  EXPECT_EQ(log.device_type, "mici");
  EXPECT_EQ(log.sensor, "os04c10");
  EXPECT_EQ(log.car_fingerprint, "SOME CAR");
  EXPECT_FLOAT_EQ(static_cast<float>(*log.steer_actuator_delay), 0.1F);
}

TEST(Timeline, SpeedsOfTheLocationStandInForLivePose) {
  const Fill location = [](cereal::Event::Builder event) {
    auto kalman = event.initLiveLocationKalman();
    for (auto measurement : {kalman.initVelocityDevice(), kalman.initAngularVelocityDevice()}) {
      measurement.setValid(true);
      auto values = measurement.initValue(3);
      for (unsigned i = 0; i < 3; ++i) values.set(i, 1.0 + i);
    }
  };
  const Fill pose = [](cereal::Event::Builder event) {
    auto live = event.initLivePose();
    for (auto part : {live.initVelocityDevice(), live.initAngularVelocityDevice()}) {
      part.setX(9);
      part.setValid(true);
    }
  };
  const Timeline older = timeline_of({{1, location}});
  ASSERT_EQ(older.pose.size(), 1u);
  EXPECT_TRUE(older.pose_of_location);
  EXPECT_EQ(older.pose.at(5)->velocity_device[2], 3);
  EXPECT_TRUE(older.location.empty());  // it contains no position
  const Timeline newer = timeline_of({{1, location}, {2, pose}});
  EXPECT_EQ(newer.pose.size(), 1u);
  EXPECT_FALSE(newer.pose_of_location);
}

TEST(Timeline, ModelsAreByFrameAndMayBeLeftOut) {
  const auto model = [](uint32_t id) {
    return Fill([id](cereal::Event::Builder e) { e.initModelV2().setFrameId(id); });
  };
  const Timeline log = timeline_of({{1, model(41)}, {2, model(1)}});
  ASSERT_EQ(log.models.size(), 2u);
  EXPECT_EQ(log.models[0].frame_id, 1u);
  EXPECT_TRUE(timeline_of({{1, model(41)}}, {.models = false}).models.empty());
}

TEST(Timeline, TheDemoRoute) {
  const auto file = asset("route_demo/qlog.bz2");
  if (file.empty()) GTEST_SKIP() << "no assets";
  const Timeline log = read_timeline(file);
  EXPECT_EQ(log.events, 11388);
  EXPECT_EQ(log.models.size(), 31u);
  EXPECT_EQ(log.road.size(), 1200u);
  EXPECT_EQ(log.road.front().frame_id, 2u);
  EXPECT_EQ(log.road.back().frame_id, 1201u);
  EXPECT_EQ(log.device_type, "tici");
  EXPECT_EQ(log.sensor, "ox03c10");
  EXPECT_EQ(log.damage, "");
  EXPECT_EQ(log.unreadable, 0);
}

}  // namespace
}  // namespace sparkpilot::drive
