// Compiles a graph for the CPU: optimised once, planned for the number of threads that is fastest.
#pragma once

#include <memory>
#include <span>

#include "base/clock.h"
#include "base/parallel.h"
#include "runtime/cpu/batch_slices.h"
#include "runtime/cpu/busy_watch.h"
#include "runtime/plan.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

// A compiled graph for one set of input shapes: a plan for the whole batch, or for slices of it.
struct CpuProgram {
  std::unique_ptr<Plan> plan;
  std::unique_ptr<BatchSlices> slices;
  int threads = 1;
  std::optional<KernelDecision> cut = {};  // how the batch is cut, if it may be
  bool watched = false;                    // runs move to one thread while several are being delayed
  BusyWatch watch = {};

  void run(std::span<const void* const> inputs) {
    if (!watched) return run(inputs, threads);
    const int64_t start = now_ns();
    run(inputs, watch.alone() ? 1 : threads);
    watch.took(now_ns() - start);
  }
  void run(std::span<const void* const> inputs, int on_threads) {
    const ThreadScope scope(on_threads);
    if (slices) slices->run(inputs);
    else plan->run(inputs);
  }
  std::span<const ConstView> outputs() const { return slices ? slices->outputs() : plan->outputs(); }
  const Graph& graph() const { return slices ? slices->graph() : plan->graph(); }
  int64_t weight_bytes() const { return slices ? slices->weight_bytes() : plan->weight_bytes(); }
  int64_t arena_bytes() const { return slices ? slices->arena_bytes() : plan->arena_bytes(); }
  void collect(Profile& profile) const { slices ? slices->collect(profile) : plan->collect(profile); }
  void choices(std::vector<KernelDecision>& out) const {
    slices ? slices->choices(out) : plan->choices(out);
    if (cut) out.push_back(*cut);
  }
  void forget_times() { slices ? slices->forget_times() : plan->forget_times(); }
};

// Compiles `bound`, which has the shapes of all its inputs; it is moved in, so that weights are freed as kernels pack
// them. `inputs` are the arrays that trial runs use to find the number of threads (if `options.threads` is 0) and to
// warm up. `plans` must outlive the result; this sets its `alone`, the known kernels and the time spent on timing.
// Fails (user) if a node cannot be run, naming it.
CpuProgram compile_on_cpu(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states,
                          std::span<const void* const> inputs);

}  // namespace sparkpilot
