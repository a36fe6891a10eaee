// openpilot's driving model, one or two networks, run frame by frame as openpilot runs it.
//
// Which era a model is of is read from the networks themselves: the names and shapes of their inputs and their
// output_slices; never from the name of a file.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "route/contract/action.h"
#include "route/contract/frame.h"
#include "route/contract/outputs.h"
#include "sparkpilot/session.h"

namespace sparkpilot::drive {

// Either `supercombo`, or `vision` and `policy`.
struct ModelFiles {
  std::filesystem::path vision = {}, policy = {}, supercombo = {};
  std::filesystem::path driver_monitoring = {};  // may be empty
  std::string note = {};                         // what else was there and is not taken; may be empty
};

// The models of a folder by openpilot's names, the first of driving_vision.onnx with driving_policy.onnx,
// driving_supercombo.onnx, supercombo.onnx, then the same with `tiny_` in front; and dmonitoring_model.onnx, so
// prefixed. Fails (user) naming what was looked for.
ModelFiles find_models(const std::filesystem::path& folder);

// How a driving model wants its inputs.
struct DrivingContract {
  char era = 'C';          // A: 0.9.7 supercombo; B: first split, C: 0.10.1 to early 2026; D: mid-2026, merged again
  bool merged = false;     // one network: it is given features of past frames only
  int frame_gap = 4;       // frames between the two pictures of an input
  int context_stride = 4;  // frames between two features of an input
  int features = 25;       // rows of features_buffer
  int desires = 25;        // rows of desire or desire_pulse
  Sampling sampling = Sampling::bilinear;
  std::string describe() const;  // "era C (vision and policy, frames 200 ms apart, bilinear)"
};

// One frame's inputs. Pictures are prepared: kFrameBytes each (contract/frame.h).
struct FrameInputs {
  std::span<const uint8_t> road = {}, wide = {};
  int desire = 0;  // see desire_of_lane_change
  bool right_hand_drive = false;
  double v_ego = 0;  // m/s
  ActionTimes action_times = {};
  double steer_delay = 0.2;   // s; eras A and B
  bool prepare_only = false;  // frames were lost before this one: queues move on, networks do not run
};

struct StepTimes {
  double vision_ms = 0, policy_ms = 0;  // a merged network counts as vision
};

// One thread at a time.
class DrivingModel {
 public:
  // Fails (user) where the files are not a driving model: the message says which inputs were expected of which era.
  DrivingModel(const ModelFiles& files, const SessionOptions& options);
  ~DrivingModel();

  const DrivingContract& contract() const;
  // Runs one frame. False with prepare_only: there are no outputs then.
  bool step(const FrameInputs& inputs);
  const ModelOutputs& outputs() const;
  const Action& action() const;
  const StepTimes& times() const;
  // The networks' flat outputs of the last step, one behind the other.
  std::span<const float> raw() const;
  // The inputs of the last step, by network and name, for those who check them.
  struct NamedInput {
    std::string network, name;
    ConstView value;
  };
  std::vector<NamedInput> inputs();
  // As before the first frame.
  void reset();

  struct NetworkInfo {
    std::string file, role;  // "vision", "policy", "supercombo"
    std::string checkpoint;  // the model's own, empty where it has none
  };
  const std::vector<NetworkInfo>& networks() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
