#include "route/log/car_signals.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <route/log/schema/log.capnp.h>

#include <cmath>
#include <functional>

#include "base/test_files.h"
#include "route/log/reader.h"
#include "route/log/writer.h"

namespace sparkpilot::drive {
namespace {

constexpr double kDegree = 0.017453292519943295;

class CarSignalsTest : public testing::Test {
 protected:
  void add(uint64_t time, const std::function<void(cereal::Event::Builder)>& fill, bool valid = true) {
    auto& message = events_.emplace_back(std::make_unique<capnp::MallocMessageBuilder>());
    auto event = message->initRoot<cereal::Event>();
    event.setLogMonoTime(time);
    event.setValid(valid);
    fill(event);
  }
  CarSignals read() {
    const TempFolder folder;
    LogWriter writer(folder / "rlog");
    for (const auto& message : events_) writer.write(*message);
    writer.commit();
    LogReader log(folder / "rlog");
    CarSignalsReader reader;
    reader.add(log);
    return reader.take();
  }
  std::vector<std::unique_ptr<capnp::MallocMessageBuilder>> events_;
};

TEST_F(CarSignalsTest, TurnsToTheLeftArePositive) {
  add(3, [](auto event) { event.initLivePose().initAngularVelocityDevice().setValid(false); });
  add(1, [](auto event) {
    event.initCarState().setSteeringAngleDeg(90);
    event.getCarState().setVEgo(7);
  });
  add(2, [](auto event) {
    auto rate = event.initLivePose().initAngularVelocityDevice();
    rate.setZ(-0.25F);  // the device's axis points down
    rate.setValid(true);
  });
  add(4, [](auto event) { event.initLiveLocationKalman().initAngularVelocityCalibrated().setValid(true); });
  const CarSignals signals = read();
  ASSERT_EQ(signals.motion.size(), 1u);
  EXPECT_NEAR(signals.motion.begin()->second.wheel, 90 * kDegree, 1e-6);
  EXPECT_TRUE(signals.motion.begin()->second.usable);
  EXPECT_EQ(signals.yaw_source, "livePose");
  ASSERT_EQ(signals.yaw_rate.size(), 1u) << "the one that is valid";
  EXPECT_EQ(signals.yaw_rate.begin()->second, 0.25);
}

TEST_F(CarSignalsTest, TakesTheYawRateFromWhatThereIs) {
  add(1, [](auto event) { event.initCarState().setYawRate(0.5F); });
  CarSignals signals = read();
  EXPECT_EQ(signals.yaw_source, "carState");
  EXPECT_EQ(signals.yaw_rate.begin()->second, 0.5);
  add(2, [](auto event) {
    auto v = event.initGyroscope().initGyroUncalibrated().initV(3);
    v.set(0, 0.125F);
  });
  signals = read();
  EXPECT_EQ(signals.yaw_source, "gyroscope");
  EXPECT_EQ(signals.yaw_rate.begin()->second, 0.125);
  add(3, [](auto event) {
    auto rate = event.initLiveLocationKalman().initAngularVelocityCalibrated();
    rate.initValue(3).set(2, 0.75);
    rate.setValid(true);
  });
  signals = read();
  EXPECT_EQ(signals.yaw_source, "liveLocationKalman");
  EXPECT_EQ(signals.yaw_rate.begin()->second, -0.75);
  events_.clear();
  add(1, [](auto event) { event.initCarState(); });
  EXPECT_EQ(read().yaw_source, "") << "a car that never says it";
}

TEST_F(CarSignalsTest, TakesTheCommandThatTheCarGot) {
  add(1, [](auto event) {
    auto control = event.initCarControl();
    control.setLatActive(true);
    control.initActuators().setTorque(0.5F);
  });
  EXPECT_EQ(read().command_source, "carControl.actuators");
  add(2, [](auto event) { event.initCarControl().initActuatorsOutputDEPRECATED().setTorque(0.25F); });
  CarSignals signals = read();
  EXPECT_EQ(signals.command_source, "carControl.actuatorsOutput");
  EXPECT_EQ(signals.command.at(2)->torque, 0.25);
  EXPECT_TRUE(*signals.active.at(1));
  EXPECT_FALSE(*signals.active.at(2));
  add(3, [](auto event) { event.initCarOutput().initActuatorsOutput().setTorque(0.125F); });
  signals = read();
  EXPECT_EQ(signals.command_source, "carOutput");
  EXPECT_EQ(signals.command.size(), 1u);
}

TEST_F(CarSignalsTest, TakesTheCarAheadFromTheModelWhereThereIsNoRadarState) {
  const auto model = [](float prob, float x, float v) {
    return [=](cereal::Event::Builder event) {
      auto lead = event.initModelV2().initLeadsV3(1)[0];
      lead.setProb(prob);
      lead.initX(1).set(0, x);
      lead.initV(1).set(0, v);
    };
  };
  add(1, model(0.9F, 41.52F, 13));
  add(2, model(0.4F, 41.52F, 13));
  add(3, [](auto event) { event.initModelV2(); });
  add(4, model(0.9F, std::nanf(""), 13));
  add(5, [](auto event) { event.initModelV2().initLeadsV3(1)[0].setProb(1); });  // no places
  CarSignals signals = read();
  EXPECT_EQ(signals.lead_source, "modelV2");
  ASSERT_EQ(signals.lead.size(), 4u);
  EXPECT_TRUE(signals.lead.at(1)->there);
  EXPECT_NEAR(signals.lead.at(1)->gap, 40, 1e-4);
  EXPECT_EQ(signals.lead.at(1)->speed, 13);
  for (const uint64_t time : {2, 3, 5}) EXPECT_FALSE(signals.lead.at(time)->there) << time;
  add(6, [](auto event) {
    auto lead = event.initRadarState().initLeadOne();
    lead.setStatus(true);
    lead.setDRel(30);
    lead.setVLead(11);
  });
  signals = read();
  EXPECT_EQ(signals.lead_source, "radarState");
  ASSERT_EQ(signals.lead.size(), 1u);
  EXPECT_EQ(signals.lead.at(6)->gap, 30);
}

TEST_F(CarSignalsTest, LeavesOutNumbersThatNoCarHas) {
  const float nan = std::nanf("");
  add(1, [&](auto event) { event.initCarState().setVEgo(nan); });
  add(2, [](auto event) { event.initCarState().setSteeringAngleDeg(1e6F); });
  add(
      3, [](auto event) { event.initCarState(); }, false);
  add(4, [](auto event) { event.initCarState().setGearShifter(cereal::CarState::GearShifter::REVERSE); });
  add(5, [&](auto event) { event.initCarOutput().initActuatorsOutput().setTorque(nan); });
  add(6, [&](auto event) {
    event.initLiveParameters().setValid(true);
    event.getLiveParameters().setRoll(nan);
  });
  add(7, [](auto event) { event.initCarParams().setMass(1500); });  // and no lengths
  add(8, [&](auto event) { event.initRadarState().initLeadOne().setDRel(nan); });
  const CarSignals signals = read();
  EXPECT_EQ(signals.motion.size(), 2u);
  for (const auto& [time, motion] : signals.motion) EXPECT_FALSE(motion.usable);
  EXPECT_TRUE(signals.command.empty());
  EXPECT_TRUE(signals.parameters.empty());
  EXPECT_TRUE(signals.lead.empty());
  EXPECT_FALSE(signals.car);
}

}  // namespace
}  // namespace sparkpilot::drive
