#include "ops/cpu/composed.h"

#include <algorithm>

#include "base/error.h"
#include "ir/id_map.h"
#include "ir/launch.h"

namespace sparkpilot {
namespace {

// Where an operand of a part is.
struct Operand {
  // A constant is one of the node's inputs, or (`at` is -1) made by the expansion.
  enum Kind : uint8_t { absent, constant, input, output, workspace } kind = absent;
  int64_t at = -1;  // index of the node's input or output, or offset in the workspace
};

struct Part {
  NodeId node;
  Launch launch;
  std::vector<Operand> from, to;
  std::vector<ConstView> in;
  std::vector<View> out;
};

struct Composed : KernelState {
  Graph graph;
  std::vector<Part> parts;
  ValueMap<Operand> place;

  void build(const Problem& p, ExpandFn expand);
  void place_values();
  void prepare_part(NodeId id);
  void release_packed();
};

constexpr int64_t aligned(int64_t bytes) {
  constexpr int64_t unit = kAlignment;
  return (bytes + unit - 1) / unit * unit;
}

// The node's inputs and the parts, as a graph.
void Composed::build(const Problem& p, ExpandFn expand) {
  Node local = *p.node;
  local.inputs.clear();
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    if (!p.has(i)) local.inputs.emplace_back();
    else if (p.is_constant(i)) local.inputs.push_back(graph.add_constant(p.constants[i]));
    else local.inputs.push_back(graph.add_input(fmt::format("x{}", i), p.inputs[i].dtype, p.inputs[i].shape));
  }
  Builder builder(graph, p.node->name);
  ExpandContext context{builder, local};
  const std::vector<ValueId> outputs = expand(context);
  place = ValueMap<Operand>(graph.value_count());
  for (size_t i = 0; i < local.inputs.size(); ++i) {
    if (p.has(i))
      place[local.inputs[i]] = {p.is_constant(i) ? Operand::constant : Operand::input, static_cast<int64_t>(i)};
  }
  for (size_t i = 0; i < outputs.size(); ++i) place[outputs[i]] = {Operand::output, static_cast<int64_t>(i)};
}

void Composed::prepare_part(NodeId id) {
  const NodeProblem types(graph, id);
  Part part{.node = id,
            .launch = sparkpilot::launch(graph, id, types.problem(), KernelChoice()),
            .from = {},
            .to = {},
            .in = {},
            .out = {}};
  const Node& node = graph.node(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId value = node.inputs[i];
    const TensorType& type = types.inputs()[i];
    if (value.present() && graph.constant(value)) place[value].kind = Operand::constant;
    part.from.push_back(value.present() ? place[value] : Operand{});
    part.in.push_back({type.dtype, type.shape, nullptr});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& type = types.outputs()[i];
    part.to.push_back(place[node.outputs[i]]);
    part.out.push_back({type.dtype, type.shape, nullptr});
  }
  if (const KernelState* state = part.launch.state.get()) {
    on_cpu.loses_nan |= state->on_cpu.loses_nan;
    on_cpu.for_threads |= state->on_cpu.for_threads;
  }
  parts.push_back(std::move(part));
}

// Intermediate values follow the scratch memory of the parts, each in memory of its own.
void Composed::place_values() {
  for (const Part& part : parts) workspace = std::max(workspace, part.launch.state ? part.launch.state->workspace : 0);
  for (Part& part : parts) {
    for (size_t i = 0; i < part.to.size(); ++i) {
      const ValueId value = graph.node(part.node).outputs[i];
      if (place[value].kind != Operand::absent) continue;
      workspace = aligned(workspace);
      place[value] = part.to[i] = {Operand::workspace, workspace};
      workspace += part.out[i].bytes() + static_cast<int64_t>(kAlignment);  // kernels may read beyond the end
    }
    for (size_t i = 0; i < part.from.size(); ++i) {
      if (part.from[i].kind == Operand::absent && graph.node(part.node).inputs[i].present())
        part.from[i] = place[graph.node(part.node).inputs[i]];
    }
  }
}

// Frees constants that every part has packed, and tells the caller; the parts read the others here.
void Composed::release_packed() {
  ValueMap<bool> is_read(graph.value_count());
  for (Part& part : parts) {
    const std::vector<ValueId>& inputs = graph.node(part.node).inputs;
    const uint64_t packed = part.launch.state ? part.launch.state->consumed : 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (part.from[i].kind != Operand::constant || (i < 64 && (packed >> i & 1) != 0)) continue;
      is_read[inputs[i]] = true;
      part.in[i].data = graph.constant(inputs[i])->raw();
    }
  }
  for (int i = 0; i < graph.value_count(); ++i) {
    const ValueId value{i};
    if (!graph.constant(value) || is_read[value]) continue;
    graph.value(value).constant = Tensor();
    if (place[value].at >= 0 && place[value].at < 64) consumed |= uint64_t{1} << place[value].at;
  }
}

}  // namespace

std::unique_ptr<KernelState> prepare_composed(const Problem& p, ExpandFn parts) {
  auto state = std::make_unique<Composed>();
  state->build(p, parts);
  for (const NodeId id : state->graph.order()) state->prepare_part(id);
  state->place_values();
  state->release_packed();
  return state;
}

void run_composed(const Call& call) {
  auto& state = call.as<Composed>();
  for (Part& part : state.parts) {
    for (size_t i = 0; i < part.in.size(); ++i) {
      const Operand& operand = part.from[i];
      if (operand.kind == Operand::input) part.in[i].data = call.inputs[static_cast<size_t>(operand.at)].data;
      if (operand.kind == Operand::workspace) part.in[i].data = call.workspace + operand.at;
    }
    for (size_t i = 0; i < part.out.size(); ++i) {
      const Operand& operand = part.to[i];
      part.out[i].data = operand.kind == Operand::output ? call.outputs[static_cast<size_t>(operand.at)].data
                                                         : call.workspace + operand.at;
    }
    part.launch.kernel->run({.node = &state.graph.node(part.node),
                             .inputs = part.in,
                             .outputs = part.out,
                             .workspace = call.workspace,
                             .state = part.launch.state.get(),
                             .bodies = {},
                             .not_finite = call.not_finite});
  }
}

}  // namespace sparkpilot
