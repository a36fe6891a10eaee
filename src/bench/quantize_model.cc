#include "bench/quantize_model.h"

#include <algorithm>
#include <limits>

#include "bench/summary.h"
#include "onnx/export.h"
#include "passes/exact_halves.h"
#include "passes/pass.h"
#include "tensor/difference.h"

namespace sparkpilot {
namespace {

// The differences of the second graph's values from the first's, pair by pair, over the samples: infinite where the
// first's hold NaN, which would be no difference.
std::vector<Difference> differences_of(const Graph& floats, const Graph& graph,
                                       const std::vector<std::pair<ValueId, ValueId>>& values, const Samples& samples,
                                       int threads, const QuantizeProgress& progress) {
  std::vector<ValueId> before, after;
  for (const auto& [float_value, value] : values) {
    before.push_back(float_value);
    after.push_back(value);
  }
  Session plain = session_of_values(floats, before, threads), changed = session_of_values(graph, after, threads);
  std::vector<DifferenceSum> sums(before.size());
  std::vector<bool> numbers(before.size(), true);
  for (size_t i = 0; i < samples.count; ++i) {
    progress("comparing", static_cast<double>(i) / static_cast<double>(samples.count));
    set_sample(plain, samples, i);
    set_sample(changed, samples, i);
    plain.run();
    changed.run();
    for (size_t v = 0; v < before.size(); ++v) {
      sums[v].add(changed.output(std::to_string(v)), plain.output(std::to_string(v)));
      if (summarize(plain.output(std::to_string(v))).nan > 0) numbers[v] = false;
    }
  }
  std::vector<Difference> out;
  for (size_t v = 0; v < sums.size(); ++v) {
    out.push_back(sums[v].result());
    if (!numbers[v]) out[v].relative_l2 = out[v].worst_sample = std::numeric_limits<double>::infinity();
  }
  return out;
}

}  // namespace

QuantizedModel quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              const QuantizeModelOptions& options, const QuantizeProgress& progress) {
  std::vector<std::filesystem::path> read;
  Graph graph = quantizable(
      load_apart(from, to, {&options.samples, &options.held_out}, options.dims, options.shapes, read), options.graph);
  const Session reader(graph, {.threads = options.threads});
  const Samples samples = load_samples(reader, options.samples, {}, 1, true);
  const Samples held_out = options.held_out.empty() ? samples : load_samples(reader, options.held_out, {}, 1, true);
  QuantizedModel result;
  result.samples = samples.count;
  result.compared = held_out.count;
  Int8Graph int8 = quantize(std::move(graph), samples, options, progress);
  result.nodes = int8.nodes;
  result.quantized = int8.quantized;
  result.kept = std::move(int8.kept);
  const std::vector<Difference> differences =
      differences_of(int8.floats, int8.graph, int8.values, held_out, options.threads, progress);
  const std::vector<Graph::Output>& outputs = int8.graph.outputs();
  for (size_t v = 0; v < differences.size(); ++v) {
    const bool output = v < outputs.size();
    const std::string& name = output ? outputs[v].name : int8.floats.value(int8.values[v].first).name;
    (output ? result.outputs : result.tensors)
        .push_back({name, differences[v].relative_l2, differences[v].worst_sample});
  }
  std::stable_sort(result.tensors.begin(), result.tensors.end(),
                   [](const QuantizedError& a, const QuantizedError& b) { return a.relative_l2 > b.relative_l2; });

  constexpr int kMinOpset = 13;  // for scales per channel
  int8.graph.opsets[""] = std::max(kMinOpset, int8.graph.opsets[""]);
  drop_dead(int8.graph);
  store_exact_halves(int8.graph);
  result.opset = save_onnx(int8.graph, to, {.keep = read});
  return result;
}

StoredModel store_model(const std::filesystem::path& from, const std::filesystem::path& to,
                        const StoreModelOptions& options, const QuantizeProgress& progress) {
  constexpr uint64_t kSeed = 1;
  constexpr size_t kRandom = 8;  // samples where none are given
  std::vector<std::filesystem::path> read;
  Graph graph = load_apart(from, to, {&options.samples, &options.held_out}, options.dims, options.shapes, read);
  refuse_quantized(graph);
  graph = plain_graph(std::move(graph));
  const Session reader(graph, {.threads = options.threads});
  const auto load = [&](const std::vector<std::pair<std::string, std::string>>& named) {
    return in_types_of(graph, load_samples(reader, named, kSeed, kRandom, true));
  };
  if (options.given) expect_contents(*options.given);
  const Samples samples = options.given ? in_types_of(graph, *options.given) : load(options.samples);
  const Samples held_out = options.held_out.empty() ? samples : load(options.held_out);
  StoredModel result;
  result.samples = samples.count;
  result.compared = held_out.count;
  SmallGraph small = store_small_weights(std::move(graph), samples, options, progress);
  std::vector<std::pair<ValueId, ValueId>> values;
  for (size_t i = 0; i < small.graph.outputs().size(); ++i) {
    values.emplace_back(small.floats.outputs()[i].value, small.graph.outputs()[i].value);
  }
  const std::vector<Difference> differences =
      differences_of(small.floats, small.graph, values, held_out, options.threads, progress);
  for (size_t i = 0; i < differences.size(); ++i) {
    result.outputs.push_back({small.graph.outputs()[i].name, differences[i].relative_l2, differences[i].worst_sample});
  }
  const bool four =
      std::ranges::any_of(small.layers, [](const SmallLayer& l) { return l.format == WeightFormat::fp4; });
  result.layers = std::move(small.layers);
  result.bytes = small.bytes;
  result.kept_bytes = small.kept_bytes;
  result.error = small.error;
  result.likely_worst = small.likely_worst;
  result.not_finite = std::move(small.not_finite);
  small.graph.opsets[""] = std::max(four ? 23 : 19, small.graph.opsets[""]);
  drop_dead(small.graph);
  store_exact_halves(small.graph);
  result.opset = save_onnx(small.graph, to, {.keep = read});
  return result;
}

}  // namespace sparkpilot
