#include "bench/quantize_model.h"

#include <algorithm>

#include "base/file.h"
#include "ir/dimensions.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "tensor/difference.h"

namespace sparkpilot {
namespace {

// Adds the errors of outputs and activations over the samples.
void compare(const Int8Graph& int8, const Samples& samples, int threads, const QuantizeProgress& progress,
             QuantizedModel& result) {
  std::vector<ValueId> before, after;
  for (const auto& [float_value, value] : int8.values) {
    before.push_back(float_value);
    after.push_back(value);
  }
  Session floats = session_of_values(int8.floats, before, threads);
  Session quantized = session_of_values(int8.graph, after, threads);
  std::vector<DifferenceSum> differences(before.size());
  for (size_t i = 0; i < samples.count; ++i) {
    progress("comparing", static_cast<double>(i) / static_cast<double>(samples.count));
    set_sample(floats, samples, i);
    set_sample(quantized, samples, i);
    floats.run();
    quantized.run();
    for (size_t v = 0; v < before.size(); ++v) {
      differences[v].add(quantized.output(std::to_string(v)), floats.output(std::to_string(v)));
    }
  }
  const std::vector<Graph::Output>& outputs = int8.graph.outputs();
  for (size_t v = 0; v < before.size(); ++v) {
    const Difference d = differences[v].result();
    const bool output = v < outputs.size();
    const std::string& name = output ? outputs[v].name : int8.floats.value(before[v]).name;
    (output ? result.outputs : result.tensors).push_back({name, d.relative_l2, d.worst_sample});
  }
  std::stable_sort(result.tensors.begin(), result.tensors.end(),
                   [](const QuantizedError& a, const QuantizedError& b) { return a.relative_l2 > b.relative_l2; });
}

}  // namespace

QuantizedModel quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              const QuantizeModelOptions& options, const QuantizeProgress& progress) {
  refuse_to_replace(to, from);
  for (const auto* given : {&options.samples, &options.held_out}) {
    for (const auto& [input, samples] : *given) refuse_to_replace(to, samples);
  }
  std::vector<std::filesystem::path> read;
  Graph loaded = load_onnx(from, read);
  for (const std::filesystem::path& file : read) refuse_to_replace(to, file);
  fix_dimensions(loaded, options.dims, options.shapes);
  Graph graph = quantizable(std::move(loaded), options.graph);
  const Session reader(graph, {.threads = options.threads});
  const Samples samples = load_samples(reader, options.samples);
  const Samples held_out = options.held_out.empty() ? samples : load_samples(reader, options.held_out);
  QuantizedModel result;
  result.samples = samples.count;
  result.compared = held_out.count;
  Int8Graph int8 = quantize(std::move(graph), samples, options, progress);
  result.nodes = int8.nodes;
  result.quantized = int8.quantized;
  result.kept = std::move(int8.kept);
  compare(int8, held_out, options.threads, progress, result);

  constexpr int kMinOpset = 13;  // for scales per channel
  int8.graph.opsets[""] = std::max(kMinOpset, int8.graph.opsets[""]);
  drop_dead(int8.graph);
  result.opset = save_onnx(int8.graph, to, {.keep = read});
  return result;
}

}  // namespace sparkpilot
