// Keeping NaN. Some fast kernels turn NaN into a number (oneDNN's relu, clip and max pooling) unless they are told that
// there may be one. So a run with such steps checks everything that can introduce NaN or infinity: its inputs and
// states, and the results of ops that may make one from finite numbers. Overflow in other steps is not checked: a
// finite network is assumed to compute finite values from finite inputs.
#include "runtime/plan_impl.h"
#include "tensor/finite.h"

namespace sparkpilot {

void Plan::choose_checks() {
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    step.checked = loses_nan_ && !graph_.node(step.node).op->traits.finite;
    loses_nan_ |= step.state && step.state->on_cpu.loses_nan;
  }
}

void Plan::look_at_inputs() {
  not_finite_ = weights_not_finite_;
  if (!loses_nan_) return;
  for (const ValueId id : graph_.inputs()) {
    if (!not_finite_ && storage_of(id) >= 0) not_finite_ = !all_finite(view_of(id));
  }
  for (const State& state : graph_.states()) {
    if (!not_finite_) not_finite_ = !all_finite(view_of(state.value));
  }
}

void Plan::look_at_outputs(const Step& step) {
  for (const View& out : step.out) {
    if (!not_finite_ && out.data) not_finite_ = !all_finite({out.dtype, out.shape, out.data});
  }
}

}  // namespace sparkpilot
