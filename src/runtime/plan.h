// A compiled graph: kernels chosen and prepared, memory assigned to every value, steps in order.
//
// A plan covers the nodes whose shapes are known when it is made. If a shape depends on a value (an operand computed at
// run time, or an op such as NonZero), the plan ends there. The rest becomes a separate plan once the value is known:
// compiled by the same passes and cached by shape, so that the next run with the same shapes reuses it.
//
// `run` allocates nothing in a plan without such a continuation. A plan may be used by one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/id_map.h"
#include "ir/kernel_choice.h"
#include "ir/op.h"
#include "passes/pass.h"
#include "runtime/gpu_memory.h"
#include "runtime/profile.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

// Options of a plan; a session passes the same to all its plans.
struct PlanOptions {
  PassOptions passes;
  KernelChoice kernels = KernelChoice();
  int64_t tuned_ns = 0;                             // time that the session has spent on timing kernels so far
  int64_t ptx_ns = 0;                               // and the GPU's driver on compiling them
  bool alone = false;                               // a plan for several threads can also be run by one
  std::set<std::string, std::less<>> keep = {};     // names of values that can be read after a run; "all": every one
  std::shared_ptr<GpuDevice> gpu = nullptr;         // where nodes run that have a kernel for it; null: all on the CPU
  std::shared_ptr<GpuStates> gpu_states = nullptr;  // where the GPU has its own memory
  std::shared_ptr<Buffer> inputs = nullptr;         // where a session's inputs lie one after another, if they do
  bool profile = false;                             // time every step
  bool trace = false;                               // and keep every event
  bool gpu_times = false;                           // time the parts of every run on the GPU

  bool keeps_all() const { return keep.contains("all"); }
  bool keeps(const Value& value) const { return keeps_all() || (!value.name.empty() && keep.contains(value.name)); }
};

class NodeProblem;

class Plan {
 public:
  // `optimised`: a graph that the passes have run on (optimised()). `options` and `states` must outlive the plan. Fails
  // (user) if a node cannot be run, naming it. Plans of copies of one graph share its constants: a constant that
  // kernels pack is freed when the last plan has packed it.
  Plan(Graph optimised, const PlanOptions& options, StateStore& states);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // `inputs` are in the order of the graph's inputs, with its shapes and dtypes; they must stay readable during the
  // run. Call with the same number of threads as when the plan was made, or with one if PlanOptions::alone was set.
  void run(std::span<const void* const> inputs);
  // In the order of the graph's outputs; valid until the next run.
  std::span<const ConstView> outputs() const { return outputs_; }
  // Adds the nodes in execution order with their times and costs so far, including those of continuations.
  void collect(Profile& profile) const;
  // Adds the kernels chosen for nodes whose op has several, including continuations and bodies; kinds of nodes that
  // `out` already has are left out.
  void choices(std::vector<KernelDecision>& out) const;
  // As Session::visit_values.
  void visit_values(const std::function<void(const RunValue& value)>& visit) const;

  // Whether nothing is compiled during a run and no loop determines how long it takes.
  bool is_straight() const;
  // Discards the node times measured so far.
  void forget_times();
  // Resets the states of this plan to their initial contents, except those that cannot be reset.
  void reset_states();
  const Graph& graph() const { return graph_; }
  int64_t arena_bytes() const;
  int64_t weight_bytes() const { return weight_bytes_; }  // of the constants that nodes read, as the graph stores them
  double flops() const;                                   // of one run
  // Of a plan with a GPU: nodes that run on the CPU, by op and why; empty if all run on the GPU.
  std::vector<std::string> nodes_left_to_cpu() const;
  // Of a plan with a GPU: what one run launches and copies.
  Session::Transfers transfers_of_a_run() const;
  // With PlanOptions::gpu_times, of the last run.
  Session::GpuTimes gpu_times() const;

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

  struct GpuSide;
  struct GpuSideDeleter {  // its definition stays in gpu_plan.cc
    void operator()(GpuSide* side) const;
  };
  // Consecutive steps on one device, and on the CPU whether the threads stay in one team while running them.
  struct Stretch {
    size_t begin, end;
    bool together = false, on_gpu = false;
  };

  void choose_steps();
  void find_blocked();
  void add_step(NodeId id, bool dynamic);
  void weigh(const Node& node);
  void prepare_alone(Step& step, const Problem& problem) const;
  void release_packed(const Step& step);
  int new_storage(Storage storage, ValueId id);
  void assign_storage();
  bool shows_next_state(ValueId input, ValueId output) const;
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
  // The part of a plan that runs on a GPU (gpu_plan.cc); in a plan without one these do what the CPU needs, or nothing.
  void begin_gpu_side();
  void leave_rest_to_cpu();
  bool add_gpu_step(Step& step, const NodeProblem& types);
  Tensor shared_copy(const Tensor& from) const;
  std::shared_ptr<Buffer> new_memory(int64_t bytes) const;
  const PlanOptions& host_options() const;
  void expect_gpu_memory(int64_t arena_bytes, int64_t owned_bytes) const;
  void plan_gpu_memory();
  void move_constants(const std::vector<bool>& used, const std::vector<bool>& read_on_host);
  void plan_moves();
  void plan_states(const std::vector<bool>& written_on_gpu);
  void send_states();
  void give_states_their_next();
  void fetch_states();
  bool commit_on_gpu(size_t state);
  void state_will_be_reset(size_t state);
  void bind_on_gpu();
  void* address_of(size_t storage, bool on_gpu) const;
  void enqueue_step(Step& step);
  void merge_moves(size_t stretch) const;
  void move_before(size_t stretch);
  void move_after(size_t stretch);
  void run_on_gpu(size_t stretch);
  void time_on_gpu(size_t stretch);
  void name_range(Step& step) const;
  void wait_for_gpu();
  void run_step(Step& step);
  void run_rest();
  void commit_states();
  // Keeping NaN where fast kernels lose it (plan_finite.cc).
  void choose_checks();
  void look_at_inputs();
  void look_at_outputs(const Step& step);

  Graph graph_;
  const PlanOptions& options_;
  StateStore& states_;
  std::vector<Step> steps_;
  std::vector<Stretch> stretches_;
  std::vector<Storage> storage_;
  ValueMap<int> storage_index_;   // -1: no storage
  std::vector<ValueId> results_;  // graph outputs, then next values of states
  std::vector<bool> updated_;     // by state: whether its next value is computed in its own memory
  std::vector<Copy> copies_;      // results that are inputs or states, copied after a run
  int64_t weight_bytes_ = 0;
  ValueMap<bool> weighed_;  // constants that are in it
  ValueMap<int> readers_;   // by constant: reads by kernels that have not packed it
  std::vector<ConstView> outputs_;
  std::shared_ptr<Buffer> arena_, owned_, workspace_;
  std::unique_ptr<Continuation> rest_;
  std::unique_ptr<GpuSide, GpuSideDeleter> gpu_;
  std::vector<TraceEvent> events_;
  bool ranges_ = false;              // steps are timed and a profiler is attached: each is a range (nvtx.h)
  bool loses_nan_ = false;           // some step loses NaN unless it is told that there may be one
  bool weights_not_finite_ = false;  // a constant of such a step holds NaN or infinity
  bool not_finite_ = false;          // this run computes with NaN or infinity
};

}  // namespace sparkpilot
