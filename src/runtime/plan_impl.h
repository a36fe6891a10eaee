// Internals of Plan, shared by plan.cc, plan_*.cc and continuation.cc.
#pragma once

#include "base/error.h"
#include "runtime/plan.h"

namespace sparkpilot {

// The memory of one or more values (a view shares its input's).
struct Plan::Storage {
  enum Kind { constant, input, state, arena, owned, dynamic } kind = arena;
  int64_t bytes = 0, offset = 0;
  int first = 0, last = 0;  // steps that write and last read it
  bool persistent = false;  // must outlive the last step
  const void* data = nullptr;
  Tensor tensor;  // dynamic: what the step allocated
};

struct Plan::Step {
  NodeId node;
  const Kernel* kernel = nullptr;
  KernelDecision decision;
  std::vector<DeclinedKernel> declined;
  std::unique_ptr<KernelState> state;
  std::unique_ptr<KernelState> alone;  // state used when run by one thread; null: `state` serves that too
  std::vector<ConstView> in;
  std::vector<View> out;
  std::vector<std::unique_ptr<BodyRunner>> bodies;
  std::vector<Body*> body_pointers;
  std::function<View(int, const Shape&)> allocate;
  bool dynamic = false;
  bool skipped = false;  // a view: its output is its input's memory
  bool on_gpu = false;
  bool checked = false;                 // its outputs are searched for NaN and infinity
  std::vector<LaunchProfile> launches;  // kernels that it enqueued last
  std::string range;                    // its name for a profiler (nvtx.h); empty where none is attached
  Cost cost;
  double weight_bytes = 0;
  int64_t calls = 0, total_ns = 0;
};

// Runs a body of If, Loop or Scan: one plan for each set of input shapes.
class Plan::BodyRunner final : public Body {
 public:
  BodyRunner(std::shared_ptr<const Graph> graph, const PlanOptions& options, StateStore& states)
      : graph_(std::move(graph)), options_(options), states_(states) {}
  std::vector<Tensor> run(std::vector<Tensor> inputs) override;
  void choices(std::vector<KernelDecision>& out) const;

 private:
  std::shared_ptr<const Graph> graph_;
  const PlanOptions& options_;
  StateStore& states_;
  std::map<std::string, std::unique_ptr<Plan>> plans_;
};

// The rest of a graph, after the first shapes that depend on values.
struct Plan::Continuation {
  std::vector<NodeId> nodes;
  std::vector<ValueId> boundary;  // computed by this plan, read by `nodes`
  std::vector<bool> by_value;     // by boundary value: its contents decide shapes, so they are part of the key
  std::vector<size_t> results;    // indices of the plan's results that come from here
  struct Child {
    std::unique_ptr<Plan> plan;
    std::vector<size_t> inputs;  // indices into boundary, in the order of the child's inputs
  };
  std::map<std::string, Child> children;
  Child* current = nullptr;

  std::string key(const Plan& plan) const;
  Child make(Plan& plan);
};

}  // namespace sparkpilot
