// Reads a minute of log at the rates of a car on the road, and times it. bench/read_log.py runs it several times.
#include <gtest/gtest.h>

#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "route/log/reader.h"
#include "route/log/test_log.h"

namespace sparkpilot::drive {
namespace {

constexpr int kSeconds = 60;
constexpr uint64_t kSecond = 1'000'000'000;

// Numbers that are as hard to compress as measured ones.
class Noise {
 public:
  float next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(state_ >> 40) / (1 << 16);
  }

 private:
  uint64_t state_ = 1;
};

void fill(capnp::List<float>::Builder list, Noise& noise) {
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, noise.next());
}

void fill(cereal::XYZTData::Builder line, Noise& noise) {
  constexpr unsigned kPoints = 33;
  fill(line.initX(kPoints), noise);
  fill(line.initY(kPoints), noise);
  fill(line.initZ(kPoints), noise);
  fill(line.initT(kPoints), noise);
}

void fill_model(cereal::Event::Builder event, Noise& noise) {
  cereal::ModelDataV2::Builder model = event.initModelV2();
  fill(model.initPosition(), noise);
  fill(model.initOrientation(), noise);
  fill(model.initVelocity(), noise);
  fill(model.initOrientationRate(), noise);
  fill(model.initAcceleration(), noise);
  for (cereal::XYZTData::Builder line : model.initLaneLines(4)) fill(line, noise);
  for (cereal::XYZTData::Builder edge : model.initRoadEdges(2)) fill(edge, noise);
  for (auto lead : model.initLeadsV3(3)) {
    fill(lead.initX(6), noise);
    fill(lead.initY(6), noise);
    fill(lead.initV(6), noise);
    fill(lead.initA(6), noise);
  }
  fill(model.initMeta().initDesirePrediction(32), noise);
  fill(model.getMeta().initDesireState(8), noise);
}

void fill_can(capnp::List<cereal::CanData>::Builder frames, Noise& noise) {
  for (auto frame : frames) {
    frame.setAddress(static_cast<uint32_t>(noise.next()) % 2048);
    for (auto& byte : frame.initDat(8)) byte = static_cast<uint8_t>(noise.next());
  }
}

struct Stream {
  int hz;
  std::function<void(cereal::Event::Builder, Noise&)> fill;
};

std::vector<Stream> streams() {
  const auto state = [](cereal::Event::Builder event, Noise& noise) {
    auto car = event.initCarState();
    car.setVEgo(noise.next());
    car.setSteeringAngleDeg(noise.next());
    car.initWheelSpeeds().setFl(noise.next());
    car.initCruiseState().setSpeed(noise.next());
  };
  const auto sensor = [](cereal::Event::Builder event, Noise& noise) {
    fill(event.initAccelerometer().initAcceleration().initV(3), noise);
  };
  const auto index = [](cereal::Event::Builder event, Noise& noise) {
    event.initRoadEncodeIdx().setTimestampEof(static_cast<uint64_t>(noise.next()));
  };
  const auto kalman = [](cereal::Event::Builder event, Noise& noise) {
    fill(event.initCameraOdometry().initTrans(3), noise);
  };
  return {{100, [](auto event, Noise& noise) { fill_can(event.initCan(30), noise); }},
          {100, [](auto event, Noise& noise) { fill_can(event.initSendcan(6), noise); }},
          {400, state},  // carState, carControl, carOutput, selfdriveState
          {100, [](auto event, Noise& noise) { event.initControlsState().setCurvature(noise.next()); }},
          {312, sensor},  // the sensors at 104 Hz each
          {20, [](auto event, Noise& noise) { fill_model(event, noise); }},
          {140, index},  // camera states and encode indices
          {140, kalman}};
}

int64_t write_minute(const std::filesystem::path& file) {
  LogWriter writer(file);
  Noise noise;
  const std::vector<Stream> all = streams();
  constexpr int kTicks = 10'000;  // per second, distributed evenly among the streams
  for (int tick = 0; tick < kSeconds * kTicks; ++tick) {
    for (const Stream& stream : all) {
      if (tick * stream.hz / kTicks == (tick - 1) * stream.hz / kTicks && tick > 0) continue;
      capnp::MallocMessageBuilder message;
      cereal::Event::Builder event = message.initRoot<cereal::Event>();
      event.setLogMonoTime(static_cast<uint64_t>(tick) * kSecond / kTicks);
      stream.fill(event, noise);
      writer.write(message);
    }
  }
  writer.commit();
  return writer.events();
}

TEST(LogSpeed, AMinuteAtFullRate) {
  const TempFolder folder;
  const int64_t written = write_minute(folder / "rlog.zst");
  const int64_t begin = now_ns();
  LogReader reader(folder / "rlog.zst");
  int64_t bytes = 0, models = 0;
  while (reader.next()) {
    bytes += reader.event_bytes();
    models += event_kind(reader.event()) == "modelV2";
  }
  const auto ms = static_cast<double>(now_ns() - begin) / 1e6;
  EXPECT_EQ(reader.events(), written);
  EXPECT_EQ(models, kSeconds * 20);
  fmt::print("{} events, {:.1f} MB packed, {:.1f} MB unpacked: {:.1f} ms\n", reader.events(),
             static_cast<double>(std::filesystem::file_size(folder / "rlog.zst")) / 1e6,
             static_cast<double>(bytes) / 1e6, ms);
}

}  // namespace
}  // namespace sparkpilot::drive
