// Stretches of steps during which threads stay in one team, and steps that one thread may run alone.
#include "base/parallel.h"
#include "ir/launch.h"
#include "runtime/plan_impl.h"

namespace sparkpilot {

// Prepares a kernel that depends on the number of threads for one thread as well, if runs may move to one thread.
void Plan::prepare_alone(Step& step, const Problem& problem) const {
  if (!options_.alone || thread_count() == 1 || !step.state || !step.state->on_cpu.for_threads) return;
  const ThreadScope one(1);
  step.alone = step.kernel->prepare(problem);
}

// Steps whose only parallel work goes through base/parallel.h run in one team of threads.
void Plan::choose_stretches() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.skipped) continue;
    const bool together = !step.on_gpu && step.bodies.empty() && !(step.state && step.state->on_cpu.for_threads);
    if (stretches_.empty() || stretches_.back().together != together || stretches_.back().on_gpu != step.on_gpu) {
      stretches_.push_back({.begin = i, .end = i, .together = together, .on_gpu = step.on_gpu});
    }
    stretches_.back().end = i + 1;
  }
  for (Stretch& stretch : stretches_) stretch.together &= stretch.end - stretch.begin > 1;
}

void Plan::run_stretch(const Stretch& stretch) {
  const auto steps = std::span(steps_).subspan(stretch.begin, stretch.end - stretch.begin);
  const auto run_all = [&] {
    for (Step& step : steps) {
      if (!step.skipped) run_step(step);
    }
  };
  if (stretch.together) with_team(run_all);
  else run_all();
}

}  // namespace sparkpilot
