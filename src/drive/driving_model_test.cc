// The driving model's outputs, and its queues, compared frame by frame with the history that each era's contract asks
// for, written here in plain code. What it refuses is in driving_model_errors_test.cc.
#include "drive/driving_model.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <ostream>

#include "base/random.h"
#include "onnx/export.h"
#include "onnx/metadata.h"
#include "onnx/zoo.h"
#include "route/test_files.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace {
namespace fs = std::filesystem;

// The facts of an era. Offsets count from the start of the networks' flat outputs, concatenated.
struct Era {
  char letter;
  const char *vision, *policy;  // policy is empty for one network
  const char* desire;
  int frame_gap, stride, features;
  Sampling sampling;
  int64_t outputs, hidden_state, curvature;  // curvature is -1 if there is none
};
const Era kEras[] = {
    {'A', "tiny_supercombo", "", "desire", 1, 1, 99, Sampling::bilinear, 6504, 5992, 5990},
    {'B', "tiny_driving_vision_v0.10.0", "tiny_driving_policy_v0.10.0", "desire", 4, 4, 25, Sampling::bilinear,
     1536 + 4968, 1022, 1536 + 4963},
    {'C', "tiny_driving_vision", "tiny_driving_policy", "desire_pulse", 4, 4, 25, Sampling::bilinear, 1576 + 1000, 1064,
     -1},
    {'D', "tiny_driving_supercombo", "", "desire_pulse", 4, 4, 24, Sampling::nearest, 2576, 1064, -1},
};

void PrintTo(const Era& era, std::ostream* out) { *out << era.letter; }

fs::path built(const TempFolder& folder, const std::string& name) {
  fs::path path = folder / (name + ".onnx");
  if (!fs::exists(path)) save_onnx(build_zoo_model(name), path);
  return path;
}

ModelFiles files_of(const TempFolder& folder, const Era& era) {
  ModelFiles files;
  if (*era.policy == 0) {
    files.supercombo = built(folder, era.vision);
  } else {
    files.vision = built(folder, era.vision);
    files.policy = built(folder, era.policy);
  }
  return files;
}

using Bytes = std::vector<uint8_t>;

// Noise that depends only on the camera and the frame.
Bytes picture(int camera, int frame) {
  Bytes bytes(kFrameBytes);
  if (frame < 0) return bytes;  // before the first frame
  for (size_t i = 0; i < bytes.size(); i += 16) {
    const auto words = philox4x32(static_cast<uint64_t>(frame), i + static_cast<uint64_t>(camera));
    std::memcpy(&bytes[i], words.data(), 16);
  }
  return bytes;
}

// A lane change that is held, one that becomes the opposite one without a pause, and one that begins in a lost frame.
int desire_at(int frame) {
  if (frame >= 3 && frame < 9) return 3;
  if (frame >= 30 && frame < 33) return 4;
  if (frame >= 33 && frame < 40) return 3;
  if (frame >= 51 && frame < 60) return 4;
  return 0;
}
// Counted by hand: the frames where the desires above begin.
const std::map<int, size_t> kPulses{{3, 3}, {30, 4}, {33, 3}, {51, 4}};
bool lost(int frame) { return frame == 50 || frame == 51; }

FrameInputs inputs_at(int frame, const Bytes& road, const Bytes& wide) {
  FrameInputs in;
  in.road = road;
  in.wide = wide;
  in.desire = desire_at(frame);
  in.right_hand_drive = frame % 7 == 3;
  in.v_ego = 0.37 * frame;
  in.action_times = {0.2 + 0.01 * frame, 0.4 + 0.01 * frame};
  in.steer_delay = 0.15 + 0.003 * frame;
  in.prepare_only = lost(frame);
  return in;
}

std::vector<float> floats(const ConstView& view) {
  std::vector<float> out(static_cast<size_t>(view.elements()));
  if (view.dtype == DType::u8) std::copy_n(view.as<uint8_t>(), out.size(), out.begin());
  else if (view.dtype == DType::f16) std::copy_n(view.as<Half>(), out.size(), out.begin());
  else std::copy_n(view.as<float>(), out.size(), out.begin());
  return out;
}

// The history so far, and the inputs expected from it.
struct Simulation {
  const Era& era;
  int frames = 0;                                        // number of pictures and desires so far, including this
                                                         // frame's
  std::vector<std::vector<float>> features, curvatures;  // only of the frames that ran

  // Two pictures, older first.
  std::vector<float> pictures(int camera) const {
    std::vector<float> out;
    for (const int frame : {frames - 1 - era.frame_gap, frames - 1}) {
      const Bytes bytes = picture(camera, frame);
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
    return out;
  }

  // 100 frames in groups of the stride: a pulse anywhere in a group appears in its maximum.
  std::vector<float> desires() const {
    std::vector<float> out(static_cast<size_t>(100 / era.stride) * 8);
    for (const auto& [frame, desire] : kPulses) {
      const int place = frame - (frames - 100);
      if (frame < frames && place >= 0) out[static_cast<size_t>(place / era.stride) * 8 + desire] = 1;
    }
    return out;
  }

  // queue[::stride] of the last `length` rows, zeros before the first.
  std::vector<float> sampled(const std::vector<std::vector<float>>& all, int length, size_t width) const {
    std::vector<float> out;
    for (int i = 0; i < length; i += era.stride) {
      const int row = static_cast<int>(all.size()) - length + i;
      const std::vector<float> values = row < 0 ? std::vector<float>(width) : all[static_cast<size_t>(row)];
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }

  std::vector<float> expected(const std::string& name, const FrameInputs& in) const {
    if (name == "img" || name == "input_imgs") return pictures(0);
    if (name == "big_img" || name == "big_input_imgs") return pictures(1);
    if (name == era.desire) return desires();
    if (name == "features_buffer") return sampled(features, era.letter == 'A' ? 99 : era.letter == 'D' ? 96 : 97, 512);
    if (name == "prev_desired_curv") return sampled(curvatures, era.letter == 'A' ? 100 : 97, 1);
    const auto both = [](double a, double b) { return std::vector{static_cast<float>(a), static_cast<float>(b)}; };
    if (name == "traffic_convention") return in.right_hand_drive ? both(0, 1) : both(1, 0);
    if (name == "lateral_control_params") return both(in.v_ego, in.steer_delay);
    if (name == "action_t") return both(in.action_times.lateral, in.action_times.longitudinal);
    ADD_FAILURE() << "an input of no era: " << name;
    return {};
  }
};

void expect_inputs(DrivingModel& model, const Simulation& sim, const FrameInputs& in) {
  for (const DrivingModel::NamedInput& input : model.inputs()) {
    std::vector<float> expected = sim.expected(input.name, in);
    if (input.value.dtype == DType::f16 &&
        std::ssize(expected) != int64_t{2} * kFrameBytes) {  // bytes are exact in fp16
      for (float& value : expected) value = static_cast<float>(Half(value));
    }
    const std::vector<float> got = floats(input.value);
    ASSERT_EQ(got.size(), expected.size()) << input.name;
    const auto differs = std::mismatch(got.begin(), got.end(), expected.begin());
    if (differs.first == got.end()) continue;
    FAIL() << input.name << " at " << differs.first - got.begin() << ": " << *differs.first << ", expected "
           << *differs.second;
  }
}

class EraTest : public testing::TestWithParam<Era> {
 protected:
  void SetUp() override {
    model_ = std::make_unique<DrivingModel>(files_of(folder_, GetParam()), SessionOptions{.threads = 1});
  }

  // The outputs of the frames from `first` on.
  std::vector<std::vector<float>> outputs(int frames, int first = 0) {
    std::vector<std::vector<float>> all;
    for (int frame = first; frame < first + frames; ++frame) {
      const Bytes road = picture(0, frame), wide = picture(1, frame);
      if (model_->step(inputs_at(frame, road, wide))) all.emplace_back(model_->raw().begin(), model_->raw().end());
    }
    return all;
  }

  TempFolder folder_;
  std::unique_ptr<DrivingModel> model_;
};

TEST_P(EraTest, ContractIsReadFromTheFiles) {
  const Era& era = GetParam();
  const DrivingContract& contract = model_->contract();
  EXPECT_EQ(contract.era, era.letter);
  EXPECT_EQ(contract.merged, *era.policy == 0);
  EXPECT_EQ(contract.frame_gap, era.frame_gap);
  EXPECT_EQ(contract.context_stride, era.stride);
  EXPECT_EQ(contract.features, era.features);
  EXPECT_EQ(contract.desires, 100 / era.stride);
  EXPECT_EQ(contract.sampling, era.sampling);
  EXPECT_NE(contract.describe().find(fmt::format("era {} (", era.letter)), std::string::npos) << contract.describe();
  ASSERT_EQ(model_->networks().size(), *era.policy == 0 ? 1u : 2u);
  EXPECT_EQ(model_->networks()[0].role, *era.policy == 0 ? "supercombo" : "vision");
  EXPECT_EQ(model_->networks()[0].checkpoint, fmt::format("sparkpilot-zoo/{}/1", era.vision));
}

// 115 frames: more than any queue holds.
TEST_P(EraTest, InputsAreTheHistoryOfTheContract) {
  const Era& era = GetParam();
  Simulation sim{era, 0, {}, {}};
  for (int frame = 0; frame < 115; ++frame) {
    SCOPED_TRACE(frame);
    const Bytes road = picture(0, frame), wide = picture(1, frame);
    const FrameInputs in = inputs_at(frame, road, wide);
    ASSERT_EQ(model_->step(in), !lost(frame));
    sim.frames = frame + 1;
    if (lost(frame)) continue;
    const std::span<const float> raw = model_->raw();
    ASSERT_EQ(std::ssize(raw), era.outputs);
    const auto hidden = raw.subspan(static_cast<size_t>(era.hidden_state), 512);
    const auto remember = [&] { sim.features.emplace_back(hidden.begin(), hidden.end()); };
    // Two networks: policy gets this frame's features. One network: only those of earlier frames.
    if (*era.policy != 0) remember();
    expect_inputs(*model_, sim, in);
    if (HasFatalFailure()) return;
    if (*era.policy == 0) remember();
    if (era.curvature >= 0) sim.curvatures.push_back({raw[static_cast<size_t>(era.curvature)]});
  }
}

TEST_P(EraTest, OutputsAreFiniteAndParsed) {
  for (const std::vector<float>& raw : outputs(10)) {
    for (const float value : raw) ASSERT_TRUE(std::isfinite(value));
  }
  const Era& era = GetParam();
  const ModelOutputs& out = model_->outputs();
  EXPECT_EQ(out.desired_curvature.has_value(), era.curvature >= 0);
  EXPECT_EQ(out.sim_pose.has_value(), era.letter == 'A');
  EXPECT_EQ(out.meta.brake_press.size(), era.letter == 'A' ? 0u : 6u);
  for (const auto& std : {out.plan.std[0], out.lane_lines.std[0], out.road_edges.std[0], out.leads.std[0],
                          out.pose.std[0], out.road_transform.std[0], out.wide_from_device_euler.std[0]}) {
    EXPECT_GT(std, 0);  // an exponential if it was parsed, zero if not
  }
  float sum = 0;
  for (const float p : out.desire_state) sum += p;
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(out.hidden_state[7], model_->raw()[static_cast<size_t>(era.hidden_state) + 7]);
  EXPECT_TRUE(std::isfinite(model_->action().acceleration) && std::isfinite(model_->action().curvature));
  EXPECT_GT(model_->times().vision_ms, 0);
  EXPECT_EQ(model_->times().policy_ms > 0, *era.policy != 0);
}

TEST_P(EraTest, ResetIsAsBeforeTheFirstFrame) {
  // A lane change begins in the first of these frames and lasts beyond the last: the second run has to see it as new.
  const std::vector<std::vector<float>> first = outputs(5, 3);
  const Action action = model_->action();
  const auto shown = [&] {
    std::map<std::string, std::vector<float>> all;
    for (const DrivingModel::NamedInput& input : model_->inputs()) all[input.name] = floats(input.value);
    return all;
  };
  const auto inputs = shown();
  EXPECT_NE(first[3], first[4]);
  model_->reset();
  EXPECT_TRUE(outputs(5, 3) == first);
  EXPECT_TRUE(shown() == inputs);
  EXPECT_EQ(model_->action().acceleration, action.acceleration);
}

// The first frames have no earlier picture, and after reset() others are first.
TEST_P(EraTest, HasAnEarlierPictureAfterItsGap) {
  const Bytes road = picture(0, 1);
  for (int run = 0; run < 2; ++run) {
    for (int frame = 0; frame <= model_->contract().frame_gap; ++frame) {
      ASSERT_TRUE(model_->step(inputs_at(frame, road, {})));
      EXPECT_EQ(model_->has_earlier_picture(), frame == model_->contract().frame_gap) << frame;
    }
    model_->reset();
    EXPECT_FALSE(model_->has_earlier_picture());
  }
}

// Without a wide camera the road picture is used for both inputs.
TEST_P(EraTest, WithoutAWideCameraTheRoadIsShownTwice) {
  const Bytes road = picture(0, 1);
  ASSERT_TRUE(model_->step(inputs_at(1, road, {})));
  const auto inputs = model_->inputs();
  EXPECT_EQ(floats(inputs[0].value), floats(inputs[1].value));
  EXPECT_THROW(model_->step(inputs_at(1, Bytes(10), {})), Error);
}

INSTANTIATE_TEST_SUITE_P(DrivingModel, EraTest, testing::ValuesIn(kEras),
                         [](const auto& era) { return std::string(1, era.param.letter); });

}  // namespace
}  // namespace sparkpilot::drive
