#include "bench/model_check.h"

#include <algorithm>

#include "base/error.h"
#include "bench/inputs.h"
#include "bench/rounding.h"
#include "bench/samples.h"
#include "bench/summary.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "onnx/import.h"
#include "passes/precision.h"

namespace sparkpilot {
namespace {

struct RunTensors {
  std::vector<Tensor> inputs, outputs;
  Precision precision = Precision::fp32;
};

// Runs the model on seeded random inputs.
RunTensors run_once(const Graph& graph, const SessionOptions& options, uint64_t seed, ModelCheck& check) {
  Session session(graph, options);
  check.notes = bind_open_dimensions(session);
  RunTensors run;
  for (const TensorInfo& input : session.inputs()) {
    fill_random(session.input(input.name), input.name, seed);
    run.inputs.push_back(copy_of(session.input(input.name)));
  }
  session.run();
  run.precision = session.precision();
  check.outputs.clear();
  for (const TensorInfo& output : session.outputs()) {
    run.outputs.push_back(copy_of(session.output(output.name)));
    check.outputs.push_back({.name = output.name});
  }
  return run;
}

bool has_16_bit_values(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const DType dtype = graph.value(ValueId{i}).dtype;
    if (is_float(dtype) && bits(dtype) <= 16) return true;
  }
  return false;
}

// A recognised pattern uses exact constants although a 16-bit file has rounded ones; 16-bit arithmetic rounds every
// value.
double tolerance_of(const Graph& graph, Precision precision) {
  if (precision == Precision::fp16) return 1e-2;  // three bits more than bf16, and only weights are rounded
  if (precision == Precision::bf16) return 5e-2;
  if (precision == Precision::fp8) return 0.15;  // steps of an eighth, in weights alone
  if (precision == Precision::fp4) return 0.5;   // of a third
  if (!has_16_bit_values(graph)) return 1e-4;
  return precision == Precision::fp32 ? 1e-3 : 5e-2;
}

// The rounding errors of the arithmetic that is checked.
RoundingErrors errors_of(Precision precision) {
  RoundingErrors errors;
  if (precision == Precision::fp16) errors.single = errors.half;
  if (precision == Precision::bf16) errors.single = errors.brain;
  if (precision == Precision::fp8) errors.single = 0x1p-4;
  if (precision == Precision::fp4) errors.single = 0x1p-2;
  return errors;
}

// The outputs of a few plain runs with rounding errors added: one vector per output.
std::vector<std::vector<Tensor>> disturbed_outputs(Graph graph, const RunTensors& run,
                                                   const ModelCheckOptions& options) {
  constexpr uint64_t kRuns = 3;
  const SessionOptions& session = options.session;
  fix_dimensions(graph, session.dims, session.shapes);
  if (!session.outputs.empty()) select_outputs(graph, session.outputs);
  for (size_t i = 0; i < run.inputs.size(); ++i) bind_input(graph, graph.inputs()[i], run.inputs[i].shape());
  if (run.precision != Precision::model) set_precision(graph, Precision::fp32);
  std::vector<std::vector<Tensor>> outputs(graph.outputs().size());
  for (uint64_t more = 1; more <= kRuns; ++more) {
    const std::vector<Tensor> results =
        run_with_errors(graph, run.inputs, errors_of(run.precision), options.seed + more);
    for (size_t i = 0; i < results.size(); ++i) outputs[i].push_back(results[i]);
  }
  return outputs;
}

}  // namespace

std::string_view name(Outcome outcome) {
  return outcome == Outcome::passed ? "passed" : outcome == Outcome::failed ? "failed" : "ill-conditioned";
}

bool ModelCheck::passed() const {
  return std::none_of(outputs.begin(), outputs.end(),
                      [](const OutputCheck& output) { return output.outcome == Outcome::failed; });
}

ModelCheck check_model(const std::filesystem::path& file, const ModelCheckOptions& options) {
  if (!(options.tolerance >= 0)) fail("tolerance: expected 0 or more, got {}", options.tolerance);
  const Graph graph = load_onnx(file);
  ModelCheck check;
  RunTensors plain;
  if (options.compare) {
    SessionOptions reference = options.session;
    reference.device = "cpu";
    reference.kernels = "reference";
    reference.passes.off = {"all"};
    if (reference.passes.precision != Precision::model) reference.passes.precision = Precision::fp32;
    plain = run_once(graph, reference, options.seed, check);
  }
  const RunTensors run = run_once(graph, options.session, options.seed, check);
  check.tolerance = options.tolerance > 0 ? options.tolerance : tolerance_of(graph, run.precision);
  std::vector<std::vector<Tensor>> disturbed;  // computed for the first output that is too far off
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    OutputCheck& output = check.outputs[i];
    output.not_finite = summarize(run.outputs[i].view()).not_finite;
    if (!options.compare) {
      output.outcome = output.not_finite == 0 ? Outcome::passed : Outcome::failed;
      continue;
    }
    output.relative_l2 = distance_of(run.outputs[i], plain.outputs[i], {}).relative_l2;
    output.outcome = output.relative_l2 <= check.tolerance ? Outcome::passed : Outcome::failed;
    if (output.outcome == Outcome::passed) continue;
    if (disturbed.empty()) disturbed = disturbed_outputs(graph, run, options);
    const Distance distance = distance_of(run.outputs[i], plain.outputs[i], disturbed[i]);
    output.rounding = distance.rounding;
    if (distance.explained) output.outcome = Outcome::ill_conditioned;
  }
  return check;
}

}  // namespace sparkpilot
