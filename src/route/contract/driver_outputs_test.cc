#include "route/contract/driver_outputs.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace {

const std::vector<std::pair<std::string, int64_t>> kHeads = {
    {"face_descs", 12},     {"face_prob", 1},       {"left_eye_prob", 1},    {"right_eye_prob", 1},
    {"sunglasses_prob", 1}, {"left_blink_prob", 1}, {"right_blink_prob", 1}, {"using_phone_prob", 1}};

// In the order of openpilot's file: one side's heads, the other side's, the wheel, features.
OutputSlices slices() {
  OutputSlices out;
  int64_t at = 0;
  const auto add = [&](const std::string& name, int64_t width) {
    out.push_back({name, {at, at + width, {}}});
    at += width;
  };
  for (const std::string side : {"_lhd", "_rhd"}) {
    for (const auto& [name, width] : kHeads) add(name + side, width);
  }
  add("wheel_on_right", 1);
  add("features", 512);
  return out;
}

std::vector<float> raw() {
  std::vector<float> out(551);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i) / 10 - 1;
  return out;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(DriverOutputs, EveryHeadIsWhereTheSlicesSay) {
  const DriverOutputs out = parse_driver(slices(), raw(), "dm");
  EXPECT_FLOAT_EQ(out.left.orientation[0], -1.0F);
  EXPECT_FLOAT_EQ(out.left.orientation[2], -0.8F);
  EXPECT_FLOAT_EQ(out.left.position[0], -0.7F);
  EXPECT_FLOAT_EQ(out.left.position[1], -0.6F);
  EXPECT_NEAR(out.left.orientation_std[1], std::exp(-0.3), 1e-6);
  EXPECT_NEAR(out.left.position_std[0], std::exp(-0.1), 1e-6);
  EXPECT_NEAR(out.left.face, sigmoid(0.2), 1e-6);
  EXPECT_NEAR(out.left.left_eye, sigmoid(0.3), 1e-6);
  EXPECT_NEAR(out.left.right_eye, sigmoid(0.4), 1e-6);
  EXPECT_NEAR(out.left.sunglasses, sigmoid(0.5), 1e-6);
  EXPECT_NEAR(out.left.left_blink, sigmoid(0.6), 1e-6);
  EXPECT_NEAR(out.left.right_blink, sigmoid(0.7), 1e-6);
  EXPECT_NEAR(out.left.phone, sigmoid(0.8), 1e-6);
  EXPECT_FLOAT_EQ(out.right.orientation[0], 0.9F);
  EXPECT_NEAR(out.right.phone, sigmoid(2.7), 1e-6);
  EXPECT_NEAR(out.wheel_on_right, sigmoid(2.8), 1e-6);
}

// As in the driving model: values that would overflow in half precision are clamped.
TEST(DriverOutputs, ExponentialsAreCutAtEleven) {
  std::vector<float> values(551, -200.0F);
  values[6] = 50.0F;  // a log deviation
  const DriverOutputs out = parse_driver(slices(), values, "dm");
  EXPECT_FLOAT_EQ(out.left.orientation_std[0], std::exp(11.0F));
  EXPECT_FLOAT_EQ(out.left.face, 1 / (1 + std::exp(11.0F)));
}

std::string error_of(const OutputSlices& heads) {
  try {
    parse_driver(heads, raw(), "dm.onnx");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "no error";
}

TEST(DriverOutputs, HeadsThatDoNotFitAreNamed) {
  OutputSlices heads = slices();
  heads.pop_back();
  heads.pop_back();
  EXPECT_NE(error_of(heads).find("wheel_on_right"), std::string::npos);
  heads = slices();
  heads[0].second.stop = 11;
  EXPECT_NE(error_of(heads).find("\"face_descs_lhd\" has 11 values, expected 12"), std::string::npos)
      << error_of(heads);
  heads = slices();
  heads[3].second = {600, 601, {}};
  EXPECT_NE(error_of(heads).find("dm.onnx"), std::string::npos) << error_of(heads);
}

TEST(DriverOutputs, AsAMessage) {
  capnp::MallocMessageBuilder message;
  auto event = message.initRoot<cereal::Event>();
  const std::vector<float> values = raw();
  fill_driver_state(event, parse_driver(slices(), values, "dm"), 77, 0.005, values);
  const auto state = event.asReader().getDriverStateV2();
  EXPECT_EQ(state.getFrameId(), 77u);
  EXPECT_FLOAT_EQ(state.getModelExecutionTime(), 0.005F);
  EXPECT_EQ(state.getLeftDriverData().getFaceOrientation().size(), 3u);
  EXPECT_EQ(state.getLeftDriverData().getFacePosition().size(), 2u);
  EXPECT_NEAR(state.getRightDriverData().getPhoneProb(), sigmoid(2.7), 1e-6);
  EXPECT_EQ(state.getRawPredictions().size(), 551 * sizeof(float));
}

}  // namespace
}  // namespace sparkpilot::drive
