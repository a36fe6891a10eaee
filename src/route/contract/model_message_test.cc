// What messages contain in addition to the outputs; every field of whole drives is compared with NumPy's by
// tests/drive_pipeline_test.cc.
#include "route/contract/model_message.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sparkpilot::drive {
namespace {

// A plan that is `x(t)` metres ahead at t seconds.
template <typename Ahead>
std::array<float, kPoints> times_of(const Ahead& x) {
  ModelOutputs outputs;
  for (int i = 0; i < kPoints; ++i)
    outputs.plan.mean[static_cast<size_t>(i * kPlanWidth)] = static_cast<float>(x(plan_time(i)));
  return line_times(outputs);
}

TEST(LineTimes, AreThoseAtWhichThePlanIsThere) {
  const auto times = times_of([](double t) { return 30 * t; });
  for (int i = 0; i < kPoints; ++i) EXPECT_NEAR(times[static_cast<size_t>(i)], line_distance(i) / 30, 1e-5) << i;
}

TEST(LineTimes, EndWhereThePlanDoes) {
  const auto times = times_of([](double t) { return 10 * t; });  // 100 m: between line points 23 and 24
  EXPECT_NEAR(times[23], line_distance(23) / 10, 1e-5);
  EXPECT_EQ(times[24], 10) << "the first that it does not reach has the plan's end";
  for (size_t i = 25; i < kPoints; ++i) EXPECT_TRUE(std::isnan(times[i])) << i;
}

TEST(LineTimes, OfAPlanThatStands) {
  const auto still = times_of([](double) { return 0; });
  EXPECT_EQ(still[0], 0);
  EXPECT_EQ(still[1], 10);
  EXPECT_TRUE(std::isnan(still[2]));
  // Two points in the same place, before the line: no time passes between them.
  const auto ahead = times_of([](double t) { return t < 1 ? 5 : 5 + 50 * t; });
  EXPECT_TRUE(std::isnan(ahead[1]));
  EXPECT_FALSE(std::isnan(ahead[20]));
}

// Sends frames through a publisher one after the other.
class Messages {
 public:
  cereal::ModelDataV2::Reader next(const MetaOutputs& meta, uint32_t frame_id) {
    ModelOutputs outputs;
    outputs.meta = meta;
    event_ = message_.initRoot<cereal::Event>();
    publisher_.fill_model(event_, outputs, {}, {.frame_id = frame_id}, {});
    return event_.asReader().getModelV2();
  }

 private:
  capnp::MallocMessageBuilder message_;
  cereal::Event::Builder event_{nullptr};
  ModelPublisher publisher_;
};

// The probabilities that the driver takes over within 2, 4, 6, 8, 10 s if it is `each` for every 2 s.
MetaOutputs taken_over(double each) {
  MetaOutputs meta;
  for (size_t i = 0; i < kMetaTimes; ++i)
    meta.brake_disengage[i] = static_cast<float>(1 - std::pow(1 - each, static_cast<double>(i + 1)));
  return meta;
}

TEST(Confidence, IsAMeanOverFiveLooks) {
  using Class = cereal::ModelDataV2::ConfidenceClass;
  Messages messages;
  const auto class_at = [&](double each, uint32_t frame) {
    return messages.next(taken_over(each), frame).getConfidence();
  };
  EXPECT_EQ(class_at(0.05, 0), Class::GREEN);  // one sample of five: 0.05 / 5
  EXPECT_EQ(class_at(0.9, 1), Class::GREEN) << "the next look is at frame 40";
  EXPECT_EQ(class_at(0.05, 40), Class::YELLOW);
  EXPECT_EQ(class_at(0.05, 80), Class::YELLOW);
  EXPECT_EQ(class_at(0.16, 120), Class::RED);  // (3 * 0.05 + 0.16) / 5
  EXPECT_EQ(class_at(0, 160), Class::RED);
  EXPECT_EQ(class_at(0, 200), Class::YELLOW) << "the first look is gone";
  for (uint32_t frame = 240; frame < 400; frame += 40) class_at(0, frame);
  EXPECT_EQ(class_at(0, 400), Class::GREEN);
}

TEST(Confidence, CountsEveryWayToTakeOver) {
  MetaOutputs meta;
  meta.gas_disengage.fill(0.5F);
  meta.steer_override.fill(0.5F);
  Messages messages;
  EXPECT_EQ(messages.next(meta, 0).getConfidence(), cereal::ModelDataV2::ConfidenceClass::RED);
  EXPECT_EQ(messages.next({}, 40).getConfidence(), cereal::ModelDataV2::ConfidenceClass::GREEN)
      << "all of it was expected in the first 2 s, which are over";
}

TEST(HardBrake, IsPredictedOnceFiveFramesSaySo) {
  Messages messages;
  const auto predicted = [&](float brake_5, float brake_3) {
    MetaOutputs meta;
    meta.hard_brake_5[0] = brake_5;
    meta.hard_brake_3[0] = brake_3;
    return messages.next(meta, 1).getMeta().getHardBrakePredicted();
  };
  for (const float brake_5 : {0.06F, 0.06F, 0.16F, 0.16F}) EXPECT_FALSE(predicted(brake_5, 0.71F));
  EXPECT_TRUE(predicted(0.16F, 0.71F));
  EXPECT_TRUE(predicted(0.16F, 0.71F));
  EXPECT_FALSE(predicted(0.16F, 0.69F)) << "braking with 3 m/s^2: two frames";
  EXPECT_FALSE(predicted(0.16F, 0.71F));
  EXPECT_TRUE(predicted(0.16F, 0.71F));
  EXPECT_FALSE(predicted(0.14F, 0.71F)) << "the last three need 0.15";
}

TEST(Validity, OfOdometryAsksForEveryFrame) {
  const FrameMark mark{.model_valid = true, .odometry_valid = false};
  const ModelOutputs outputs;
  capnp::MallocMessageBuilder model, odometry;
  auto event = model.initRoot<cereal::Event>();
  ModelPublisher().fill_model(event, outputs, {}, mark, {});
  EXPECT_TRUE(event.getValid());
  auto second = odometry.initRoot<cereal::Event>();
  fill_odometry(second, outputs, mark);
  EXPECT_FALSE(second.getValid());
}

}  // namespace
}  // namespace sparkpilot::drive
