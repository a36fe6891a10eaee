#include "sparkpilot/training.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "train/program.h"

namespace sparkpilot {

struct Training::Impl {
  train::TrainingProgram program;
  double clip;
};

namespace {

constexpr double kMostRate = 1e6;  // an update of AdamW is about as large as its rate

train::TrainingProgram program_of(Graph graph, ValueId loss, std::vector<TrainedWeights> weights,
                                  const TrainingOptions& o) {
  if (!graph.states().empty()) fail("training: the graph keeps states, expected one that keeps none");
  const auto holds = [&](ValueId id) { return id.present() && id.index < graph.value_count(); };
  if (!holds(loss)) fail("training: the loss is no value of the graph");
  std::vector<train::Parameter> parameters;
  for (TrainedWeights& one : weights) {
    if (!holds(one.value) || graph.value(one.value).kind != ValueKind::constant) {
      fail("training: \"{}\" is no constant of the graph", one.name);
    }
    const auto same = std::ranges::find(parameters, one.value, &train::Parameter::value);
    if (same != parameters.end()) fail("training: \"{}\" and \"{}\" are the same constant", same->name, one.name);
    parameters.push_back({one.value, std::move(one.name), one.decay});
  }
  train::ProgramOptions options{.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon};
  options.weight_decay = o.weight_decay;
  options.session.threads = o.threads;
  options.session.tune = Tune::off;
  return {std::move(graph), loss, std::move(parameters), {}, std::move(options)};
}

void check(const TrainingOptions& o) {
  const auto number = [](const char* what, double value, bool fits, const char* expected) {
    if (!fits) fail("training: {} is {}, expected {}", what, value, expected);
  };
  number("beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "0 or more, below 1");
  number("beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "0 or more, below 1");
  number("epsilon", o.epsilon, o.epsilon > 0 && std::isfinite(o.epsilon), "a finite number above 0");
  number("weight_decay", o.weight_decay, o.weight_decay >= 0 && std::isfinite(o.weight_decay),
         "a finite number, 0 or more");
  number("clip", o.clip, o.clip >= 0, "0 or more");
}

}  // namespace

Training::Training(Graph graph, ValueId loss, std::vector<TrainedWeights> weights, TrainingOptions options) {
  check(options);
  impl_ = std::make_unique<Impl>(Impl{program_of(std::move(graph), loss, std::move(weights), options), options.clip});
}
Training::~Training() = default;
Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;

std::span<float> Training::input(std::string_view name) {
  const auto& inputs = impl_->program.inputs();
  const auto found = std::ranges::find(inputs, name, &TensorInfo::name);
  if (found == inputs.end() || found->dtype != DType::f32) fail("training: no input \"{}\" of f32", name);
  const View view = impl_->program.input(name);
  return {static_cast<float*>(view.data), static_cast<size_t>(view.shape.elements())};
}

void Training::step(double rate) {
  if (!(rate >= 0 && rate <= kMostRate)) fail("training: the rate is {}, expected 0 to {}", rate, kMostRate);
  train::TrainingProgram& program = impl_->program;
  program.run_gradients();
  if (!std::isfinite(program.loss()) || !std::isfinite(program.gradient_norm())) {
    program.discard();
    fail("training: in step {} the {} is not finite", program.updates() + 1,
         std::isfinite(program.loss()) ? "gradient" : "loss");
  }
  program.update(rate, impl_->clip);
}

double Training::loss() const { return impl_->program.loss(); }
int64_t Training::steps() const { return impl_->program.updates(); }

Tensor Training::weights(std::string_view name) const {
  const auto& all = impl_->program.parameters();
  if (std::ranges::find(all, name, &train::Parameter::name) == all.end()) fail("training: no weights \"{}\"", name);
  const Tensor& held = impl_->program.state(name);
  return Tensor::of<float>(held.shape(), held.data<float>());
}

}  // namespace sparkpilot
