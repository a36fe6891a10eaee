#include "ir/launch.h"

#include "base/error.h"
#include "hw/cpu.h"

namespace sparkpilot {

std::string_view name(Device device) { return device == Device::cpu ? "CPU" : "GPU"; }

NodeProblem::NodeProblem(const Graph& graph, NodeId id, uint64_t variable) : node_(&graph.node(id)) {
  for (size_t i = 0; i < node_->inputs.size(); ++i) {
    const ValueId input = node_->inputs[i];
    const Tensor* constant = i < 64 && (variable >> i & 1) ? nullptr : graph.constant(input);
    constants_.push_back(constant ? *constant : Tensor());
    if (input.present()) inputs_.push_back({graph.value(input).dtype, *graph.value(input).shape, true});
    else inputs_.push_back({});
  }
  for (const ValueId output : node_->outputs) {
    const Value& v = graph.value(output);
    outputs_.push_back({v.dtype, v.shape.value_or(Shape{}), v.shape.has_value()});
  }
}

Launch launch(const Graph& graph, NodeId id, const Problem& problem, const KernelChoice& choice, Device device) {
  require_processor(cpu_features());
  KernelChoice::Taken taken = choice.take(problem, device);
  if (!taken.kernel) {
    std::string types, reason;
    for (const TensorType& type : problem.inputs) {
      if (type.dtype != DType::none) types += fmt::format(" {}{}", name(type.dtype), type.shape.str());
    }
    for (const DeclinedKernel& declined : taken.declined) {
      if (!declined.reason.empty()) reason = declined.reason;
    }
    throw NoKernel(
        fmt::format("{}: no kernel for the {} takes inputs{}{}{} (node \"{}\")", qualified(*problem.node->op),
                    name(device), types, reason.empty() ? "" : ": ", reason, graph.label(id)),
        reason);
  }
  Launch out{.kernel = taken.kernel,
             .decision = std::move(taken.decision),
             .declined = std::move(taken.declined),
             .state = nullptr};
  try {
    if (out.kernel->prepare) out.state = out.kernel->prepare(problem);
    if (!taken.variant.empty()) out.kernel->take_variant(problem, taken.variant, *out.state);
  } catch (const Error& error) {
    fail_at(graph, id, error);
  }
  return out;
}

void fail_at(const Graph& graph, NodeId id, const Error& error) {
  throw Error(error.kind(),
              fmt::format("{}: {} (node \"{}\")", graph.node(id).op->name, error.what(), graph.label(id)));
}

}  // namespace sparkpilot
