// A compiled graph: kernels chosen and prepared, every buffer's place fixed, steps in order.
//
// A plan covers the nodes whose shapes are known when it is made. Where a shape depends on a value (an operand computed
// at run time, or an op such as NonZero), the plan ends there; what remains becomes a plan of its own once the value is
// known, compiled by the same passes and kept by shape, so the next run with the same shapes finds it.
//
// `run` allocates nothing in a plan without such a continuation. One plan is used by one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/id_map.h"
#include "ir/kernel_choice.h"
#include "ir/op.h"
#include "passes/pass.h"
#include "runtime/profile.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

struct PlanOptions {
  PassOptions passes;
  KernelChoice kernels = KernelChoice();
  int64_t tuned_ns = 0;      // that the session has spent on timing kernels
  bool alone = false;        // can also be run by one thread, where it is made for several
  bool keep_values = false;  // every value gets memory of its own and can be read after a run
  bool profile = false;      // time every step
  bool trace = false;        // and keep every event
};

class Plan {
 public:
  // Of a graph that the passes have been over (optimised()). Fails (user) where a node cannot be run, naming it. Plans
  // of copies of one graph share its constants: one that kernels pack is freed when the last plan has packed it.
  Plan(Graph optimised, const PlanOptions& options, StateStore& states);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // `inputs` in the order of the graph's inputs, with its shapes and dtypes; they must stay readable while it runs.
  // With as many threads as there were when it was made; or with one, where the options said so.
  void run(std::span<const void* const> inputs);
  // In the order of the graph's outputs; valid until the next run.
  std::span<const ConstView> outputs() const { return outputs_; }
  // Nodes in execution order with what they cost so far, continuations included.
  void collect(Profile& profile) const;
  // Adds the kernels of those nodes whose op has several, continuations and bodies included; a kind that `out` has
  // already is left out.
  void choices(std::vector<KernelDecision>& out) const;
  // With keep_values: calls visit(name, view) for every named value of the last run.
  void visit_values(const std::function<void(const std::string& name, const ConstView& view)>& visit) const;

  // Nothing is compiled while it runs, and no loop decides how long that takes.
  bool is_straight() const;
  // The node times so far are dropped.
  void forget_times();
  // The states of this plan get their initial contents back; those that cannot be are left alone.
  void reset_states();
  const Graph& graph() const { return graph_; }
  int64_t arena_bytes() const;
  double flops() const;  // of a run

 private:
  struct Step;
  struct Storage;
  struct Continuation;
  class BodyRunner;

  struct Copy {
    size_t result;
    int storage;
    int64_t offset;
  };

  // Steps in a row, and whether threads stay together meanwhile.
  struct Stretch {
    size_t begin, end;
    bool together;
  };

  void choose_steps();
  void find_blocked();
  void add_step(NodeId id, bool dynamic);
  void prepare_alone(Step& step, const Problem& problem) const;
  void release_packed(const Step& step);
  int new_storage(Storage storage, ValueId id);
  void assign_storage();
  void share_in_place();
  void update_in_place();
  bool writes_over(const Step& step, int next, int own) const;
  void bind_state(ValueId id);
  void plan_memory();
  void bind_step(Step& step);
  int storage_of(ValueId id) const { return storage_index_[id]; }
  ConstView view_of(ValueId id) const;
  ConstView result(size_t i) const;
  void choose_stretches();
  void run_stretch(const Stretch& stretch);
  void run_step(Step& step);
  void run_rest();
  void commit_states();
  // Keeping NaN where the fast kernels lose it (plan_finite.cc).
  void choose_checks();
  void look_at_inputs();
  void look_at_outputs(const Step& step);

  Graph graph_;
  const PlanOptions& options_;
  StateStore& states_;
  std::vector<Step> steps_;
  std::vector<Stretch> stretches_;
  std::vector<Storage> storage_;
  ValueMap<int> storage_index_;   // -1: none
  std::vector<ValueId> results_;  // graph outputs, then next values of states
  std::vector<bool> updated_;     // by state: its next value is written to its own memory
  std::vector<Copy> copies_;      // results that are inputs or states
  ValueMap<int> readers_;         // reads that have not packed it
  std::vector<ConstView> outputs_;
  std::unique_ptr<Buffer> arena_, owned_, workspace_;
  std::unique_ptr<Continuation> rest_;
  std::vector<TraceEvent> events_;
  bool loses_nan_ = false;           // some step does, unless it is told that there may be one
  bool weights_not_finite_ = false;  // in such a step
  bool not_finite_ = false;          // this run computes with NaN or infinity
};

}  // namespace sparkpilot
