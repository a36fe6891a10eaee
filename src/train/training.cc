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

train::TrainingProgram program_of(Graph graph, ValueId loss, std::vector<TrainedWeights> weights,
                                  const TrainingOptions& o) {
  if (!graph.states().empty()) fail("training: the graph keeps states, expected one that keeps none");
  std::vector<train::Parameter> parameters;
  for (TrainedWeights& one : weights) {
    if (!one.value.present() || graph.value(one.value).kind != ValueKind::constant) {
      fail("training: \"{}\" is no constant of the graph", one.name);
    }
    parameters.push_back({one.value, std::move(one.name), one.decay});
  }
  train::ProgramOptions options{.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon};
  options.weight_decay = o.weight_decay;
  options.session.threads = o.threads;
  options.session.tune = Tune::off;
  return {std::move(graph), loss, std::move(parameters), {}, std::move(options)};
}

}  // namespace

Training::Training(Graph graph, ValueId loss, std::vector<TrainedWeights> weights, TrainingOptions options) {
  if (!(options.clip >= 0)) fail("training: a clip of {}, expected 0 or more", options.clip);
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
