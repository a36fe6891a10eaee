#include "runtime/plan.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/parallel.h"
#include "ir/census.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "runtime/nvtx.h"
#include "runtime/plan_impl.h"
#include "tensor/finite.h"

namespace sparkpilot {
namespace {

bool all_shapes_known(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return !input.present() || graph.value(input).shape.has_value(); });
}

}  // namespace

Plan::~Plan() = default;

Plan::Plan(Graph optimised, const PlanOptions& options, StateStore& states)
    : graph_(std::move(optimised)), options_(options), states_(states) {
  for (const Graph::Output& output : graph_.outputs()) results_.push_back(output.value);
  for (const State& state : graph_.states()) results_.push_back(state.next);
  begin_gpu_side();
  choose_steps();
  choose_checks();
  plan_memory();
  choose_stretches();
  plan_moves();
  outputs_.resize(graph_.outputs().size());
  ranges_ = options_.profile && nvtx_attached();
  for (Step& step : steps_) {
    if (ranges_ && !step.on_gpu) name_range(step);
  }
}

// As a trace names the node: op, name, how its kernels are launched, kernels.
void Plan::name_range(Step& step) const {
  step.range = fmt::format("{} {}", qualified(*graph_.node(step.node).op), graph_.label(step.node));
  if (step.launches.empty()) step.range += fmt::format(" {}", step.kernel->name);
  else if (step.decision.kernel.starts_with(step.kernel->name))
    step.range += step.decision.kernel.substr(step.kernel->name.size());
  for (const LaunchProfile& launch : step.launches) step.range += " " + launch.kernel;
}

void Plan::choose_steps() {
  storage_index_ = ValueMap<int>(graph_.value_count(), -1);
  std::vector<NodeId> blocked;
  std::vector<std::pair<NodeId, int>> wanted;
  std::vector<std::pair<NodeId, bool>> chosen;
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    int missing = -1;
    if (!all_shapes_known(graph_, node)) {
      blocked.push_back(id);
    } else if (infer_node(graph_, id, &missing)) {
      chosen.emplace_back(id, false);
    } else if (missing >= 0) {
      blocked.push_back(id);
      wanted.emplace_back(id, missing);
    } else if (node.op->traits.dynamic) {
      chosen.emplace_back(id, true);
    } else {
      fail("{} cannot be run (node \"{}\")", qualified(*node.op), graph_.label(id));
    }
  }
  if (!blocked.empty()) {
    rest_ = std::make_unique<Continuation>();
    rest_->nodes = std::move(blocked);
    find_blocked();
    leave_rest_to_cpu();
    for (const auto& [id, operand] : wanted) {
      const ValueId value = graph_.node(id).inputs[static_cast<size_t>(operand)];
      for (size_t i = 0; i < rest_->boundary.size(); ++i) {
        if (rest_->boundary[i] == value) rest_->by_value[i] = true;
      }
    }
  }
  readers_ = ValueMap<int>(graph_.value_count());
  weighed_ = ValueMap<bool>(graph_.value_count());
  for (const ValueId result : results_) ++readers_[result];
  for (const NodeId id : graph_.order()) {
    for (const ValueId input : graph_.node(id).inputs) {
      if (input.present()) ++readers_[input];
    }
  }
  for (const auto& [id, dynamic] : chosen) add_step(id, dynamic);
  if (rest_) {
    for (const NodeId id : rest_->nodes) weigh(graph_.node(id));
  }
}

// Finds which values the continuation needs from this plan, and which results it computes.
void Plan::find_blocked() {
  ValueMap<bool> inside(graph_.value_count());
  for (const NodeId id : rest_->nodes) {
    for (const ValueId output : graph_.node(id).outputs) inside[output] = true;
  }
  ValueMap<bool> seen(inside.size());
  for (const NodeId id : rest_->nodes) {
    for (const ValueId input : graph_.node(id).inputs) {
      if (!input.present() || graph_.constant(input) || inside[input]) continue;
      if (seen[input]) continue;
      seen[input] = true;
      rest_->boundary.push_back(input);
    }
  }
  rest_->by_value.assign(rest_->boundary.size(), false);
  for (size_t i = 0; i < results_.size(); ++i) {
    if (inside[results_[i]]) rest_->results.push_back(i);
  }
}

void Plan::add_step(NodeId id, bool dynamic) {
  const Node& node = graph_.node(id);
  Step step;
  step.node = id;
  step.dynamic = dynamic;
  const NodeProblem types(graph_, id);
  const Problem problem = types.problem();
  if (!add_gpu_step(step, types)) {
    Launch made = launch(graph_, id, problem, options_.kernels);
    step.kernel = made.kernel;
    step.decision = std::move(made.decision);
    step.declined = std::move(made.declined);
    step.state = std::move(made.state);
    prepare_alone(step, problem);
  }
  step.cost = cost_of(*node.op, problem);
  weigh(node);
  for (const Tensor& constant : types.constants()) {
    if (!constant.present()) continue;
    step.weight_bytes += static_cast<double>(constant.bytes());
    if (step.state && step.state->on_cpu.loses_nan) weights_not_finite_ |= !all_finite(constant.view());
  }
  for (const auto& [key, attribute] : node.attrs) {
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) {
      step.bodies.push_back(std::make_unique<BodyRunner>(*body, host_options(), states_));
      step.body_pointers.push_back(step.bodies.back().get());
    }
  }
  release_packed(step);
  for (const TensorType& type : types.inputs()) step.in.push_back({type.dtype, type.shape, nullptr});
  for (const TensorType& type : types.outputs()) step.out.push_back({type.dtype, type.shape, nullptr});
  steps_.push_back(std::move(step));
}

// Adds what the node's constants take, each once, and those of its bodies.
void Plan::weigh(const Node& node) {
  for (const ValueId input : node.inputs) {
    const Tensor* constant = input.present() && !weighed_[input] ? graph_.constant(input) : nullptr;
    if (!constant) continue;
    weighed_[input] = true;
    weight_bytes_ += constant->bytes();
  }
  for (const auto& [key, attribute] : node.attrs) {
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute))
      weight_bytes_ += take_census(**body).constant_bytes;
  }
}

// Frees a constant as soon as all its readers have packed it, so that weights are in memory once.
void Plan::release_packed(const Step& step) {
  if (!step.state) return;
  const Node& node = graph_.node(step.node);
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    if (!(step.state->consumed >> i & 1) || !graph_.constant(node.inputs[i])) continue;
    if (--readers_[node.inputs[i]] == 0) graph_.value(node.inputs[i]).constant = Tensor();
  }
}

ConstView Plan::view_of(ValueId id) const {
  const Value& v = graph_.value(id);
  const Storage& storage = storage_[static_cast<size_t>(storage_of(id))];
  if (storage.kind == Storage::dynamic) return storage.tensor.view();
  return {v.dtype, *v.shape, storage.data};
}

void Plan::run(std::span<const void* const> inputs) {
  bool moved = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Storage& storage = storage_[static_cast<size_t>(storage_of(graph_.inputs()[i]))];
    moved |= storage.data != inputs[i];
    storage.data = inputs[i];
  }
  if (moved) {
    bind_on_gpu();
    for (Step& step : steps_) bind_step(step);
  }
  send_states();
  look_at_inputs();
  for (size_t i = 0; i < stretches_.size(); ++i) {
    if (stretches_[i].on_gpu) {
      run_on_gpu(i);
    } else {
      wait_for_gpu();
      run_stretch(stretches_[i]);
    }
  }
  fetch_states();
  wait_for_gpu();
  for (const Copy& copy : copies_) {
    const Storage& from = storage_[static_cast<size_t>(copy.storage)];
    std::memcpy(owned_->data() + copy.offset, from.data, static_cast<size_t>(from.bytes));
  }
  if (rest_) run_rest();
  for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = result(i);
  commit_states();
}

void Plan::run_step(Step& step) {
  const NvtxRange range(step.range);
  const int64_t begin = options_.profile ? now_ns() : 0;
  try {
    if (step.dynamic && !step.allocate) {
      step.allocate = [this, &step](int i, const Shape& shape) {
        const auto at = static_cast<size_t>(i);
        Storage& storage = storage_[static_cast<size_t>(storage_of(graph_.node(step.node).outputs[at]))];
        storage.tensor = Tensor(step.out[at].dtype, shape);
        storage.data = storage.tensor.raw();
        return step.out[at] = storage.tensor.view();
      };
    }
    step.kernel->run({.node = &graph_.node(step.node),
                      .inputs = step.in,
                      .outputs = step.out,
                      .workspace = workspace_->data(),
                      .state = (step.alone && thread_count() == 1 ? step.alone : step.state).get(),
                      .bodies = step.body_pointers,
                      .not_finite = not_finite_,
                      .allocate = step.dynamic ? &step.allocate : nullptr});
  } catch (const Error& error) {
    fail_at(graph_, step.node, error);
  }
  if (step.checked && !not_finite_) look_at_outputs(step);
  if (!options_.profile) return;
  const int64_t end = now_ns();
  ++step.calls;
  step.total_ns += end - begin;
  if (options_.trace) events_.push_back({static_cast<int>(&step - steps_.data()), begin, end});
}

// The i-th result after the steps and the continuation have run.
ConstView Plan::result(size_t i) const {
  if (rest_ && rest_->current) {
    for (size_t r = 0; r < rest_->results.size(); ++r) {
      if (rest_->results[r] == i) return rest_->current->plan->outputs()[r];
    }
  }
  ConstView view = view_of(results_[i]);
  for (const Copy& copy : copies_) {
    if (copy.result == i) view.data = owned_->data() + copy.offset;
  }
  return view;
}

void Plan::commit_states() {
  for (size_t s = 0; s < graph_.states().size(); ++s) {
    if (commit_on_gpu(s) || updated_[s]) continue;
    const State& state = graph_.states()[s];
    const ConstView next = result(graph_.outputs().size() + s);
    const ConstView now = view_of(state.value);
    if (next.dtype != now.dtype || !(next.shape == now.shape)) {
      fail("state \"{}\" is {}{}, its next value {}{}", graph_.value(state.value).name, name(now.dtype),
           now.shape.str(), name(next.dtype), next.shape.str());
    }
    std::memcpy(const_cast<void*>(now.data), next.data, static_cast<size_t>(now.bytes()));
  }
}

void Plan::reset_states() {
  for (size_t s = 0; s < graph_.states().size(); ++s) {
    const State& state = graph_.states()[s];
    if (!state.resettable) continue;
    const ConstView now = view_of(state.value);
    state_will_be_reset(s);
    std::memcpy(const_cast<void*>(now.data), graph_.value(state.value).constant.raw(),
                static_cast<size_t>(now.bytes()));
  }
  if (!rest_) return;
  for (const auto& [key, child] : rest_->children) child.plan->reset_states();
}

bool Plan::is_straight() const {
  return !rest_ && std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.bodies.empty(); });
}

double Plan::flops() const {
  double sum = 0;
  for (const Step& step : steps_) sum += step.cost.flops;
  return sum;
}

void Plan::forget_times() {
  for (Step& step : steps_) step.calls = step.total_ns = 0;
  events_.clear();
}

int64_t Plan::arena_bytes() const { return arena_->size() + owned_->size() + workspace_->size(); }

}  // namespace sparkpilot
