#include "ops/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ir/launch.h"
#include "tensor/difference.h"

namespace sparkpilot {
namespace {

Tensor fill(const CaseInput& input, Random& random) {
  if (input.fill == CaseInput::absent) return {};
  if (input.fill == CaseInput::given) return input.tensor;
  Tensor out = Tensor::zeros(input.dtype, input.shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    double value = 0;
    if (input.fill == CaseInput::normal) value = random.normal();
    else if (input.fill == CaseInput::uniform) value = random.uniform(input.low, input.high);
    else value = static_cast<double>(random.integer(static_cast<int64_t>(input.low), static_cast<int64_t>(input.high)));
    store_element(input.dtype, out.raw(), i, value);
  }
  return out;
}

std::string compare(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, CheckResult& result,
                    double fixed) {
  if (got.size() != expected.size()) return "another number of outputs";
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype() != expected[i].dtype() || !(got[i].shape() == expected[i].shape())) {
      return fmt::format("output {} is {}{}, the reference gives {}{}", i, name(got[i].dtype()), got[i].shape().str(),
                         name(expected[i].dtype()), expected[i].shape().str());
    }
    const double tolerance = fixed > 0 ? fixed : default_tolerance(expected[i].dtype());
    const double error = relative_l2(got[i], expected[i]);
    if (error >= result.error) result.error = error;
    result.tolerance = tolerance;
    if (!(error <= tolerance)) return fmt::format("output {} differs by {:.3g}, allowed {:.3g}", i, error, tolerance);
  }
  return {};
}

// Compares an expansion with the kernels. An expansion rounds to the dtype after every node, so its tolerance is
// larger.
CheckResult check_expansion(const OpDef& op, const OpCase& op_case, std::span<const Tensor> inputs,
                            const std::vector<Tensor>& expected) {
  constexpr double kRoom = 4;
  CheckResult result{.op = qualified(op), .case_name = op_case.name, .kernel = "expansion", .message = {}};
  try {
    std::vector<Tensor> got = interpret_expansion(case_node(op, op_case), inputs, "reference");
    got.resize(std::min(got.size(), expected.size()));
    const DType dtype = expected.empty() ? DType::f32 : expected[0].dtype();
    result.message = compare(got, expected, result, kRoom * std::max(op_case.tolerance, default_tolerance(dtype)));
  } catch (const Error& error) {
    result.message = error.what();
  }
  result.outcome = result.message.empty() ? CheckResult::passed : CheckResult::failed;
  return result;
}

}  // namespace

double default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 2e-6;
    case DType::f16: return 1e-3;
    case DType::bf16: return 8e-3;
    default: return 0;
  }
}

double relative_l2(const Tensor& got, const Tensor& expected) {
  return difference_of(got.view(), expected.view()).relative_l2;
}

Node case_node(const OpDef& op, const OpCase& op_case) {
  Node node{.op = &op, .name = op_case.name, .inputs = {}, .outputs = {}, .attrs = op_case.attrs};
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const bool there = op_case.inputs[i].fill != CaseInput::absent;
    node.inputs.push_back(there ? ValueId{static_cast<int32_t>(i)} : ValueId{});
  }
  for (int i = 0; i < op_case.outputs; ++i) node.outputs.push_back(ValueId{i});
  return node;
}

Graph case_graph(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].present()) inputs.emplace_back();
    else if (op_case.inputs[i].constant) inputs.push_back(graph.add_constant(tensors[i]));
    else inputs.push_back(graph.add_input(fmt::format("x{}", i), tensors[i].dtype(), tensors[i].shape()));
  }
  const NodeId node = graph.add_node(op, std::move(inputs), op_case.attrs, op_case.outputs, op_case.name);
  for (size_t i = 0; i < graph.node(node).outputs.size(); ++i) {
    graph.add_output(graph.node(node).outputs[i], fmt::format("y{}", i));
  }
  return graph;
}

uint64_t variable_inputs(const OpCase& op_case) {
  uint64_t bits = 0;
  for (size_t i = 0; i < op_case.inputs.size() && i < 64; ++i) {
    if (!op_case.inputs[i].constant) bits |= uint64_t{1} << i;
  }
  return bits;
}

std::vector<Tensor> case_inputs(const OpCase& op_case, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor> inputs;
  for (const CaseInput& input : op_case.inputs) inputs.push_back(fill(input, random));
  return inputs;
}

namespace {

// For an op that has only an expansion: compares the kernels that a plan would use for it with their references.
CheckResult check_expanded_only(const OpDef& op, const OpCase& op_case, uint64_t seed) {
  CheckResult result{.op = qualified(op), .case_name = op_case.name, .kernel = "expansion", .message = {}};
  try {
    const Node node = case_node(op, op_case);
    const std::vector<Tensor> inputs = case_inputs(op_case, seed);
    const ThreadScope two(2);
    result.message = compare(interpret_expansion(node, inputs), interpret_expansion(node, inputs, "reference"), result,
                             op_case.tolerance);
  } catch (const Error& error) {
    result.message = error.what();
  }
  result.outcome = result.message.empty() ? CheckResult::passed : CheckResult::failed;
  return result;
}

}  // namespace

std::vector<CheckResult> check_case(const OpDef& op, const OpCase& op_case, uint64_t seed) {
  if (op.cpu.empty()) return {check_expanded_only(op, op_case, seed)};
  std::vector<CheckResult> results;
  const Node node = case_node(op, op_case);
  const std::vector<Tensor> inputs = case_inputs(op_case, seed);
  const Kernel& reference = op.cpu.back();
  const std::vector<std::unique_ptr<Body>> owned = interpreted_bodies(node);
  std::vector<Body*> bodies;
  for (const auto& body : owned) bodies.push_back(body.get());
  std::vector<Tensor> expected;
  CheckResult first{
      .op = qualified(op), .case_name = op_case.name, .kernel = std::string(reference.name), .message = {}};
  try {
    {
      const ThreadScope one(1);
      expected = evaluate(node, inputs, reference.name, bodies);
    }
    const ThreadScope three(3);
    const std::vector<Tensor> again = evaluate(node, inputs, reference.name, bodies, variable_inputs(op_case));
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i].bytes() != again[i].bytes() ||
          std::memcmp(expected[i].raw(), again[i].raw(), static_cast<size_t>(expected[i].bytes())) != 0) {
        first.message = "the reference's result depends on the number of threads";
      }
    }
  } catch (const Error& error) {
    first.message = error.what();
  }
  first.outcome = first.message.empty() ? CheckResult::passed : CheckResult::failed;
  results.push_back(first);
  if (first.outcome == CheckResult::failed) return results;

  for (const Kernel& kernel : op.cpu.first(op.cpu.size() - 1)) {
    CheckResult result{
        .op = qualified(op), .case_name = op_case.name, .kernel = std::string(kernel.name), .message = {}};
    const uint64_t variable = variable_inputs(op_case);
    bool accepted = false;
    for (const auto& [threads, hidden] : {std::pair{1, uint64_t{0}}, {2, uint64_t{0}}, {1, variable}, {2, variable}}) {
      const ThreadScope scope(threads);
      try {
        result.message =
            compare(evaluate(node, inputs, kernel.name, bodies, hidden), expected, result, op_case.tolerance);
        accepted = true;
      } catch (const NoKernel&) {
        continue;
      } catch (const Error& error) {
        result.message = error.what();
      }
      if (!result.message.empty()) result.outcome = CheckResult::failed;
      if (result.outcome == CheckResult::failed) break;
    }
    if (!accepted && result.outcome == CheckResult::passed) {
      result.outcome = CheckResult::skipped;
      result.message = "does not accept this case";
    }
    results.push_back(result);
  }
  if (op.expand) results.push_back(check_expansion(op, op_case, inputs, expected));
  return results;
}

std::vector<CheckResult> check_ops(const std::string& filter, uint64_t seed) {
  std::vector<CheckResult> results;
  for (const OpDef* op : all_ops()) {
    if ((op->cpu.empty() && !op->cases) || qualified(*op).find(filter) == std::string::npos) continue;
    const std::vector<OpCase> cases = op->cases ? op->cases() : std::vector<OpCase>{};
    if (cases.empty()) {
      results.push_back({qualified(*op), "", "", CheckResult::failed, 0, 0, "the op has no cases"});
    }
    for (const OpCase& op_case : cases) {
      for (CheckResult& result : check_case(*op, op_case, seed)) results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace sparkpilot
