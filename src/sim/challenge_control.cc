#include "sim/challenge_control.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sparkpilot::sim {
namespace {

using Parameters = std::vector<std::pair<std::string, double>>;

// controllers/pid.py of the challenge, operation by operation.
class Pid : public ChallengeController {
 public:
  explicit Pid(const Parameters& parameters)
      : p_(parameters[0].second), i_(parameters[1].second), d_(parameters[2].second) {}
  void reset(size_t routes) override { states_.assign(routes, {}); }
  void update(std::span<const ChallengeInput> inputs, std::span<double> actions) override {
    for (size_t k = 0; k < inputs.size(); ++k) {
      State& state = states_[k];
      const double error = inputs[k].target - inputs[k].current;
      state.integral += error;
      const double change = error - state.error;
      state.error = error;
      actions[k] = p_ * error + i_ * state.integral + d_ * change;
    }
  }

 private:
  struct State {
    double integral = 0, error = 0;
  };
  double p_, i_, d_;
  std::vector<State> states_;
};

class Zero : public ChallengeController {
 public:
  void reset(size_t) override {}
  void update(std::span<const ChallengeInput>, std::span<double> actions) override {
    std::fill(actions.begin(), actions.end(), 0.0);
  }
};

}  // namespace

std::vector<std::string_view> challenge_controllers() { return {"pid", "zero"}; }

Parameters challenge_parameters(std::string_view controller) {
  if (controller == "pid") return {{"p", 0.195}, {"i", 0.100}, {"d", -0.053}};
  if (controller == "zero") return {};
  fail("expected a controller pid or zero, got \"{}\"", controller);
}

ChallengeControllerMaker challenge_controller(std::string_view controller, const Parameters& parameters) {
  Parameters all = challenge_parameters(controller);
  for (const auto& [name, value] : parameters) {
    const auto found = std::find_if(all.begin(), all.end(), [&, n = name](const auto& one) { return one.first == n; });
    if (found == all.end()) {
      std::string names;
      for (const auto& one : all) names += (names.empty() ? "" : ", ") + one.first;
      fail("controller {} has no parameter \"{}\"; it has {}", controller, name, names.empty() ? "none" : names);
    }
    if (!std::isfinite(value)) fail("parameter \"{}\": expected a finite number, got {}", name, value);
    found->second = value;
  }
  if (controller == "zero") return [] { return std::make_unique<Zero>(); };
  return [all] { return std::make_unique<Pid>(all); };
}

}  // namespace sparkpilot::sim
