#include "bench/model_check.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "bench/inputs.h"
#include "bench/summary.h"
#include "onnx/import.h"
#include "ops/check.h"

namespace sparkpilot {
namespace {

Tensor copy_of(const ConstView& view) {
  Tensor tensor(view.dtype, view.shape);
  std::memcpy(tensor.raw(), view.data, static_cast<size_t>(view.bytes()));
  return tensor;
}

// The outputs on seeded random inputs.
std::vector<Tensor> run_once(const Graph& graph, const SessionOptions& options, uint64_t seed, ModelCheck& check) {
  Session session(graph, options);
  check.notes = bind_open_dimensions(session);
  for (const TensorInfo& input : session.inputs()) fill_random(session.input(input.name), input.name, seed);
  session.run();
  std::vector<Tensor> outputs;
  check.outputs.clear();
  for (const TensorInfo& output : session.outputs()) {
    outputs.push_back(copy_of(session.output(output.name)));
    check.outputs.push_back({.name = output.name});
  }
  return outputs;
}

bool has_16_bit_values(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const DType dtype = graph.value(ValueId{i}).dtype;
    if (is_float(dtype) && bits(dtype) <= 16) return true;
  }
  return false;
}

// A recognised pattern has exact constants where a 16-bit file has rounded ones; 16-bit arithmetic rounds every value.
double tolerance_of(const Graph& graph, Precision precision) {
  if (precision == Precision::fp16) return 1e-2;  // three more bits than bf16, and weights only
  if (precision == Precision::bf16) return 5e-2;
  if (!has_16_bit_values(graph)) return 1e-4;
  return precision == Precision::fp32 ? 1e-3 : 5e-2;
}

}  // namespace

bool ModelCheck::passed() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const OutputCheck& output) { return output.passed; });
}

ModelCheck check_model(const std::filesystem::path& file, const ModelCheckOptions& options) {
  if (!(options.tolerance >= 0)) fail("tolerance: expected 0 or more, got {}", options.tolerance);
  const Graph graph = load_onnx(file);
  ModelCheck check;
  check.tolerance = options.tolerance > 0 ? options.tolerance : tolerance_of(graph, options.session.passes.precision);
  std::vector<Tensor> expected;
  if (options.compare) {
    SessionOptions plain = options.session;
    plain.kernels = "reference";
    plain.passes.off = {"all"};
    if (plain.passes.precision != Precision::model) plain.passes.precision = Precision::fp32;
    expected = run_once(graph, plain, options.seed, check);
  }
  const std::vector<Tensor> got = run_once(graph, options.session, options.seed, check);
  for (size_t i = 0; i < got.size(); ++i) {
    OutputCheck& output = check.outputs[i];
    output.not_finite = summarize(got[i].view()).not_finite;
    if (!options.compare) {
      output.passed = output.not_finite == 0;
      continue;
    }
    const bool same = got[i].dtype() == expected[i].dtype() && got[i].shape() == expected[i].shape();
    output.relative_l2 = same ? relative_l2(got[i], expected[i]) : 1;
    output.passed = same && output.not_finite == 0 && output.relative_l2 <= check.tolerance;
  }
  return check;
}

}  // namespace sparkpilot
