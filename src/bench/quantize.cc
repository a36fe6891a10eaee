#include "bench/quantize.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/with_file.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "tensor/difference.h"

namespace sparkpilot {
namespace {

// Gives every value and node a unique name, for files and messages.
void name_everything(Graph& graph) {
  std::set<std::string> used;
  const auto unique = [&](std::string name, const std::string& otherwise) {
    if (name.empty()) name = otherwise;
    std::string candidate = name;
    for (int i = 1; !used.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
    return candidate;
  };
  for (const Graph::Output& output : graph.outputs()) graph.value(output.value).name = output.name;
  for (const ValueId input : graph.inputs()) used.insert(graph.value(input).name);
  for (const Graph::Output& output : graph.outputs()) used.insert(output.name);
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.value(ValueId{i});
    const bool fixed =
        value.kind == ValueKind::input || std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                                      [&](const Graph::Output& o) { return o.value == ValueId{i}; });
    if (!fixed) value.name = unique(value.name, fmt::format("value_{}", i));
  }
}

bool is_product(const Graph& graph, NodeId id) {
  const std::string_view op = graph.node(id).op->name;
  return op == "Conv" || op == "Gemm" || op == "MatMul";
}

// The mean, or the largest magnitude, per channel of the session's outputs over all samples.
std::vector<std::vector<double>> by_channel(Session& session, const Samples& samples, bool largest) {
  std::vector<std::vector<double>> out(session.outputs().size());
  for (size_t i = 0; i < samples.count; ++i) {
    set_sample(session, samples, i);
    session.run();
    for (size_t o = 0; o < out.size(); ++o) {
      const ConstView view = session.output(std::to_string(o));
      const Shape& shape = view.shape;
      const int axis = shape.rank() > 2 ? 1 : shape.rank() - 1;
      const int64_t inner = shape.elements(axis + 1, shape.rank());
      const double share =
          static_cast<double>(shape[axis]) / static_cast<double>(view.elements() * static_cast<int64_t>(samples.count));
      out[o].resize(static_cast<size_t>(shape[axis]));
      for (int64_t e = 0; e < view.elements(); ++e) {
        double& at = out[o][static_cast<size_t>(e / inner % shape[axis])];
        const auto v = static_cast<double>(view.as<float>()[e]);
        at = largest ? std::max(at, std::abs(v)) : at + v * share;
      }
    }
  }
  return out;
}

// Scales channels whose scale is free to the same range.
void equalise(Graph& graph, const Samples& samples, int threads) {
  const std::vector<ValueId> tensors = free_channels(graph);
  if (tensors.empty()) return;
  Session session = session_of_values(graph, tensors, threads);
  const auto reach = by_channel(session, samples, true);
  for (size_t i = 0; i < tensors.size(); ++i) equalise_channels(graph, tensors[i], reach[i]);
}

// Rounding shifts the mean of a convolution's output; its bias is corrected for that. One convolution after the other,
// since each depends on those before it.
void correct_biases(Graph& graph, const QuantizedGraph& quantized, const QuantizePlan& plan, Session& floats,
                    const Samples& samples, int threads, const std::function<void(double)>& progress) {
  const auto expected = by_channel(floats, samples, false);
  size_t done = 0;
  for (const NodeId id : plan.nodes) {
    const auto bias = quantized.biases.find(id);
    if (bias == quantized.biases.end()) continue;
    progress(static_cast<double>(done) / static_cast<double>(quantized.biases.size()));
    Session session = session_of_values(graph, {graph.node(id).outputs[0]}, threads);
    const auto got = by_channel(session, samples, false)[0];
    const Tensor integers = graph.constant(bias->second.integers)->clone();
    for (size_t c = 0; c < got.size(); ++c) {
      int32_t& b = integers.data<int32_t>()[c];
      const double steps = std::nearbyint((expected[done][c] - got[c]) / static_cast<double>(bias->second.steps[c]));
      constexpr double kMax = 1 << 30;
      b = static_cast<int32_t>(std::clamp(b + steps, -kMax, kMax));
    }
    graph.value(bias->second.integers).constant = integers;
    ++done;
  }
}

// The float model, and the statistics of its tensors.
struct Calibrated {
  const Graph& graph;
  Session& floats;
  const Samples& samples;
  const std::map<ValueId, ValueRange>& ranges;
  int threads;
};

// The largest error of any output over the first `most` samples, with the plan's nodes in integers.
double cost_of(const Calibrated& c, const QuantizePlan& plan, size_t most) {
  Graph graph = c.graph;
  quantize_graph(graph, plan, c.ranges);
  infer(graph);
  std::vector<ValueId> outputs;
  for (const Graph::Output& output : graph.outputs()) outputs.push_back(output.value);
  Session quantized = session_of_values(std::move(graph), outputs, c.threads);
  std::vector<DifferenceSum> differences(outputs.size());
  for (size_t i = 0; i < std::min(most, c.samples.count); ++i) {
    set_sample(c.floats, c.samples, i);
    set_sample(quantized, c.samples, i);
    c.floats.run();
    quantized.run();
    for (size_t o = 0; o < outputs.size(); ++o) {
      differences[o].add(quantized.output(std::to_string(o)), c.floats.output(std::to_string(o)));
    }
  }
  double largest = 0;
  for (const DifferenceSum& d : differences) largest = std::max(largest, d.result().relative_l2);
  return largest;
}

// Keeps in floats as few products as needed for an error below `most`, beginning with those that cost most alone.
std::vector<QuantizedError> keep_costly(const Calibrated& c, QuantizeOptions& options, double most,
                                        const std::function<void(double)>& progress) {
  constexpr size_t kLook = 4;  // samples used to find the nodes that cost most
  Graph graph = c.graph;
  const QuantizePlan all = plan_quantization(graph, options);
  if (cost_of(c, all, c.samples.count) <= most) return {};
  std::set<NodeId> products;
  for (const NodeId id : all.nodes) {
    if (is_product(graph, id)) products.insert(id);
  }
  std::vector<std::pair<double, NodeId>> costs;
  for (const NodeId id : products) {
    progress(static_cast<double>(costs.size()) / static_cast<double>(products.size()));
    QuantizeOptions alone = options;
    alone.floats = products;
    alone.floats.erase(id);
    costs.emplace_back(cost_of(c, plan_quantization(graph, alone), kLook), id);
  }
  std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto with_kept = [&](size_t count) {
    QuantizeOptions kept = options;
    for (size_t i = 0; i < count; ++i) kept.floats.insert(costs[i].second);
    return kept;
  };
  size_t low = 0, high = costs.size();  // too few, and enough: with no product in integers there is no error
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (cost_of(c, plan_quantization(graph, with_kept(middle)), c.samples.count) <= most ? high : low) = middle;
  }
  if (high == costs.size()) fail("an error under {} leaves no convolution and no product in int8", most);
  options = with_kept(high);
  std::vector<QuantizedError> kept;
  for (size_t i = 0; i < high; ++i) kept.push_back({graph.label(costs[i].second), costs[i].first, costs[i].first});
  return kept;
}

}  // namespace

Samples in_types_of(const Graph& graph, const Samples& samples) {
  Samples out{.inputs = {}, .count = samples.count, .groups = samples.groups};
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    const auto found = samples.inputs.find(input.name);
    if (found == samples.inputs.end()) fail("no samples of input \"{}\"", input.name);
    for (const Tensor& sample : found->second) {
      out.inputs[input.name].push_back(sample.dtype() == input.dtype ? sample : convert(sample, input.dtype));
    }
  }
  return out;
}

Graph load_apart(const std::filesystem::path& from, const std::filesystem::path& to,
                 std::initializer_list<const std::vector<std::pair<std::string, std::string>>*> samples,
                 const std::map<std::string, int64_t>& dims, const std::map<std::string, Shape>& shapes,
                 std::vector<std::filesystem::path>& read) {
  refuse_to_replace(to, from);
  for (const auto* given : samples) {
    for (const auto& [input, path] : *given) refuse_to_replace(to, path);
  }
  Graph graph = load_onnx(from, read);
  for (const std::filesystem::path& file : read) refuse_to_replace(to, file);
  fix_dimensions(graph, dims, shapes);
  return graph;
}

Session session_of_values(Graph graph, const std::vector<ValueId>& values, int threads) {
  std::vector<Graph::Output> outputs;
  for (size_t i = 0; i < values.size(); ++i) outputs.push_back({values[i], std::to_string(i)});
  graph.replace_outputs(std::move(outputs));
  return Session(std::move(graph), {.threads = threads});
}

Graph plain_graph(Graph graph) {
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (input.shape) continue;
    fail("input \"{}\" has open dimensions, {}: fix them with --dim or --shape", input.name,
         input.declared ? declared_text(*input.declared) : "of any rank");
  }
  infer(graph);
  expand_ops(graph);
  infer(graph);
  widen_to_fp32(graph);
  infer(graph);
  while (fold_constants(graph) + share_common(graph) + drop_dead(graph) > 0) infer(graph);
  fold_batch_norm(graph);
  infer(graph);
  drop_dead(graph);
  graph.compact();
  name_everything(graph);
  return graph;
}

Graph quantizable(Graph graph, const QuantizeOptions& options) {
  Graph plain = plain_graph(std::move(graph));
  plan_quantization(plain, options);  // fails before the work begins
  return plain;
}

Int8Graph quantize(Graph graph, const Samples& given, const QuantizeSettings& settings,
                   const QuantizeProgress& progress) {
  std::vector<ValueId> watched;
  for (const Graph::Output& output : graph.outputs()) watched.push_back(output.value);
  const size_t outputs = watched.size();
  const Samples samples = in_types_of(graph, given);
  if (settings.equalise) equalise(graph, samples, settings.threads);
  QuantizePlan plan = plan_quantization(graph, settings.graph);
  Int8Graph out;

  // Outputs first, then the activations.
  watched.insert(watched.end(), plan.tensors.begin(), plan.tensors.end());
  Session floats = session_of_values(graph, watched, settings.threads);
  const auto label = [&](const std::string& place) { return graph.value(watched[std::stoul(place)]).name; };
  const auto seen = calibrate(
      floats, samples, settings.calibration, [&](double done) { progress("calibrating", done); }, label);
  std::map<ValueId, ValueRange> ranges;
  for (size_t i = 0; i < plan.tensors.size(); ++i) ranges[plan.tensors[i]] = seen.at(std::to_string(outputs + i));
  if (settings.max_error) {
    QuantizeOptions chosen = settings.graph;
    out.kept = keep_costly({graph, floats, samples, ranges, settings.threads}, chosen, *settings.max_error,
                           [&](double done) { progress("looking for what costs most", done); });
    plan = plan_quantization(graph, chosen);
  }
  for (const NodeId id : graph.order()) out.nodes += is_product(graph, id);
  out.quantized = std::count_if(plan.nodes.begin(), plan.nodes.end(), [&](NodeId id) { return is_product(graph, id); });
  out.floats = graph;
  const QuantizedGraph rewritten = quantize_graph(graph, plan, ranges);
  infer(graph);
  if (settings.correct_biases && !rewritten.biases.empty()) {
    std::vector<ValueId> products;
    for (const NodeId id : plan.nodes) {
      if (rewritten.biases.contains(id)) products.push_back(out.floats.node(id).outputs[0]);
    }
    Session plain = session_of_values(out.floats, products, settings.threads);
    correct_biases(graph, rewritten, plan, plain, samples, settings.threads,
                   [&](double done) { progress("correcting biases", done); });
  }
  for (size_t w = 0; w < watched.size(); ++w) {
    const auto stands_for = rewritten.stands_for.find(watched[w]);
    if (w < outputs) out.values.emplace_back(watched[w], watched[w]);
    else if (stands_for != rewritten.stands_for.end()) out.values.emplace_back(watched[w], stands_for->second);
  }
  out.graph = std::move(graph);
  return out;
}

Graph int8_graph(const std::filesystem::path& file, const SessionOptions& session, const Samples& samples,
                 const QuantizeSettings& settings, const QuantizeProgress& progress) {
  Graph out;
  with_file(file, [&] {
    Graph graph = load_model(file);
    fix_dimensions(graph, session.dims, session.shapes);
    std::map<std::string, Shape> open;  // takes the samples' sizes
    for (const ValueId id : graph.inputs()) {
      const Value& input = graph.value(id);
      const auto found = samples.inputs.find(input.name);
      if (!input.shape && found != samples.inputs.end()) open.emplace(input.name, found->second.at(0).shape());
    }
    fix_dimensions(graph, {}, open);
    out = quantize(quantizable(std::move(graph), settings.graph), samples, settings, progress).graph;
  });
  return out;
}

}  // namespace sparkpilot
