#include "passes/recompute.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/id_map.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "ir/storage_rules.h"

namespace sparkpilot {
namespace {

// A byte moved takes as long as about this many operations, on processors and GPUs alike.
constexpr double kOperationsPerByte = 10;

// One run of a node, or of its copy in the backward half.
struct Step {
  NodeId node;
  bool again = false;
};

// What a choice of nodes whose values are kept means.
struct Outcome {
  int64_t bytes = 0;
  double work = 0;  // of what is computed again
};

class Chooser {
 public:
  explicit Chooser(const Graph& graph);
  Outcome outcome(const NodeMap<bool>& kept) const;
  NodeMap<bool> choose(int64_t bytes) const;
  // In the graph's order, copies where they are first needed.
  std::vector<Step> steps(const NodeMap<bool>& kept) const;
  // Whether a step reads what the copy of the value's node computes.
  bool reads_again(const Step& step, ValueId input, const NodeMap<bool>& kept) const;
  double total_work() const { return total_work_; }
  bool is_view(NodeId id) const { return views_[id]; }

 private:
  // A choice with what it means.
  struct Choice {
    NodeMap<bool> kept;
    Outcome outcome;
  };

  struct Memory;

  void find_forward();
  void measure();
  void find_memory();
  NodeMap<bool> segments(double limit, int64_t length) const;
  void keep_crossing(NodeMap<bool>& kept, size_t cut) const;
  void improve(Choice& choice, int64_t bytes) const;
  void settle_views(NodeMap<bool>& kept) const;

  const Graph& graph_;
  std::vector<NodeId> order_;
  std::vector<NodeId> forward_order_;
  NodeMap<bool> forward_, once_, views_;
  NodeMap<bool> all_;
  NodeMap<double> work_;  // in operations
  NodeMap<int64_t> node_bytes_;
  ValueMap<int64_t> bytes_;  // in the arena; 0: elsewhere
  ValueMap<ValueId> root_;   // whose memory it has
  ValueMap<int> last_read_;  // in forward_order_, by root; -1: not there
  int64_t forward_bytes_ = 0;
  double total_work_ = 0;
};

Chooser::Chooser(const Graph& graph)
    : graph_(graph),
      order_(graph.order()),
      forward_(graph.node_count()),
      once_(graph.node_count()),
      views_(graph.node_count()),
      all_(graph.node_count(), true),
      work_(graph.node_count()),
      node_bytes_(graph.node_count()),
      bytes_(graph.value_count()),
      root_(graph.value_count()),
      last_read_(graph.value_count(), -1) {
  find_forward();
  measure();
  find_memory();
}

void Chooser::find_forward() {
  ValueMap<bool> needed(graph_.value_count());
  for (const Graph::Output& output : graph_.outputs()) needed[output.value] = true;
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    const Node& node = graph_.node(*id);
    forward_[*id] = std::ranges::any_of(node.outputs, [&](ValueId output) { return needed[output]; });
    if (!forward_[*id]) continue;
    for (const ValueId input : node.inputs) {
      if (input.present()) needed[input] = true;
    }
  }
  for (const NodeId id : order_) {
    if (forward_[id]) forward_order_.push_back(id);
  }
}

void Chooser::measure() {
  for (int i = 0; i < graph_.value_count(); ++i) root_[ValueId{i}] = ValueId{i};
  for (const NodeId id : order_) {
    const Node& node = graph_.node(id);
    for (const ValueId input : node.inputs) {
      if (input.present() && !graph_.value(input).shape) {
        fail("values are computed again only where all shapes are known (node \"{}\")", graph_.label(id));
      }
    }
    const NodeProblem types(graph_, id);
    once_[id] =
        !node.op->traits.pure || node.op->traits.dynamic ||
        std::ranges::any_of(node.attrs, [](const auto& item) { return type_of(item.second) == AttrType::graph; });
    if (node.outputs.size() == 1 && !types.inputs().empty() && node.inputs[0].present() &&
        sparkpilot::is_view(*node.op, types.inputs()[0], types.outputs()[0])) {
      views_[id] = true;
      root_[node.outputs[0]] = root_[node.inputs[0]];
      continue;
    }
    const Cost cost = cost_of(*node.op, types.problem());
    work_[id] = std::max(cost.flops, kOperationsPerByte * cost.bytes);
    total_work_ += work_[id];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& type = types.outputs()[i];
      bytes_[node.outputs[i]] =
          type.known ? (storage_bytes(type.dtype, type.shape.elements()) + kAlignment - 1) / kAlignment * kAlignment
                     : 0;
    }
  }
}

void Chooser::find_memory() {
  // Results have memory of their own.
  for (const Graph::Output& output : graph_.outputs()) bytes_[root_[output.value]] = 0;
  for (const State& state : graph_.states()) bytes_[root_[state.next]] = 0;
  for (size_t i = 0; i < forward_order_.size(); ++i) {
    const Node& node = graph_.node(forward_order_[i]);
    for (const ValueId output : node.outputs) {
      node_bytes_[forward_order_[i]] += root_[output] == output ? bytes_[output] : 0;
    }
    for (const ValueId input : node.inputs) {
      if (input.present()) last_read_[root_[input]] = static_cast<int>(i);
    }
    forward_bytes_ += node_bytes_[forward_order_[i]];
  }
}

bool Chooser::reads_again(const Step& step, ValueId input, const NodeMap<bool>& kept) const {
  const NodeId producer = graph_.value(input).producer;
  return producer.present() && forward_[producer] && !kept[producer] && (step.again || !forward_[step.node]);
}

std::vector<Step> Chooser::steps(const NodeMap<bool>& kept) const {
  std::vector<Step> out;
  const auto nodes = static_cast<size_t>(graph_.node_count());
  std::vector<bool> seen(2 * nodes);
  std::vector<std::pair<Step, size_t>> stack;
  const auto visit = [&](const Step& step) {
    const size_t at = static_cast<size_t>(step.node.index) + (step.again ? nodes : 0);
    if (seen[at]) return;
    seen[at] = true;
    stack.emplace_back(step, 0);
  };
  for (const NodeId root : order_) {
    visit({root});
    while (!stack.empty()) {
      const auto [step, next] = stack.back();
      const Node& node = graph_.node(step.node);
      if (next == node.inputs.size()) {
        out.push_back(step);
        stack.pop_back();
        continue;
      }
      ++stack.back().second;
      const ValueId input = node.inputs[next];
      if (!input.present() || !graph_.value(input).producer.present()) continue;
      visit({graph_.value(input).producer, reads_again(step, input, kept)});
    }
  }
  return out;
}

// Where values live while all steps run; the values of copies come behind the graph's own. Follows plan_memory.cc.
struct Chooser::Memory {
  const Chooser& chooser;
  const NodeMap<bool>& kept;
  std::vector<Step> steps;
  std::vector<int> first, last;  // steps; -1: there is none
  std::vector<size_t> merged;    // into which memory a value is written; its own, or an input's

  Memory(const Chooser& of, const NodeMap<bool>& with)
      : chooser(of), kept(with), steps(of.steps(with)), first(2 * values(), -1), last(first), merged(first.size()) {
    std::iota(merged.begin(), merged.end(), size_t{0});
  }
  size_t values() const { return static_cast<size_t>(chooser.graph_.value_count()); }
  size_t place(ValueId id, bool again) const {
    const ValueId root = chooser.root_[id];
    return static_cast<size_t>(root.index) + (again && chooser.graph_.value(root).producer.present() ? values() : 0);
  }
  size_t read(const Step& step, ValueId input) const { return place(input, chooser.reads_again(step, input, kept)); }
  void find_lifetimes();
  void share_in_place();
  void overwrite_an_input(size_t step, size_t output, std::vector<size_t>& given);
  int64_t most() const;
};

void Chooser::Memory::find_lifetimes() {
  for (size_t s = 0; s < steps.size(); ++s) {
    const Node& node = chooser.graph_.node(steps[s].node);
    for (const ValueId input : node.inputs) {
      if (input.present()) last[read(steps[s], input)] = static_cast<int>(s);
    }
    if (chooser.views_[steps[s].node]) continue;
    for (const ValueId output : node.outputs) {
      const size_t own = place(output, steps[s].again);
      first[own] = static_cast<int>(s);
      last[own] = std::max(last[own], static_cast<int>(s));
    }
  }
}

void Chooser::Memory::share_in_place() {
  std::vector<size_t> given;  // an input's memory is given to one output only
  for (size_t s = 0; s < steps.size(); ++s) {
    const Node& node = chooser.graph_.node(steps[s].node);
    if (chooser.views_[steps[s].node] || !node.op->traits.in_place) continue;
    given.clear();
    for (size_t o = 0; o < node.outputs.size(); ++o) overwrite_an_input(s, o, given);
  }
}

void Chooser::Memory::overwrite_an_input(size_t step, size_t output, std::vector<size_t>& given) {
  const Node& node = chooser.graph_.node(steps[step].node);
  const Value& made = chooser.graph_.value(node.outputs[output]);
  const size_t own = place(node.outputs[output], steps[step].again);
  if (chooser.bytes_[node.outputs[output]] == 0) return;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].present() || !may_overwrite(node, output, i)) continue;
    const Value& from = chooser.graph_.value(node.inputs[i]);
    const size_t other = merged[read(steps[step], node.inputs[i])];
    if (from.dtype != made.dtype || from.shape != made.shape || chooser.bytes_[chooser.root_[node.inputs[i]]] == 0 ||
        first[other] < 0 || last[other] != static_cast<int>(step) || std::ranges::find(given, other) != given.end())
      continue;
    last[other] = last[own];
    merged[own] = other;
    given.push_back(other);
    return;
  }
}

// At the step that holds the most.
int64_t Chooser::Memory::most() const {
  std::vector<int64_t> change(steps.size() + 1);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] < 0 || merged[i] != i) continue;
    const int64_t bytes = chooser.bytes_[ValueId{static_cast<int32_t>(i % values())}];
    change[static_cast<size_t>(first[i])] += bytes;
    change[static_cast<size_t>(last[i]) + 1] -= bytes;
  }
  int64_t now = 0, most = 0;
  for (const int64_t each : change) {
    now += each;
    most = std::max(most, now);
  }
  return most;
}

Outcome Chooser::outcome(const NodeMap<bool>& kept) const {
  Memory memory(*this, kept);
  memory.find_lifetimes();
  memory.share_in_place();
  Outcome out{.bytes = memory.most()};
  for (const Step& step : memory.steps) {
    if (step.again) out.work += work_[step.node];
  }
  return out;
}

// Views are where the value is whose memory they have.
void Chooser::settle_views(NodeMap<bool>& kept) const {
  for (const NodeId id : forward_order_) {
    if (!views_[id]) continue;
    const NodeId producer = graph_.value(graph_.node(id).inputs[0]).producer;
    kept[id] = !producer.present() || kept[producer];
  }
}

// Keeps what nodes after the `cut`-th of the forward half read of those up to there.
void Chooser::keep_crossing(NodeMap<bool>& kept, size_t cut) const {
  for (size_t i = 0; i <= cut; ++i) {
    const NodeId id = forward_order_[i];
    if (kept[id] || views_[id]) continue;
    kept[id] =
        std::ranges::any_of(graph_.node(id).outputs, [&](ValueId v) { return last_read_[v] > static_cast<int>(cut); });
  }
}

// Keeps what costs more than `limit` operations for each byte, and what crosses cuts, which are where the values that
// are not kept since the last cut reach `length` bytes, or up to half of that before, where the least crosses.
NodeMap<bool> Chooser::segments(double limit, int64_t length) const {
  NodeMap<bool> kept = all_;
  for (const NodeId id : forward_order_) {
    kept[id] = once_[id] || work_[id] > limit * static_cast<double>(node_bytes_[id]);
  }
  // What is not kept and crosses behind each node.
  std::vector<int64_t> crossing(forward_order_.size() + 1);
  for (size_t i = 0; i < forward_order_.size(); ++i) {
    if (kept[forward_order_[i]] || views_[forward_order_[i]]) continue;
    for (const ValueId output : graph_.node(forward_order_[i]).outputs) {
      if (last_read_[output] <= static_cast<int>(i)) continue;
      crossing[i] += bytes_[output];
      crossing[static_cast<size_t>(last_read_[output])] -= bytes_[output];
    }
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  int64_t since = 0, since_best = 0;
  const size_t none = forward_order_.size();
  size_t best = none;
  std::vector<size_t> cuts;
  for (size_t i = 0; i < forward_order_.size(); ++i) {
    const NodeId id = forward_order_[i];
    if (!kept[id]) since += node_bytes_[id];
    if (since < length / 2) continue;
    if (best == none || crossing[i] <= crossing[best]) best = i, since_best = since;
    if (since < length) continue;
    cuts.push_back(best);
    since -= since_best;
    best = none;
  }
  for (const size_t cut : cuts) keep_crossing(kept, cut);
  settle_views(kept);
  return kept;
}

// Keeps one node's values after the other, where that saves work and fits.
void Chooser::improve(Choice& choice, int64_t bytes) const {
  std::vector<NodeId> candidates;
  for (const Step& step : steps(choice.kept)) {
    if (step.again && !views_[step.node]) candidates.push_back(step.node);
  }
  std::ranges::stable_sort(candidates, [&](NodeId a, NodeId b) { return work_[a] > work_[b]; });
  for (const NodeId id : candidates) {
    NodeMap<bool> kept = choice.kept;
    kept[id] = true;
    settle_views(kept);
    const Outcome outcome = this->outcome(kept);
    if (outcome.bytes > bytes || outcome.work >= choice.outcome.work) continue;
    choice = {std::move(kept), outcome};
  }
}

NodeMap<bool> Chooser::choose(int64_t bytes) const {
  constexpr size_t kLimits = 24, kLengths = 20, kImproved = 4;
  std::vector<Choice> fitting;
  Choice smallest{all_, outcome(all_)};
  if (smallest.outcome.bytes <= bytes) return all_;
  std::vector<double> costs;
  for (const NodeId id : forward_order_) {
    if (node_bytes_[id] > 0) costs.push_back(work_[id] / static_cast<double>(node_bytes_[id]));
  }
  std::ranges::sort(costs);
  costs.erase(std::unique(costs.begin(), costs.end()), costs.end());
  const auto try_choice = [&](NodeMap<bool> kept) {
    Choice choice{std::move(kept), {}};
    choice.outcome = outcome(choice.kept);
    if (choice.outcome.bytes < smallest.outcome.bytes) smallest = choice;
    if (choice.outcome.bytes <= bytes) fitting.push_back(std::move(choice));
  };
  for (size_t l = 0; l <= kLimits && !costs.empty(); ++l) {
    const double limit = costs[l * (costs.size() - 1) / kLimits];
    double length = static_cast<double>(2 * forward_bytes_);
    for (size_t i = 0; i < kLengths; ++i, length /= 1.5) try_choice(segments(limit, static_cast<int64_t>(length)));
  }
  if (fitting.empty()) return smallest.kept;
  std::ranges::stable_sort(fitting, {}, [](const Choice& choice) { return choice.outcome.work; });
  fitting.resize(std::min(fitting.size(), kImproved));
  for (Choice& choice : fitting) improve(choice, bytes);
  return std::ranges::min_element(fitting, {}, [](const Choice& choice) { return choice.outcome.work; })->kept;
}

}  // namespace

Recomputation recompute(Graph& graph, int64_t bytes) {
  const Chooser chooser(graph);
  const NodeMap<bool> kept = chooser.choose(bytes);
  const Outcome outcome = chooser.outcome(kept);
  Recomputation out{.bytes = outcome.bytes, .share = outcome.work / std::max(1.0, chooser.total_work())};
  const std::vector<Step> steps = chooser.steps(kept);
  if (std::ranges::none_of(steps, &Step::again)) return out;
  // All nodes are added anew, as their order is that in which they run.
  ValueMap<ValueId> first(graph.value_count()), again(graph.value_count());
  const auto moved = [&](ValueId id) { return first[id].present() ? first[id] : id; };
  for (const Step& step : steps) {
    const Node node = graph.node(step.node);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (!input.present()) inputs.push_back(input);
      else inputs.push_back(chooser.reads_again(step, input, kept) ? again[input] : moved(input));
    }
    const std::string name = step.again && !node.name.empty() ? node.name + "/again" : node.name;
    const NodeId made =
        graph.add_node(*node.op, std::move(inputs), node.attrs, static_cast<int>(node.outputs.size()), name);
    out.nodes += step.again && !chooser.is_view(step.node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId to = graph.node(made).outputs[i];
      (step.again ? again : first)[node.outputs[i]] = to;
      Value value = graph.value(node.outputs[i]);
      if (step.again) value.name.clear();
      value.producer = made;
      graph.value(to) = std::move(value);
    }
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    graph.set_output(static_cast<int>(i), moved(graph.outputs()[i].value));
  const std::vector<State> states = graph.states();
  for (const State& state : states) graph.set_next(state.value, moved(state.next));
  graph.compact();
  return out;
}

}  // namespace sparkpilot
