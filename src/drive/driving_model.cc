#include "drive/driving_model.h"

#include <fmt/core.h>

#include <algorithm>

#include "adapters/adapter.h"
#include "base/clock.h"
#include "base/error.h"
#include "drive/network.h"
#include "route/contract/temporal.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr int kHistory = 100;  // frames of history: 5 s
constexpr int kPair = 2 * kFrameBytes;

constexpr const char* kExpected =
    "expected the inputs of openpilot's driving models: img and big_img (or input_imgs and big_input_imgs) of "
    "(1,12,128,256) with features_buffer, desire or desire_pulse and traffic_convention, in one network (0.9.7, or "
    "mid-2026 with action_t) or in two (vision and policy, 2025 to early 2026)";

int64_t rows_of(const TensorInfo& input) { return input.shape && input.shape->rank() == 3 ? (*input.shape)[1] : -1; }

const TensorInfo* road_input(const Network& net) { return net.find({"img", "input_imgs"}); }
const TensorInfo* wide_input(const Network& net) { return net.find({"big_img", "big_input_imgs"}); }
const TensorInfo* desire_input(const Network& net) { return net.find({"desire_pulse", "desire"}); }
const TensorInfo* features_input(const Network& net) { return net.find({"features_buffer"}); }

[[noreturn]] void wrong_contract(const Network& net, const std::string& what) {
  fail("{}: {}; its inputs are {}; {}", net.file(), what, net.input_list(), kExpected);
}

void check_images(const Network& net, const std::string& role) {
  for (const TensorInfo* input : {road_input(net), wide_input(net)}) {
    if (input == nullptr) wrong_contract(net, role + "it takes no pictures of two cameras");
    if (!input->shape || input->shape->elements() != kPair) {
      wrong_contract(net, fmt::format("input {} is not two pictures of (6,128,256)", input->name));
    }
  }
}

// What the inputs other than the pictures say; `merged`: pictures and features are inputs of one network.
DrivingContract contract_of(const Network& net, bool merged) {
  const TensorInfo* features = features_input(net);
  const TensorInfo* desire = desire_input(net);
  if (features == nullptr || desire == nullptr || net.find({"traffic_convention"}) == nullptr) {
    wrong_contract(net, "features_buffer, desire or traffic_convention is missing");
  }
  DrivingContract contract;
  contract.merged = merged;
  contract.features = static_cast<int>(rows_of(*features));
  contract.desires = static_cast<int>(rows_of(*desire));
  if (contract.desires < 1 || contract.desires > kHistory || kHistory % contract.desires != 0) {
    wrong_contract(net, fmt::format("{} has {} rows, expected 100 or 25", desire->name, contract.desires));
  }
  if ((*desire->shape)[2] != kDesires) wrong_contract(net, fmt::format("{} is not rows of {}", desire->name, kDesires));
  contract.context_stride = kHistory / contract.desires;
  const int wanted = merged ? contract.desires - 1 : contract.desires;
  if (contract.features != wanted || (*features->shape)[2] != kFeatures) {
    wrong_contract(net, fmt::format("features_buffer is not {} rows of {}", wanted, kFeatures));
  }
  const TensorInfo* curvatures = net.find({"prev_desired_curv"});
  if (curvatures != nullptr && (rows_of(*curvatures) != contract.desires || (*curvatures->shape)[2] != 1)) {
    wrong_contract(net, fmt::format("prev_desired_curv is not {} rows of 1", contract.desires));
  }
  contract.frame_gap = contract.context_stride == 1 ? 1 : 4;
  const bool older = net.find({"lateral_control_params"}) != nullptr || curvatures != nullptr;
  contract.era = !merged ? (older ? 'B' : 'C') : contract.context_stride == 1 ? 'A' : 'D';
  contract.sampling = contract.era == 'D' ? Sampling::nearest : Sampling::bilinear;
  return contract;
}

// `file`: the file, or the two files, with the heads.
void check_heads(const std::set<std::string>& heads, const std::string& file) {
  for (const char* head : {"plan", "lane_lines", "lane_lines_prob", "road_edges", "lead", "lead_prob", "desire_state",
                           "meta", "pose", "hidden_state"}) {
    if (!heads.contains(head)) fail("{}: not a driving model: output_slices has no head \"{}\"", file, head);
  }
}

}  // namespace

void add_adapters(ModelFiles& files, const std::vector<ModelName::Part>& adapters) {
  for (const ModelName::Part& part : adapters) {
    const std::string wanted = load_adapter(part.folder).base_fingerprint;
    std::string names;
    fs::path* found = nullptr;
    for (fs::path* file : {&files.supercombo, &files.vision, &files.policy, &files.driver_monitoring}) {
      if (file->empty()) continue;
      const ModelName model = parse_model_name(*file);
      names += (names.empty() ? "" : ", ") + model.file.string();
      if (found) continue;
      const bool fits = base_fingerprint(load_onnx(model.file)) == wanted ||
                        (!model.adapters.empty() && base_fingerprint(load_model(*file)) == wanted);
      if (fits) found = file;
    }
    if (!found) fail("{}: made for none of {}", part.folder.string(), names);
    *found = with_adapter(*found, part);
  }
}

ModelFiles find_models(const fs::path& where) {
  const ModelName name = parse_model_name(where);
  const fs::path& folder = name.file;
  if (!fs::is_directory(folder)) fail("{}: not a folder; expected one with openpilot's models", folder.string());
  const auto here = [&](const std::string& file) {
    const fs::path path = folder / file;
    return fs::exists(path) ? path : fs::path();
  };
  ModelFiles files;
  for (const std::string prefix : {"", "tiny_"}) {
    const fs::path vision = here(prefix + "driving_vision.onnx"), policy = here(prefix + "driving_policy.onnx");
    const fs::path merged = here(prefix + "driving_supercombo.onnx"), old = here(prefix + "supercombo.onnx");
    if (!vision.empty() && !policy.empty()) {
      files.vision = vision;
      files.policy = policy;
    } else if (!merged.empty() || !old.empty()) {
      files.supercombo = !merged.empty() ? merged : old;
    } else {
      continue;
    }
    for (const fs::path& path : {vision, policy, merged, old}) {
      if (path.empty() || path == files.vision || path == files.policy || path == files.supercombo) continue;
      files.note += (files.note.empty() ? "also there and not taken: " : ", ") + path.string();
    }
    files.driver_monitoring = here(prefix + "dmonitoring_model.onnx");
    add_adapters(files, name.adapters);
    return files;
  }
  fail(
      "{}: holds neither driving_vision.onnx with driving_policy.onnx, nor driving_supercombo.onnx, nor "
      "supercombo.onnx",
      folder.string());
}

SessionOptions ModelFiles::options_for(const std::string& role, SessionOptions options) const {
  if (const auto found = devices.find(role); found != devices.end()) options.device = found->second;
  if (const auto found = largest.find(role); found != largest.end()) options.passes.largest = found->second;
  return options;
}

std::string DrivingContract::describe() const {
  return fmt::format("era {} ({}, pictures {} ms apart, {} sampling)", era,
                     merged ? "one network" : "vision and policy", 50 * frame_gap,
                     sampling == Sampling::bilinear ? "bilinear" : "nearest");
}

struct DrivingModel::Impl {
  Impl(const ModelFiles& files, const SessionOptions& options)
      : front(files.supercombo.empty() ? files.vision : files.supercombo,
              files.options_for(files.supercombo.empty() ? "vision" : "supercombo", options), files.rewrite) {
    if (files.supercombo.empty()) {
      check_images(front, "given as vision, ");
      if (features_input(front) != nullptr) wrong_contract(front, "given as vision, it is a merged network");
      back.emplace(files.policy, files.options_for("policy", options), files.rewrite);
      if (road_input(*back) != nullptr) wrong_contract(*back, "given as policy, it takes pictures");
    } else {
      check_images(front, "");
    }
    contract = contract_of(policy(), !back);
    std::set<std::string> heads = front.parser().heads();
    if (back) heads.insert(back->parser().heads().begin(), back->parser().heads().end());
    check_heads(heads, back ? front.file() + " with " + back->file() : front.file());
    road.emplace(contract.frame_gap + 1, kFrameBytes);
    wide.emplace(contract.frame_gap + 1, kFrameBytes);
    pair.resize(kPair);
    tell_of(front, back ? "vision" : "supercombo");
    if (back) tell_of(*back, "policy");
  }

  void tell_of(Network& net, const char* role) {
    networks.push_back({net.file(), role, net.checkpoint(), net.session().device(), net.width(), net.slices()});
  }

  Network& policy() { return back ? *back : front; }

  void push_frame(const FrameInputs& in) {
    ++pushed;
    road->push(in.road);
    wide->push(in.wide.empty() ? in.road : in.wide);
    std::array<float, kDesires> desire{};
    pulse.next(in.desire, desire);
    desires.push(desire);
  }

  void set_images() {
    for (const auto& [input, history] : {std::pair{road_input(front), &*road}, std::pair{wide_input(front), &*wide}}) {
      const View view = front.session().input(input->name);
      if (view.dtype == DType::u8) {  // writes directly to the session's memory
        history->sample(contract.frame_gap, 0, {view.as<uint8_t>(), static_cast<size_t>(kPair)});
      } else {
        history->sample(contract.frame_gap, 0, pair);
        front.set(*input, std::span<const uint8_t>(pair));
      }
    }
  }

  void set(const char* name, std::span<const float> values) {
    if (const TensorInfo* input = policy().find({name})) policy().set(*input, values);
  }

  void set_context(const FrameInputs& in) {
    std::vector<float>& rows = scratch;
    rows.resize(static_cast<size_t>(contract.desires) * kDesires);
    desires.sample_max(contract.context_stride, rows);
    policy().set(*desire_input(policy()), std::span<const float>(rows));
    rows.resize(static_cast<size_t>(contract.features) * kFeatures);
    // Two networks: the newest feature is this frame's. One network: its queue ends with the last frame's feature, and
    // the sample includes the oldest of the 5 s.
    features.sample(contract.context_stride, contract.merged ? contract.context_stride - 1 : 0, rows);
    policy().set(*features_input(policy()), std::span<const float>(rows));
    if (const TensorInfo* input = policy().find({"prev_desired_curv"})) {
      rows.resize(static_cast<size_t>(rows_of(*input)));
      curvatures.sample(contract.context_stride, 0, rows);
      policy().set(*input, std::span<const float>(rows));
    }
    const std::array<float, 2> traffic{in.right_hand_drive ? 0.0F : 1.0F, in.right_hand_drive ? 1.0F : 0.0F};
    const std::array<float, 2> lateral{static_cast<float>(in.v_ego), static_cast<float>(in.steer_delay)};
    const std::array<float, 2> times{static_cast<float>(in.action_times.lateral),
                                     static_cast<float>(in.action_times.longitudinal)};
    set("traffic_convention", traffic);
    set("lateral_control_params", lateral);
    set("action_t", times);
  }

  double run(Network& net) {
    const int64_t start = now_ns();
    const std::span<const float> out = net.run();
    const double ms = static_cast<double>(now_ns() - start) * 1e-6;
    net.parser().parse(out, outputs);
    raw.insert(raw.end(), out.begin(), out.end());
    return ms;
  }

  bool skip(FrameInputs in) {
    const std::vector<uint8_t> none(kFrameBytes);
    in.road = in.wide = none;
    push_frame(in);
    features.push(std::vector<float>(kFeatures));
    curvatures.push(std::vector<float>(1));
    return false;
  }

  bool step(const FrameInputs& in) {
    if (in.unread) return skip(in);
    if (std::ssize(in.road) != kFrameBytes || (!in.wide.empty() && std::ssize(in.wide) != kFrameBytes)) {
      fail_internal("a frame of {} and {} bytes, expected {}", in.road.size(), in.wide.size(), kFrameBytes);
    }
    push_frame(in);
    if (in.prepare_only) return false;
    raw.clear();
    set_images();
    times = {};
    if (!back) {
      set_context(in);
      times.vision_ms = run(front);
      features.push(outputs.hidden_state);
    } else {
      times.vision_ms = run(front);
      features.push(outputs.hidden_state);
      set_context(in);
      times.policy_ms = run(*back);
    }
    action = action_of(outputs, action, in.action_times, in.v_ego);
    const std::array<float, 1> curvature{outputs.desired_curvature.value_or(action.curvature)};
    curvatures.push(curvature);
    return true;
  }

  void reset() {
    road->reset();
    wide->reset();
    desires.reset();
    features.reset();
    curvatures.reset();
    pulse.reset();
    pushed = 0;
    outputs = {};
    action = {};
    raw.clear();
  }

  Network front;
  std::optional<Network> back;
  DrivingContract contract;
  std::optional<History<uint8_t>> road, wide;
  History<float> desires{kHistory, kDesires}, features{kHistory, kFeatures}, curvatures{kHistory, 1};
  DesirePulse pulse;
  ModelOutputs outputs;
  Action action;
  StepTimes times;
  std::vector<float> raw, scratch;
  std::vector<uint8_t> pair;
  std::vector<NetworkInfo> networks;
  int64_t pushed = 0;  // frames since the beginning
};

DrivingModel::DrivingModel(const ModelFiles& files, const SessionOptions& options) : impl_(new Impl(files, options)) {}

std::vector<KernelDecision> DrivingModel::choices() const {
  std::vector<KernelDecision> out = impl_->front.session().choices();
  if (!impl_->back) return out;
  const std::vector<KernelDecision> more = impl_->back->session().choices();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}
DrivingModel::~DrivingModel() = default;
const DrivingContract& DrivingModel::contract() const { return impl_->contract; }
bool DrivingModel::step(const FrameInputs& inputs) { return impl_->step(inputs); }
const ModelOutputs& DrivingModel::outputs() const { return impl_->outputs; }
const Action& DrivingModel::action() const { return impl_->action; }
const StepTimes& DrivingModel::times() const { return impl_->times; }
bool DrivingModel::has_earlier_picture() const { return impl_->pushed > impl_->contract.frame_gap; }
std::span<const float> DrivingModel::raw() const { return impl_->raw; }
void DrivingModel::reset() { impl_->reset(); }
const std::vector<DrivingModel::NetworkInfo>& DrivingModel::networks() const { return impl_->networks; }

std::vector<DrivingModel::NamedInput> DrivingModel::inputs() {
  std::vector<NamedInput> out;
  const auto list = [&](Network& net, const std::string& role) {
    for (const TensorInfo& input : net.session().inputs()) {
      out.push_back({role, input.name, net.session().input(input.name)});
    }
  };
  list(impl_->front, impl_->networks[0].role);
  if (impl_->back) list(*impl_->back, impl_->networks[1].role);
  return out;
}

}  // namespace sparkpilot::drive
