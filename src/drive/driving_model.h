// openpilot's driving model, one or two networks, run frame by frame as openpilot runs it.
//
// A model's era is read from the networks themselves: the names and shapes of their inputs and their output_slices;
// never from a file name.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adapters/load_model.h"
#include "route/contract/action.h"
#include "route/contract/frame.h"
#include "route/contract/outputs.h"
#include "sparkpilot/session.h"

namespace sparkpilot::drive {

// Either `supercombo`, or `vision` and `policy`; each may have adapters in its name (adapters/load_model.h).
struct ModelFiles {
  std::filesystem::path vision = {}, policy = {}, supercombo = {};
  std::filesystem::path driver_monitoring = {};  // may be empty
  std::string note = {};                         // other models found but not used; may be empty
  // Changes each network's graph after it was read, before it is compiled; `rewritten_as` says into what, such as
  // "int8". Inputs, outputs and metadata must stay.
  std::function<Graph(Graph graph, const std::filesystem::path& file)> rewrite = {};
  std::string rewritten_as = {};
  // Where networks run, by role, if not on the session's device: what `auto` took in the first of several processes.
  std::map<std::string, std::string> devices = {};
  // The largest magnitudes of activations, by role, for PassOptions::largest (a calibration for fp8).
  std::map<std::string, std::map<std::string, double>> largest = {};
  SessionOptions options_for(const std::string& role, SessionOptions options) const;
};

// The models of a folder by openpilot's names, the first of driving_vision.onnx with driving_policy.onnx,
// driving_supercombo.onnx, supercombo.onnx, then the same with `tiny_` in front; and dmonitoring_model.onnx with the
// same prefix. `where`: the folder, or "FOLDER@ADAPTER" to add adapters as add_adapters() does. Fails (user) with the
// names that were searched for.
ModelFiles find_models(const std::filesystem::path& where);

// Gives each adapter to the network that it was made for. Fails (user) if no network is its own.
void add_adapters(ModelFiles& files, const std::vector<ModelName::Part>& adapters);

// The inputs that a driving model expects.
struct DrivingContract {
  char era = 'C';          // A: 0.9.7 supercombo; B: first split, C: 0.10.1 to early 2026; D: mid-2026, merged again
  bool merged = false;     // one network, whose feature inputs are of past frames only
  int frame_gap = 4;       // frames between the two pictures of an input
  int context_stride = 4;  // frames between two features of an input
  int features = 25;       // rows of features_buffer
  int desires = 25;        // rows of desire or desire_pulse
  Sampling sampling = Sampling::bilinear;
  // Whether each frame reads of past ones only those that lie a multiple of context_stride before it.
  bool reads_strides() const { return era >= 'C' && frame_gap % context_stride == 0; }
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
  bool prepare_only = false;  // after lost frames: queues advance, networks do not run
  // Nothing will be read of this frame but its desire: networks do not run, its features are zeros, and it needs no
  // pictures.
  bool unread = false;
};

struct StepTimes {
  double vision_ms = 0, policy_ms = 0;  // a merged network counts as vision
};

// One thread at a time.
class DrivingModel {
 public:
  // Fails (user) if the files are not a driving model: the message lists the inputs that each era expects.
  DrivingModel(const ModelFiles& files, const SessionOptions& options);
  ~DrivingModel();

  const DrivingContract& contract() const;
  // Runs one frame. False with prepare_only or unread, which give no outputs.
  bool step(const FrameInputs& inputs);
  const ModelOutputs& outputs() const;
  const Action& action() const;
  const StepTimes& times() const;
  // Whether the last step's earlier picture was given, too: before, a model sees no motion.
  bool has_earlier_picture() const;
  // The networks' flat outputs of the last step, one after the other.
  std::span<const float> raw() const;
  // The inputs of the last step, by network and name, for checks.
  struct NamedInput {
    std::string network, name;
    ConstView value;
  };
  std::vector<NamedInput> inputs();
  // Resets to the state before the first frame.
  void reset();

  struct NetworkInfo {
    std::string file, role;      // "vision", "policy", "supercombo"; of a DriverModel kDriverMonitoring
    std::string checkpoint;      // the model's, empty if it has none
    std::string device = "cpu";  // Session::device()
    int64_t width = 0;           // of its flat output
    OutputSlices slices = {};    // of that
  };
  const std::vector<NetworkInfo>& networks() const;
  // Session::choices() of all networks.
  std::vector<KernelDecision> choices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
