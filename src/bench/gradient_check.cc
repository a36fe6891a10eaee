#include "bench/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "grad/differentiate.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace {

constexpr std::string_view kNotFinite = "the loss is not finite";

// A case may lie on a kink, or as close to one as two numbers of a short type that are equal: moved a little, and by
// more where the type is short.
Tensor off_kinks(const Tensor& from, Random& random) {
  const double most = bits(from.dtype()) < 32 ? 4e-3 : 2e-4;
  Tensor out = convert(from, DType::f64);
  for (double& x : out.data<double>()) x += random.uniform(1e-4, most);
  return out;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.elements(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

Tensor random_of(const Shape& shape, Random& random) {
  Tensor out = Tensor::zeros(DType::f64, shape);
  for (double& x : out.data<double>()) x = random.uniform(-1, 1);
  return out;
}

Tensor moved(const Tensor& from, const Tensor& along, double step) {
  Tensor out = from.clone();
  for (int64_t i = 0; i < out.elements(); ++i) out.data<double>()[i] += step * along.data<double>()[i];
  return out;
}

// A case with its floats in f64, and its loss.
struct Trial {
  Graph graph;
  std::vector<Tensor> inputs;    // of the graph: the case's floats
  std::vector<ValueId> wrt;      // those inputs
  std::vector<int> case_inputs;  // which of the case's inputs they are
  ValueId loss;                  // absent if no output is f64
};

// Adds the case's node; the nodes that it is written as where it has no kernels, or none for these types.
std::vector<ValueId> outputs_of(Builder& b, const OpDef& op, const OpCase& op_case,
                                const std::vector<ValueId>& inputs) {
  Graph& graph = b.graph();
  const NodeId id = graph.add_node(op, inputs, op_case.attrs, op_case.outputs, op_case.name);
  const Node node = graph.node(id);
  try {
    if (op.infer) {
      infer_node(graph, id);
      return node.outputs;
    }
  } catch (const Error&) {
    if (!op.expand) throw;
  }
  graph.erase(id);
  ExpandContext context{.b = b, .node = node};
  return op.expand(context);
}

Trial trial_of(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors, Random& random) {
  Trial out;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const bool real = tensor.present() && is_float(tensor.dtype());
    if (!tensor.present()) {
      inputs.emplace_back();
    } else if (!real || op_case.inputs[i].fill == CaseInput::given) {
      inputs.push_back(out.graph.add_constant(real ? convert(tensor, DType::f64) : tensor));
    } else {
      inputs.push_back(out.graph.add_input(fmt::format("x{}", i), DType::f64, tensor.shape()));
      out.inputs.push_back(off_kinks(tensor, random));
      out.wrt.push_back(inputs.back());
      out.case_inputs.push_back(static_cast<int>(i));
    }
  }
  Builder b(out.graph);
  for (const ValueId output : outputs_of(b, op, op_case, inputs)) {
    if (!output.present() || b.dtype(output) != DType::f64) continue;
    const Tensor weights = random_of(b.shape(output), random);
    const ValueId sum = b.add("ReduceSum", {b.add("Mul", {output, b.constant(weights)})}, {{"keepdims", int64_t{0}}});
    out.loss = out.loss.present() ? b.add("Add", {out.loss, sum}) : sum;
  }
  return out;
}

// Whether the case has any float results in its own types.
bool gives_floats(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (const Tensor& tensor : tensors) inputs.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
  Builder b(graph);
  return std::ranges::any_of(outputs_of(b, op, op_case, inputs),
                             [&](ValueId id) { return id.present() && is_float(b.dtype(id)); });
}

// Compares one input's gradient along a direction; keeps the worst in `result`. False if a kink is so near that the
// differences say nothing.
bool compare(const Trial& t, size_t input, const std::vector<Tensor>& at, Random& random, CheckResult& result) {
  constexpr double kRounding = 2e-6, kKink = 1e-3, kStep = 1e-6;
  const Tensor &x = t.inputs[input], &gradient = at[input + 1];
  if (!(gradient.shape() == x.shape()) || gradient.dtype() != DType::f64) {
    result.message = fmt::format("input {}: the gradient is {}{}, the input f64{}", t.case_inputs[input],
                                 name(gradient.dtype()), gradient.shape().str(), x.shape().str());
    return true;
  }
  const Tensor along = random_of(x.shape(), random);
  const auto loss = [&](double step) {
    std::vector<Tensor> inputs = t.inputs;
    inputs[input] = moved(x, along, step);
    return interpret(t.graph, inputs, nullptr, "reference")[0].data<double>()[0];
  };
  const double before = loss(-kStep), here = at[0].data<double>()[0], after = loss(kStep);
  const double size = std::sqrt(dot(gradient, gradient)) + std::abs(here) * 1e-3 + 1e-3;
  const double expected = (after - before) / (2 * kStep), got = dot(gradient, along);
  const double rough = (loss(2 * kStep) - loss(-2 * kStep)) / (4 * kStep);
  const double doubt = std::abs(rough - expected) / size, bend = std::abs(after + before - 2 * here) / kStep / size;
  if (!(doubt <= kKink) || !(bend <= kKink)) return false;
  const double error = std::abs(got - expected) / size, tolerance = kRounding + doubt;
  if (result.tolerance == 0 || error / tolerance > result.error / result.tolerance) {
    result.error = error;
    result.tolerance = tolerance;
  }
  if (!(error <= tolerance)) {
    result.message = fmt::format("input {}: along a direction the loss changes by {:.9g}, the gradient says {:.9g}",
                                 t.case_inputs[input], expected, got);
  }
  return true;
}

// Empty: a kink is too near at this seed.
std::optional<CheckResult> try_seed(const OpDef& op, const OpCase& op_case, uint64_t seed) {
  CheckResult result{.op = qualified(op),
                     .case_name = op_case.name,
                     .kernel = op.grad ? "gradient" : "expansion",
                     .outcome = CheckResult::skipped,
                     .message = {}};
  const auto skipped = [&](std::string why) {
    result.message = std::move(why);
    return result;
  };
  const std::vector<Tensor> tensors = case_inputs(op_case, seed);
  Random random(seed);
  try {
    if (!gives_floats(op, op_case, tensors)) return skipped("no float results");
    Trial t;
    try {
      t = trial_of(op, op_case, tensors, random);
    } catch (const Error& refused) {
      if (op.domain.empty() || op.grad) throw;
      return skipped(fmt::format("not in f64: {}", refused.what()));
    }
    if (t.wrt.empty()) return skipped("no float inputs");
    if (!t.loss.present()) return skipped("no results in f64");
    std::vector<ValueId> gradients;
    try {
      gradients = differentiate(t.graph, t.loss, t.wrt);
    } catch (const Error& refused) {
      if (refused.kind() != ErrorKind::user) throw;
      return skipped(refused.what());
    }
    t.graph.add_output(t.loss, "loss");
    for (const ValueId gradient : gradients) t.graph.add_output(gradient, "");
    const std::vector<Tensor> at = interpret(t.graph, t.inputs, nullptr, "reference");
    if (!std::isfinite(at[0].data<double>()[0])) return skipped(std::string(kNotFinite));
    result.outcome = CheckResult::passed;
    // The gradients are not needed for the differences.
    t.graph.replace_outputs({t.graph.outputs()[0]});
    t.graph.compact();
    for (size_t i = 0; i < t.inputs.size(); ++i) {
      for (int direction = 0; direction < 2 && result.message.empty(); ++direction) {
        if (!compare(t, i, at, random, result)) return std::nullopt;
      }
    }
  } catch (const Error& error) {
    result.message = error.what();
  }
  if (!result.message.empty()) result.outcome = CheckResult::failed;
  return result;
}

}  // namespace

CheckResult check_gradient(const OpDef& op, const OpCase& op_case, uint64_t seed) {
  constexpr uint64_t kSeeds = 5;
  CheckResult result{.op = qualified(op),
                     .case_name = op_case.name,
                     .kernel = "gradient",
                     .outcome = CheckResult::skipped,
                     .message = {}};
  if (!op_case.differentiable) {
    result.message = "the case is not differentiable";
    return result;
  }
  result.message = fmt::format("a kink near every one of {} random places: is the case differentiable?", kSeeds);
  result.outcome = CheckResult::failed;
  for (uint64_t i = 0; i < kSeeds; ++i) {
    const std::optional<CheckResult> tried = try_seed(op, op_case, seed + i);
    if (!tried) continue;
    result = *tried;
    if (result.message != kNotFinite) break;  // else a place outside of what the op is defined for
  }
  return result;
}

std::vector<CheckResult> check_gradients(const OpDef& op, uint64_t seed) {
  std::vector<CheckResult> results;
  for (const OpCase& op_case : op.cases ? op.cases() : std::vector<OpCase>{}) {
    results.push_back(check_gradient(op, op_case, seed));
  }
  return results;
}

}  // namespace sparkpilot
