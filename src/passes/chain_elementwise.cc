// Makes elementwise ops that follow one another one node, whose intermediate values are never stored: one launch on a
// GPU, one pass over memory on a CPU.
#include <algorithm>

#include "ir/elementwise_chain.h"
#include "ir/id_map.h"
#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

// How a node's output is computed from values in memory; the first operand is where x begins.
struct Chain {
  std::vector<ValueId> operands;
  std::vector<ChainStep> steps;
  int nodes = 0;
  bool keeps = false;

  bool present() const { return nodes > 0; }
  bool fits() const { return operands.size() <= kMostChainInputs && steps.size() <= kMostChainSteps; }
  int operand(ValueId value) {
    const auto found = std::ranges::find(operands, value);
    if (found != operands.end()) return static_cast<int>(found - operands.begin());
    operands.push_back(value);
    return static_cast<int>(operands.size()) - 1;
  }
  void keep() {
    steps.push_back({ChainStep::keep, "Keep"});
    keeps = true;
  }
};

class Chains {
 public:
  explicit Chains(Graph& graph) : edit_(graph), graph_(graph) {}

  int run() {
    const std::vector<NodeId> order = graph_.order();
    chains_ = NodeMap<Chain>(graph_.node_count());
    inside_ = NodeMap<bool>(graph_.node_count());
    for (const NodeId id : order) {
      if (can_be_in_a_chain(id)) chains_[id] = chain_of(id);
    }
    int changes = 0;
    // Backwards: where a chain reads what another makes, that is then replaced in it.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      // A comparison whose Where had no room stays, with what is before it.
      if (inside_[*id] || chains_[*id].nodes < 2 || step_of(*id)->kind == ChainStep::comparison) continue;
      write(*id);
      ++changes;
    }
    if (changes) graph_.compact();
    return changes;
  }

 private:
  static bool is_number(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

  const ChainStep* step_of(NodeId id) const {
    const Node& node = edit_.node(id);
    if (!node.op->domain.empty() || node.outputs.size() != 1) return nullptr;
    const ChainStep* const step = chain_step(node.op->name);
    if (!step) return nullptr;
    const size_t inputs = step->kind == ChainStep::one ? 1 : step->kind == ChainStep::where ? 3 : 2;
    return node.inputs.size() == inputs ? step : nullptr;
  }

  // Whether the chain of the reader may go on from the node's output: nothing else reads it, and it is as large.
  bool goes_on(ValueId value, NodeId reader) {
    return edit_.only_reader(value) == reader && edit_.shape(value) == edit_.shape(edit_.node(reader).outputs[0]);
  }

  bool can_be_in_a_chain(NodeId id) {
    const ChainStep* const step = step_of(id);
    if (!step) return false;
    const Node& node = edit_.node(id);
    const ValueId y = node.outputs[0];
    if (!edit_.known(y) || edit_.shape(y).elements() == 0 || edit_.shape(y).rank() > kMostChainRank) return false;
    const size_t first = step->kind == ChainStep::where ? 1 : 0;
    const DType dtype = edit_.known(node.inputs[first]) ? edit_.dtype(node.inputs[first]) : DType::none;
    if (!is_number(dtype)) return false;
    for (size_t i = first; i < node.inputs.size(); ++i) {
      if (!edit_.known(node.inputs[i]) || edit_.dtype(node.inputs[i]) != dtype) return false;
    }
    if (step->kind != ChainStep::comparison) return true;
    // What it gives is no number: the chain goes on with the Where that reads it, and nothing else does.
    const NodeId reader = edit_.only_reader(y);
    const ChainStep* const next = reader.present() ? step_of(reader) : nullptr;
    return next && next->kind == ChainStep::where && edit_.node(reader).inputs[0] == y &&
           edit_.readers(y).size() == 1 && can_be_in_a_chain(reader) && goes_on(y, reader) &&
           edit_.dtype(edit_.node(reader).outputs[0]) == dtype;
  }

  // The chain that makes the value, if the node's may go on from it.
  const Chain* before(ValueId value, NodeId reader) {
    const NodeId maker = edit_.maker(value);
    return maker.present() && chains_[maker].present() && goes_on(value, reader) ? &chains_[maker] : nullptr;
  }
  void take(ValueId value) { inside_[edit_.maker(value)] = true; }

  // `chain` then keeps its value and goes on with `other`; false if there is no room.
  bool keep_and_go_on(Chain& chain, const Chain& other) {
    if (other.keeps || !is_number(edit_.dtype(other.operands[0]))) return false;
    Chain both = chain;
    both.keep();
    both.steps.push_back({ChainStep::load, "Load", both.operand(other.operands[0])});
    for (ChainStep step : other.steps) {
      if (step.kind != ChainStep::one) step.first = both.operand(other.operands[static_cast<size_t>(step.first)]);
      if (step.kind == ChainStep::where) step.second = both.operand(other.operands[static_cast<size_t>(step.second)]);
      both.steps.push_back(step);
    }
    both.nodes += other.nodes;
    if (!both.fits()) return false;
    chain = std::move(both);
    return true;
  }

  Chain chain_of(NodeId id) {
    const std::vector<ValueId>& inputs = edit_.node(id).inputs;
    const ChainStep step = *step_of(id);
    Chain chain = step.kind == ChainStep::where ? where_of(id, inputs, step)
                  : inputs.size() == 2          ? of_two(id, inputs, step)
                                                : of_one(id, inputs[0], step);
    chain.nodes += 1;
    return chain;
  }

  // The chain that x comes from, or x alone.
  Chain begin(NodeId id, ValueId x) {
    const Chain* const chain = before(x, id);
    if (!chain || chain->steps.size() + 3 > kMostChainSteps || chain->operands.size() + 2 > kMostChainInputs)
      return {{x}, {}};
    take(x);
    return *chain;
  }

  // Whether it jumps: what is nearly equal in f32, and equal in 16 bits, gives another result then. It reads what was
  // stored.
  bool reads_rounded(const ChainStep& step, ValueId x) const {
    return edit_.dtype(x) != DType::f32 && (step.kind == ChainStep::comparison || step.op == "Sign");
  }

  Chain of_one(NodeId id, ValueId x, ChainStep step) {
    Chain chain = reads_rounded(step, x) ? Chain{{x}, {}} : begin(id, x);
    chain.steps.push_back(step);
    return chain;
  }

  Chain of_two(NodeId id, const std::vector<ValueId>& inputs, ChainStep step) {
    ValueId x = inputs[0], y = inputs[1];
    if (reads_rounded(step, x)) {
      Chain chain{{x}, {}};
      step.first = chain.operand(y);
      chain.steps.push_back(step);
      return chain;
    }
    const Chain *const left = before(x, id), *const right = before(y, id);
    if (left && right && x != y) {
      // What is kept is the second operand.
      const bool turned = !right->keeps;
      Chain chain = turned ? *left : *right;
      if (keep_and_go_on(chain, turned ? *right : *left) && chain.steps.size() < kMostChainSteps) {
        take(x), take(y);
        step.first = ChainStep::kKept;
        step.reversed = turned;
        chain.steps.push_back(step);
        return chain;
      }
    }
    if (!left && right) {
      std::swap(x, y);
      step.reversed = true;
    }
    Chain chain = begin(id, x);
    if (x == y && !chain.steps.empty()) {
      chain.keep();
      step.first = ChainStep::kKept;
    } else {
      step.first = chain.operand(y);
    }
    chain.steps.push_back(step);
    return chain;
  }

  Chain where_of(NodeId id, const std::vector<ValueId>& inputs, ChainStep step) {
    const Chain* const condition = before(inputs[0], id);
    for (const size_t i : {size_t{1}, size_t{2}}) {
      const Chain* const value = inputs[1] == inputs[2] ? nullptr : before(inputs[i], id);
      if (!condition || !value) continue;
      Chain chain = *value;
      if (!keep_and_go_on(chain, *condition)) continue;
      const int other = chain.operand(inputs[3 - i]);
      step.first = i == 1 ? ChainStep::kKept : other;
      step.second = i == 1 ? other : ChainStep::kKept;
      chain.steps.push_back(step);
      if (!chain.fits()) continue;
      take(inputs[0]), take(inputs[i]);
      return chain;
    }
    Chain chain = begin(id, inputs[0]);
    step.first = chain.operand(inputs[1]);
    step.second = chain.operand(inputs[2]);
    chain.steps.push_back(step);
    return chain;
  }

  void write(NodeId id) {
    const Chain& chain = chains_[id];
    std::vector<std::string> steps;
    for (const ChainStep& step : chain.steps) steps.push_back(to_text(step));
    const ValueId y = edit_.node(id).outputs[0];
    edit_.replace(y, edit_.make(id, "sparkpilot::ElementwiseChain", chain.operands, {{"steps", steps}}));
  }

  Edit edit_;
  Graph& graph_;
  NodeMap<Chain> chains_;
  NodeMap<bool> inside_;  // another node's chain computes it
};

}  // namespace

int chain_elementwise(Graph& graph) { return Chains(graph).run(); }

}  // namespace sparkpilot
