// Plans for what follows shapes that depend on values, and for the bodies of If, Loop and Scan.
#include <algorithm>
#include <set>
#include <string>

#include "ir/id_map.h"
#include "ir/infer.h"
#include "runtime/plan_impl.h"

namespace sparkpilot {
namespace {

constexpr size_t kMaxPlans = 32;  // by shape; limits memory when the shapes keep changing

void add_shape(std::string& key, const Shape& shape) {
  key += shape.str();
  key += ';';
}

// NodeProfile::products: bf16 or f16 if any operand has it, else the type of the first; the others of 8-bit ops are
// weights, zero points and scales.
DType products_of(std::span<const ConstView> operands) {
  for (const ConstView& each : operands) {
    if (each.dtype == DType::bf16 || each.dtype == DType::f16) return each.dtype;
  }
  const DType first = operands.empty() ? DType::none : operands[0].dtype;
  return first == DType::u8 || first == DType::i8 || first == DType::boolean ? DType::i8 : DType::f32;
}

}  // namespace

std::vector<Tensor> Plan::BodyRunner::run(std::vector<Tensor> inputs) {
  std::string key;
  std::vector<const void*> data;
  for (const Tensor& tensor : inputs) {
    add_shape(key, tensor.shape());
    data.push_back(tensor.raw());
  }
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= kMaxPlans) plans_.clear();
    Graph graph = *graph_;
    if (inputs.size() != graph.inputs().size()) {
      fail("a body takes {} inputs, {} were given", graph.inputs().size(), inputs.size());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      Value& v = graph.value(graph.inputs()[i]);
      if (v.dtype != DType::none && v.dtype != inputs[i].dtype()) {
        fail("input \"{}\" of the body is {}, {} was given", v.name, name(v.dtype), name(inputs[i].dtype()));
      }
      v.dtype = inputs[i].dtype();
      v.shape = inputs[i].shape();
    }
    Graph ready = optimised(std::move(graph), options_.passes);
    found = plans_.emplace(key, std::make_unique<Plan>(std::move(ready), options_, states_)).first;
  }
  found->second->run(data);
  std::vector<Tensor> outputs;
  for (const ConstView& view : found->second->outputs()) {
    Tensor copy(view.dtype, view.shape);
    std::copy_n(static_cast<const std::byte*>(view.data), view.bytes(), static_cast<std::byte*>(copy.raw()));
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

void Plan::BodyRunner::choices(std::vector<KernelDecision>& out) const {
  for (const auto& [key, plan] : plans_) plan->choices(out);
}

std::string Plan::Continuation::key(const Plan& plan) const {
  std::string key;
  for (size_t i = 0; i < boundary.size(); ++i) {
    const ConstView view = plan.view_of(boundary[i]);
    add_shape(key, view.shape);
    if (by_value[i]) key.append(static_cast<const char*>(view.data), static_cast<size_t>(view.bytes()));
  }
  return key;
}

// Compiles the rest of the graph with the values known now; adds operands to `by_value` until no node that reads the
// boundary needs more of them by value.
Plan::Continuation::Child Plan::Continuation::make(Plan& plan) {
  for (;;) {
    Graph graph;
    Child child;
    ValueMap<ValueId> at(plan.graph_.value_count());
    for (size_t i = 0; i < boundary.size(); ++i) {
      const ConstView view = plan.view_of(boundary[i]);
      const std::string& label = plan.graph_.value(boundary[i]).name;
      if (by_value[i]) {
        Tensor copy(view.dtype, view.shape);
        std::copy_n(static_cast<const std::byte*>(view.data), view.bytes(), static_cast<std::byte*>(copy.raw()));
        at[boundary[i]] = graph.add_constant(std::move(copy), label);
      } else {
        at[boundary[i]] = graph.add_input(label, view.dtype, view.shape);
        child.inputs.push_back(i);
      }
    }
    for (const NodeId id : nodes) {
      const Node& node = plan.graph_.node(id);
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) {
        if (!input.present()) {
          inputs.push_back(input);
          continue;
        }
        if (!at[input].present()) {
          const Tensor* constant = plan.graph_.constant(input);
          if (!constant) fail_internal("value {} is neither computed nor constant", input.index);
          at[input] = graph.add_constant(*constant, plan.graph_.value(input).name);
        }
        inputs.push_back(at[input]);
      }
      const NodeId copy =
          graph.add_node(*node.op, std::move(inputs), node.attrs, static_cast<int>(node.outputs.size()), node.name);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        at[node.outputs[i]] = graph.node(copy).outputs[i];
        graph.value(at[node.outputs[i]]).name = plan.graph_.value(node.outputs[i]).name;
      }
    }
    for (const size_t r : results) graph.add_output(at[plan.results_[r]], "");

    bool complete = true;
    for (const NodeId id : graph.order()) {
      int missing = -1;
      if (infer_node(graph, id, &missing) || missing < 0) continue;
      const ValueId operand = graph.node(id).inputs[static_cast<size_t>(missing)];
      const auto& inputs = graph.inputs();
      const auto found = std::find(inputs.begin(), inputs.end(), operand);
      if (found == inputs.end()) continue;  // computed in the child, which then has a continuation itself
      by_value[child.inputs[static_cast<size_t>(found - inputs.begin())]] = true;
      complete = false;
    }
    if (!complete) continue;
    child.plan =
        std::make_unique<Plan>(optimised(std::move(graph), plan.options_.passes), plan.host_options(), plan.states_);
    return child;
  }
}

void Plan::run_rest() {
  Continuation& rest = *rest_;
  std::string key = rest.key(*this);
  auto found = rest.children.find(key);
  if (found == rest.children.end()) {
    if (rest.children.size() >= kMaxPlans) rest.children.clear();
    Continuation::Child child = rest.make(*this);
    key = rest.key(*this);  // making it may have added operands to the key
    found = rest.children.insert_or_assign(key, std::move(child)).first;
  }
  rest.current = &found->second;
  std::vector<const void*> inputs;
  for (const size_t i : rest.current->inputs) inputs.push_back(view_of(rest.boundary[i]).data);
  rest.current->plan->run(inputs);
}

void Plan::collect(Profile& profile) const {
  const int first = static_cast<int>(profile.nodes.size());
  for (const Step& step : steps_) {
    const Node& node = graph_.node(step.node);
    NodeProfile row{.name = graph_.label(step.node),
                    .op = qualified(*node.op),
                    .kernel = step.skipped ? "view" : step.decision.kernel,
                    .chosen_by = step.decision.by,
                    .kind = step.decision.node,
                    .declined = step.declined,
                    .shape = step.out.empty() ? std::string() : step.out[0].shape.str()};
    row.calls = step.calls;
    row.total_ns = step.total_ns;
    row.flops = step.cost.flops;
    row.bytes = step.cost.bytes;
    row.needed = step.cost.needed;
    row.weight_bytes = std::min(step.weight_bytes, step.cost.bytes);
    row.products = products_of(step.in);
    row.launches = step.launches;
    profile.nodes.push_back(std::move(row));
  }
  for (TraceEvent event : events_) {
    event.node += first;
    profile.events.push_back(event);
  }
  if (!rest_) return;
  for (const auto& [key, child] : rest_->children) child.plan->collect(profile);
}

void Plan::choices(std::vector<KernelDecision>& out) const {
  std::set<std::string> seen;
  for (const KernelDecision& decision : out) seen.insert(decision.node);
  for (const Step& step : steps_) {
    if (!step.decision.node.empty() && seen.insert(step.decision.node).second) out.push_back(step.decision);
  }
  for (const Step& step : steps_) {
    for (const auto& body : step.bodies) body->choices(out);
  }
  if (!rest_) return;
  for (const auto& [key, child] : rest_->children) child.plan->choices(out);
}

void Plan::visit_values(const std::function<void(const RunValue&)>& visit) const {
  const auto visit_one = [&](ValueId id, const std::string& node) {
    const Value& value = graph_.value(id);
    if (!options_.keeps(value) || storage_of(id) < 0) return;
    const ConstView view = view_of(id);
    if (view.data) visit({value.name, node, view, value.channels_last});
  };
  if (options_.keeps_all()) {
    for (const ValueId input : graph_.inputs()) visit_one(input, {});
    for (const State& state : graph_.states()) visit_one(state.value, {});
  }
  for (const Step& step : steps_) {
    for (const ValueId output : graph_.node(step.node).outputs) visit_one(output, graph_.label(step.node));
  }
  if (rest_ && rest_->current) rest_->current->plan->visit_values(visit);
}

}  // namespace sparkpilot
