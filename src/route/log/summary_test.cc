#include "route/log/summary.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/test_assets.h"
#include "route/log/test_log.h"

namespace sparkpilot::drive {
namespace summary_test {
namespace fs = std::filesystem;

constexpr uint64_t kSecond = 1'000'000'000;

class SummaryTest : public testing::Test {
 protected:
  using Fill = std::function<void(cereal::Event::Builder)>;
  static void put(LogWriter& writer, double seconds, const Fill& fill) {
    capnp::MallocMessageBuilder message;
    cereal::Event::Builder event = message.initRoot<cereal::Event>();
    event.setLogMonoTime(static_cast<uint64_t>(seconds * 1e9));
    fill(event);
    writer.write(message);
  }
  static void put_init(LogWriter& writer) {
    put(writer, 1, [](cereal::Event::Builder event) {
      auto init = event.initInitData();
      init.setDeviceType(cereal::InitData::DeviceType::TIZI);
      init.setDongleId("0123456789abcdef");
      init.setVersion("0.10.1");
    });
  }
  static void put_frame(LogWriter& writer, double seconds, uint32_t frame) {
    put(writer, seconds, [&](cereal::Event::Builder event) { event.initRoadEncodeIdx().setFrameId(frame); });
  }
  static void put_car(LogWriter& writer, double seconds) {
    put(writer, seconds, [](cereal::Event::Builder event) { event.initCarState(); });
  }
  RouteSummary summary() const { return summarise(find_route(folder.path().string())); }
  fs::path log(int segment) const {
    fs::create_directories(folder / std::to_string(segment));
    return folder / (std::to_string(segment) + "/rlog.zst");
  }
  TempFolder folder;
};

TEST_F(SummaryTest, WhoDroveWhat) {
  LogWriter writer(log(0));
  put_init(writer);
  put(writer, 100, [](cereal::Event::Builder event) {
    event.initRoadCameraState().setSensor(cereal::FrameData::ImageSensor::OX03C10);
  });
  put(writer, 101, [](cereal::Event::Builder event) { event.initCarParams().setCarFingerprint("TOYOTA_PRIUS"); });
  put(writer, 102, [](cereal::Event::Builder event) { event.initClocks().setWallTimeNanos(1'700'000'002 * kSecond); });
  put_frame(writer, 103, 7);
  writer.commit();
  const RouteSummary found = summary();
  EXPECT_EQ(found.device, "tizi");
  EXPECT_EQ(found.dongle, "0123456789abcdef");
  EXPECT_EQ(found.version, "0.10.1");
  EXPECT_EQ(found.fingerprint, "TOYOTA_PRIUS");
  EXPECT_EQ(found.wall_time_ns, 1'700'000'000 * kSecond);
  EXPECT_EQ(found.first_ns, 100 * kSecond);  // not the time of initData
  EXPECT_DOUBLE_EQ(found.seconds(), 3);
  ASSERT_EQ(found.cameras.size(), 1u);
  EXPECT_EQ(found.cameras[0].width, 1928);
  EXPECT_EQ(found.events(), 5);
  EXPECT_EQ(found.kinds.at("roadEncodeIdx"), 1);
}

TEST_F(SummaryTest, CalibrationFirstAndLast) {
  LogWriter writer(log(0));
  for (int i = 0; i < 4; ++i) {
    put(writer, i, [&](cereal::Event::Builder event) {
      auto calibration = event.initLiveCalibration();
      if (i > 0) calibration.initRpyCalib(3).set(1, static_cast<float>(i));
      calibration.setCalStatus(cereal::LiveCalibrationData::Status::CALIBRATED);
      calibration.setCalPerc(static_cast<int8_t>(i));
    });
  }
  writer.commit();
  const RouteSummary found = summary();
  EXPECT_EQ(found.calibrations, 3);  // the first has no angles
  EXPECT_EQ(found.first_calibration->rpy[1], 1);
  EXPECT_EQ(found.last_calibration->rpy[1], 3);
  EXPECT_EQ(found.last_calibration->status, "calibrated");
  EXPECT_EQ(found.last_calibration->percent, 3);
}

TEST_F(SummaryTest, FramesThatAreLeftOut) {
  const auto write = [&](int segment, const std::vector<uint32_t>& frames) {
    LogWriter writer(log(segment));
    for (const uint32_t frame : frames) put_frame(writer, frame * 0.05, frame);
    writer.commit();
  };
  write(0, {2, 3, 5, 6});
  write(1, {8, 9, 10});
  write(4, {100, 101});
  const CameraSummary road = summary().cameras.at(0);
  ASSERT_EQ(road.parts.size(), 3u);
  EXPECT_EQ(road.parts[0].frames, 4);
  EXPECT_EQ(road.parts[0].missing, 1);
  EXPECT_EQ(road.parts[1].first_frame, 8u);
  EXPECT_EQ(road.parts[1].missing, 1);  // between the segments
  EXPECT_EQ(road.parts[2].missing, 0);  // segments 2 and 3 are missing
  EXPECT_EQ(road.parts[2].last_frame, 101u);
}

TEST_F(SummaryTest, SilenceOfASteadyStream) {
  {
    LogWriter writer(log(0));
    for (int i = 0; i < 300; ++i) {
      if (i < 100 || i >= 250) put_car(writer, 10 + i * 0.01);
      if (i % 150 == 0) put_frame(writer, 10 + i * 0.01, static_cast<uint32_t>(i));  // too rare to be steady
    }
    writer.commit();
  }
  {
    LogWriter writer(log(1));
    for (int i = 0; i < 100; ++i) put_car(writer, 15 + i * 0.01);
    writer.commit();
  }
  const RouteSummary found = summary();
  ASSERT_EQ(found.gaps.size(), 2u);
  EXPECT_EQ(found.gap_count, 2);
  EXPECT_EQ(found.gaps[0].kind, "carState");
  EXPECT_EQ(found.gaps[0].segment, 0);
  EXPECT_NEAR(found.gaps[0].seconds, 1.51, 1e-6);
  EXPECT_EQ(found.gaps[1].segment, 1);
  EXPECT_NEAR(found.gaps[1].seconds, 2.01, 1e-6);
}

TEST_F(SummaryTest, DamageIsSaidWhereItIs) {
  write_log(log(0), 100);
  write_log(log(1), 100);
  write_text(log(1), read_text(log(1)).substr(0, 200));
  write_text(log(2), "<html>");
  const RouteSummary found = summary();
  EXPECT_EQ(found.segments[0].damage, "");
  EXPECT_NE(found.segments[1].damage.find("zstd stream is cut"), std::string::npos) << found.segments[1].damage;
  EXPECT_NE(found.segments[2].damage.find("2/rlog.zst: is a page of HTML or XML"), std::string::npos);
  EXPECT_EQ(found.segments[2].events, 0);
  EXPECT_FALSE(found.segments[2].first_ns);
  EXPECT_THROW(summarise(find_route(log(2).string())), Error);  // with nothing else to report
}

TEST_F(SummaryTest, VideoAlone) {
  write_text(folder / "0/qcamera.ts", "");
  const RouteSummary found = summary();
  EXPECT_EQ(found.events(), 0);
  EXPECT_TRUE(found.segments[0].log.empty());
  EXPECT_EQ(found.cameras.at(0).name, "qcamera");
  EXPECT_EQ(found.cameras[0].files, std::vector<int>{0});
}

TEST_F(SummaryTest, TheDemoRoute) {
  const fs::path demo = assets_folder() / "route_demo";
  if (!fs::exists(demo)) GTEST_SKIP() << "there is no " << demo.string();
  double last = -1;
  const RouteSummary found = summarise(find_route(demo.string()), [&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1);
    last = done;
  });
  EXPECT_GT(last, 0);
  EXPECT_EQ(found.events(), 11388);
  EXPECT_EQ(found.device, "tici");
  EXPECT_EQ(found.version, "0.9.4-release");
  EXPECT_EQ(found.fingerprint, "TOYOTA COROLLA TSS2 2019");
  EXPECT_NEAR(found.seconds(), 61.6, 0.1);
  EXPECT_EQ(found.calibrations, 61);
  EXPECT_EQ(found.cameras.size(), 4u);
  EXPECT_EQ(found.cameras[0].parts.at(0).frames, 1200);
  EXPECT_EQ(found.cameras[0].parts.at(0).missing, 0);
  EXPECT_EQ(found.gap_count, 0);
  ASSERT_TRUE(found.wall_time_ns);
}

}  // namespace summary_test
}  // namespace sparkpilot::drive
