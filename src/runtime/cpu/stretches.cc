// Threads on the CPU that stay together from one step to the next, and steps that one thread may run alone.
#include "base/parallel.h"
#include "ir/launch.h"
#include "runtime/plan_impl.h"

namespace sparkpilot {

// A kernel that is made for a number of threads is made for one besides, where one may take over.
void Plan::prepare_alone(Step& step, const Problem& problem) const {
  if (!options_.alone || thread_count() == 1 || !step.state || !step.state->on_cpu.for_threads) return;
  const ThreadScope one(1);
  step.alone = step.kernel->prepare(problem);
}

// Steps that go parallel through base/parallel.h alone are run by threads that stay together.
void Plan::choose_stretches() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.skipped) continue;
    const bool together = step.bodies.empty() && !(step.state && step.state->on_cpu.for_threads);
    if (stretches_.empty() || stretches_.back().together != together) stretches_.push_back({i, i, together});
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
