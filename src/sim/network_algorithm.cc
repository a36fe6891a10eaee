#include "sim/network_algorithm.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "ir/dimensions.h"
#include "sim/learning_env.h"
#include "sim/outside_trace.h"
#include "sim/world_stepper.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::sim {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kSlice = 128;
constexpr const char *kSteeringKey = "sparkpilot-sim/steering", *kStepsKey = "sparkpilot-sim/steps_per_action";

int64_t observations() { return std::ssize(observed_numbers()); }

}  // namespace

// Worlds that are stepped together, and the session that computes the network for them.
class NetworkAlgorithm::Slice {
 public:
  explicit Slice(const NetworkAlgorithm& network)
      : network_(network), session_(network.session(kSlice)), actions_(learning_actions(network.torque())) {
    session_->run();
    const Shape shape = session_->output(network.output_).shape;
    if (shape == Shape({kSlice, network.longitudinal() ? 2 : 1})) return;
    fail("{}: output \"{}\": {} for b = {}, expected a row for each world", network.file().string(), network.output_,
         shape.str(), kSlice);
  }

  // see(step, worlds) is called behind every step, and before the first one with -1, where it is not null.
  void run(int64_t first, int64_t count, const std::function<WorldSpec(int64_t)>& spec, const UserDrive& drive,
           UserWorld* worlds, const std::function<void(int, const WorldStepper&)>& see = nullptr) {
    WorldStepper stepper(count, {.torque = network_.torque(),
                                 .longitudinal = network_.longitudinal(),
                                 .tyres = drive.options.tyres,
                                 .seed = drive.options.seed,
                                 .number = drive.options.number});
    stepper.reset(nullptr, [&](int64_t i) { return spec(first + i); });
    const std::span<float> seen = session_->input<float>(network_.input_);
    std::ranges::fill(seen, 0.0F);
    commands_.assign(static_cast<size_t>(count * 2), 0);
    std::vector<std::string> failed(static_cast<size_t>(count));
    stepper.observe(seen.data());
    if (see) see(-1, stepper);
    for (int step = 0; step < drive.options.steps && !drive.stopped();) {
      session_->run();
      command(step, stepper, failed);
      if (count == 1 && !failed[0].empty()) break;  // a trace ends there
      const int held = std::min(network_.steps_per_action_, drive.options.steps - step);
      const int at_once = see ? 1 : held;
      for (int done = 0; done < held; done += at_once) {
        stepper.step(commands_.data(), at_once, seen.data());
        if (see) see(step + done, stepper);
      }
      step += held;
    }
    for (int64_t i = 0; i < count; ++i) {
      const std::string& wrong = failed[static_cast<size_t>(i)];
      worlds[first + i] = wrong.empty() ? UserWorld{stepper.result(i), {}} : UserWorld{{}, wrong};
    }
  }

 private:
  // Commands of worlds that failed or diverged are 0.
  void command(int step, const WorldStepper& stepper, std::vector<std::string>& failed) {
    const std::span<const float> out = session_->output<float>(network_.output_);
    const size_t width = network_.longitudinal() ? 2 : 1;
    for (size_t i = 0; i < failed.size(); ++i) {
      float* const to = &commands_[i * 2];
      std::copy_n(out.data() + i * width, width, to);
      const bool counts = failed[i].empty() && !stepper.diverged(static_cast<int64_t>(i));
      if (counts) failed[i] = network_.no_command(to, step);
      for (size_t c = 0; c < width; ++c) {
        const bool good = counts && failed[i].empty();
        to[c] = good ? std::clamp(to[c], static_cast<float>(actions_[c].low), static_cast<float>(actions_[c].high)) : 0;
      }
    }
  }

  const NetworkAlgorithm& network_;
  std::unique_ptr<Session> session_;
  std::span<const WorldNumber> actions_;
  std::vector<float> commands_;  // [worlds, 2]
};

NetworkAlgorithm::NetworkAlgorithm(const fs::path& file) : UserAlgorithm(file) {
  std::vector<fs::path> files;
  graph_ = load_onnx(this->file(), files);
  set_files(std::move(files));
  const std::string path = this->file().string();
  if (const auto steering = graph_.metadata.find(kSteeringKey); steering != graph_.metadata.end()) {
    torque_ = steering->second == "torque";
    if (!torque_ && steering->second != "angle") {
      fail("{}: metadata {}: expected torque or angle, got \"{}\"", path, kSteeringKey, steering->second);
    }
  }
  if (const auto steps = graph_.metadata.find(kStepsKey); steps != graph_.metadata.end()) {
    const std::string& text = steps->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps_per_action_);
    if (error != std::errc() || end != text.data() + text.size() || steps_per_action_ < 1 || steps_per_action_ > 1000) {
      fail("{}: metadata {}: expected 1 to 1000, got \"{}\"", path, kStepsKey, text);
    }
  }
  if (graph_.inputs().size() != 1 || graph_.outputs().size() != 1) {
    fail("{}: expected one input, f32 [b, {}], and one output (docs/algorithms.md), got {} and {}", path,
         observations(), graph_.inputs().size(), graph_.outputs().size());
  }
  const Value& input = graph_.value(graph_.inputs()[0]);
  const std::vector<Dim> dims = input.declared.value_or(std::vector<Dim>());
  if (input.dtype != DType::f32 || dims.size() != 2 || (dims[0].size != 1 && dims[0].size >= 0) ||
      dims[1].size != observations()) {
    fail("{}: input \"{}\": expected f32 [b, {}] with b open or 1, the columns of docs/sim_env.md, got {} {}", path,
         input.name, observations(), sparkpilot::name(input.dtype), declared_text(dims));
  }
  input_ = input.name;
  output_ = graph_.outputs()[0].name;
  open_ = dims[0].size < 0;

  const auto one = session(1);
  one->run();
  const ConstView output = one->output(output_);
  const Shape& shape = output.shape;
  if (output.dtype != DType::f32 || shape.rank() != 2 || shape[0] != 1 || shape[1] < 1 || shape[1] > 2) {
    fail("{}: output \"{}\": expected f32 [b, 1] or [b, 2], lateral command and acceleration, got {} {} for b = 1",
         path, output_, sparkpilot::name(output.dtype), shape.str());
  }
  longitudinal_ = shape[1] == 2;
  if (!one->states().empty()) {
    fail("{}: it keeps states or draws random numbers, expected a network whose output depends on its input alone",
         path);
  }
  give_back(take());  // a network that cannot be run for many worlds is refused now
}
NetworkAlgorithm::~NetworkAlgorithm() = default;

std::unique_ptr<Session> NetworkAlgorithm::session(int64_t worlds) const {
  SessionOptions options{.threads = 1, .tune = Tune::off};
  if (open_) options.shapes[input_] = Shape({worlds, observations()});
  else options.batch = worlds;
  auto session = std::make_unique<Session>(graph_, options);
  std::ranges::fill(session->input<float>(input_), 0.0F);
  session->compile();
  return session;
}

std::unique_ptr<NetworkAlgorithm::Slice> NetworkAlgorithm::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto slice = std::move(idle_.back());
      idle_.pop_back();
      return slice;
    }
  }
  return std::make_unique<Slice>(*this);
}

void NetworkAlgorithm::give_back(std::unique_ptr<Slice> slice) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(slice));
}

std::vector<UserWorld> NetworkAlgorithm::run(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                             const UserDrive& drive) const {
  std::vector<UserWorld> worlds(static_cast<size_t>(std::max<int64_t>(count, 0)));
  parallel_for((count + kSlice - 1) / kSlice, 1, [&](int64_t begin, int64_t end) {
    std::unique_ptr<Slice> slice = take();
    for (int64_t i = begin; i < end && !drive.stopped(); ++i) {
      slice->run(i * kSlice, std::min(kSlice, count - i * kSlice), spec, drive, worlds.data());
    }
    give_back(std::move(slice));
  });
  if (drive.stopped()) worlds.clear();
  return worlds;
}

std::pair<Trace, std::string> NetworkAlgorithm::trace(const WorldSpec& world, const UserDrive& drive) const {
  Trace rows;
  UserWorld end;
  std::unique_ptr<Slice> slice = take();
  slice->run(
      0, 1, [&](int64_t) { return world; }, drive, &end, OutsideTrace(rows));
  give_back(std::move(slice));
  rows.result = end.result;
  return {std::move(rows), end.failed};
}

std::optional<UpdateLatency> NetworkAlgorithm::latency(const WorldSpec& world, const UserDrive& drive) const {
  constexpr int kUpdates = 2000, kFirst = 100;
  constexpr int64_t kMost = 2'000'000'000;  // ns, and an update
  WorldStepper stepper(1, {.torque = torque(), .tyres = drive.options.tyres});
  stepper.reset(nullptr, [&](int64_t) { return world; });
  const auto one = session(1);
  stepper.observe(one->input<float>(input_).data());
  std::vector<double> times;
  const int64_t begun = now_ns();
  int64_t end = begun;
  for (int i = 0; i < kFirst + kUpdates && end - begun <= kMost; ++i) {
    if (drive.stopped()) return std::nullopt;
    const int64_t begin = end;
    one->run();
    end = now_ns();
    if (i >= kFirst || end - begun > kMost / 4) times.push_back(static_cast<double>(end - begin) * 1e-3);
  }
  const Statistics all = summarize(times);
  return UpdateLatency{all.p50, all.p99};
}

}  // namespace sparkpilot::sim
