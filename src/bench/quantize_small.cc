#include "bench/quantize_small.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/statistics.h"
#include "bench/summary.h"
#include "ir/infer.h"
#include "passes/edit.h"
#include "passes/exact_halves.h"
#include "tensor/difference.h"
#include "tensor/small_floats.h"

namespace sparkpilot {
namespace {

using Formats = std::map<NodeId, WeightFormat>;

constexpr size_t kLook = 4;  // samples on which each layer is measured alone

int64_t depth_of(const Graph& graph, NodeId id) {
  const Shape& shape = graph.constant(graph.node(id).inputs[1])->shape();
  return shape.elements() / std::max<int64_t>(1, shape[weight_axes(graph.node(id), shape.rank()).channels]);
}

double relative_l2(const Session& got, const Session& expected) {
  double largest = 0;
  for (const TensorInfo& output : expected.outputs()) {
    if (summarize(expected.output(output.name)).nan > 0) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference_of(got.output(output.name), expected.output(output.name)).relative_l2);
  }
  return largest;
}

class Choosing {
 public:
  Choosing(const Graph& graph, const Samples& samples, const SmallSettings& settings, const Formats& all)
      : graph_(graph),
        samples_(samples),
        settings_(settings),
        all_(all),
        floats_(session_of(graph, settings.threads)) {}

  // The errors of at most `most` samples, evenly over all of them, with these weights stored.
  std::vector<double> errors_of(const Formats& plan, size_t most) {
    Graph stored = graph_;
    store_small(stored, plan, settings_.largest);
    infer(stored);
    Session session = session_of(std::move(stored), settings_.threads);
    std::vector<double> errors;
    const size_t count = std::min(most, samples_.count);
    for (size_t i = 0; i < count; ++i) {
      set_sample(floats_, samples_, i * samples_.count / count);
      set_sample(session, samples_, i * samples_.count / count);
      floats_.run();
      session.run();
      errors.push_back(settings_.error ? settings_.error(session, floats_) : relative_l2(session, floats_));
    }
    return errors;
  }

  // Makes a layer smaller by one format, at a price.
  struct Move {
    NodeId node;
    WeightFormat format;
    double price;  // squared error added for each byte saved; errors of layers add up like those of random numbers
  };

  // All moves, the cheapest first; of one layer in order of its formats.
  std::vector<Move> moves(std::map<NodeId, SmallLayer>& layers, const QuantizeProgress& progress) {
    std::vector<Move> out;
    size_t done = 0;
    for (const auto& [id, least] : all_) {
      progress("measuring each layer", static_cast<double>(done++) / static_cast<double>(all_.size()));
      SmallLayer& layer = layers.at(id);
      double error = 0, last_price = 0;
      int64_t bytes = layer.kept_bytes;
      for (const WeightFormat format : {WeightFormat::fp8, WeightFormat::fp4}) {
        if (format > least) break;
        const double alone = std::ranges::max(errors_of({{id, format}}, kLook));
        layer.alone[format] = alone;
        const int64_t now = bytes_of(id, format);
        if (now >= bytes) continue;  // few weights share a scale
        const double added = std::max(0.0, alone * alone - error * error);
        last_price = std::max(last_price, added / static_cast<double>(bytes - now));
        out.push_back({id, format, last_price});
        error = alone;
        bytes = now;
      }
    }
    std::stable_sort(out.begin(), out.end(), [](const Move& a, const Move& b) { return a.price < b.price; });
    return out;
  }

  int64_t bytes_of(NodeId id, WeightFormat format) const {
    return weight_bytes(format, graph_.constant(graph_.node(id).inputs[1])->elements(), depth_of(graph_, id));
  }

 private:
  static Session session_of(Graph graph, int threads) { return Session(std::move(graph), {.threads = threads}); }

  const Graph& graph_;
  const Samples& samples_;
  const SmallSettings& settings_;
  const Formats& all_;
  Session floats_;
};

Formats after(const std::vector<Choosing::Move>& moves, size_t count) {
  Formats plan;
  for (size_t i = 0; i < count; ++i) plan[moves[i].node] = moves[i].format;
  return plan;
}

struct Spread {
  double mean = 0, deviation = 0;
  double independent = 0;  // as many independent values would say as much of the mean; at least three
};

// Of values in groups: the variances within and between groups from a one-way analysis of variance.
Spread spread_of(std::span<const double> values, std::span<const size_t> groups) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  const std::vector<size_t> single(values.size(), 1);
  if (groups.size() < 2) groups = single;
  double within = 0, between = 0, squares = 0;
  for (size_t first = 0; const size_t size : groups) {
    const std::span<const double> group = values.subspan(first, size);
    const double middle = std::accumulate(group.begin(), group.end(), 0.0) / static_cast<double>(size);
    for (const double v : group) within += (v - middle) * (v - middle);
    between += static_cast<double>(size) * (middle - mean) * (middle - mean);
    squares += static_cast<double>(size) * static_cast<double>(size);
    first += size;
  }
  const auto count = static_cast<double>(groups.size());
  between /= count - 1;
  if (groups.size() == values.size()) return {mean, std::sqrt(between), std::max(3.0, n)};
  within /= n - count;
  const double of_groups = std::max(0.0, (between - within) / ((n - squares / n) / (count - 1)));
  const double variance = of_groups + within;
  const double correlation = variance > 0 ? of_groups / variance : 0;
  return {mean, std::sqrt(variance), std::max(3.0, n / (1 + (squares / n - 1) * correlation))};
}

}  // namespace

LikelyWorst likely_worst(std::span<const double> errors, std::span<const size_t> groups) {
  const double largest = std::ranges::max(errors);
  const auto count = static_cast<double>(errors.size());
  if (errors.size() < kFewSamples || !std::isfinite(largest)) return {largest * 1.1, count};
  if (largest == 0) return {0, count};
  std::vector<double> logarithms;
  for (const double error : errors) logarithms.push_back(std::log(std::max(error, 1e-3 * largest)));
  // How far some errors are below the middle one does not make others larger.
  const double least = 2 * median(logarithms) - std::ranges::max(logarithms);
  for (double& logarithm : logarithms) logarithm = std::max(logarithm, least);
  const Spread spread = spread_of(logarithms, groups);
  return {std::exp(spread.mean + tolerance_factor(spread.independent, 0.999, 0.95) * spread.deviation),
          spread.independent};
}

int64_t weight_bytes(WeightFormat format, int64_t elements, int64_t depth) {
  const int64_t channels = elements / std::max<int64_t>(1, depth);
  switch (format) {
    case WeightFormat::f32: return elements * 4;
    case WeightFormat::fp8: return elements + channels * 4;
    case WeightFormat::fp4: break;
  }
  const int64_t blocks = (depth + Fp4Weights::kBlock - 1) / Fp4Weights::kBlock;
  return (elements + 1) / 2 + channels * blocks + 4;
}

SmallGraph store_small_weights(Graph graph, const Samples& samples, const SmallSettings& settings,
                               const QuantizeProgress& progress) {
  Formats all = plan_small(graph, settings.precision);
  check_excluded(graph, settings.exclude);
  std::erase_if(all, [&](const auto& item) {
    const Node& node = graph.node(item.first);
    return settings.exclude.contains(node.name) || settings.exclude.contains(std::string(node.op->name));
  });
  SmallGraph out;
  out.not_finite = not_finite_weights(graph);
  if (all.empty()) {
    fail("no convolution and no product before the last one has constant weights of f32 to store{}",
         out.not_finite.empty() ? "" : fmt::format("; those of {} hold NaN or infinity", out.not_finite));
  }
  std::map<NodeId, SmallLayer> layers;
  for (const NodeId id : graph.order()) {
    if (!graph.node(id).op->traits.product || graph.node(id).inputs.size() < 2) continue;
    const Tensor* weights = graph.constant(graph.node(id).inputs[1]);
    if (!weights) continue;
    const bool in_f32 = weights->dtype() == DType::f32;
    const DType kept = in_f32 ? exact_type(*weights) : weights->dtype();
    const int64_t bytes = storage_bytes(kept, weights->elements());
    out.kept_bytes += bytes;
    layers[id] = {.name = graph.label(id), .kept_as = kept, .bytes = bytes, .kept_bytes = bytes, .alone = {}};
  }
  Choosing choosing(graph, samples, settings, all);
  const auto bytes_with = [&](const Formats& plan) {
    int64_t bytes = 0;
    for (const auto& [id, layer] : layers) {
      const auto at = plan.find(id);
      bytes += at == plan.end() ? layer.kept_bytes : choosing.bytes_of(id, at->second);
    }
    return bytes;
  };
  Formats plan = all;
  if (settings.target_error || settings.budget) {
    const std::vector<Choosing::Move> moves = choosing.moves(layers, progress);
    size_t count = 0;
    std::vector<double> errors;  // with so many moves, if they were measured
    if (settings.budget) {
      while (bytes_with(after(moves, count)) > *settings.budget) {
        if (count == moves.size()) {
          fail("the weights take {} bytes at least, more than the budget of {}", bytes_with(plan), *settings.budget);
        }
        ++count;
      }
    } else {
      size_t too_many = moves.size() + 1;
      while (too_many - count > 1) {
        const double left = static_cast<double>(too_many - count) / static_cast<double>(moves.size() + 1);
        progress("looking for what the target allows", 1 - left);
        const size_t middle = (count + too_many) / 2;
        std::vector<double> tried = choosing.errors_of(after(moves, middle), samples.count);
        const double worst = std::max(std::ranges::max(tried), likely_worst(tried, samples.groups).error);
        const bool fits = worst <= *settings.target_error;
        (fits ? count : too_many) = middle;
        if (fits) errors = std::move(tried);
      }
    }
    if (count == 0 && settings.target_error) {
      if (!std::isfinite(std::ranges::max(choosing.errors_of({}, samples.count)))) {
        fail("the model's own outputs hold NaN on these samples, so no error can be measured");
      }
      errors = choosing.errors_of(after(moves, 1), samples.count);
      fail(
          "an error of at most {} leaves no weights in 8 bits: {} alone in fp8 gives up to {:.3g} on these "
          "samples, likely {:.3g} on others",
          *settings.target_error, graph.label(moves[0].node), std::ranges::max(errors),
          likely_worst(errors, samples.groups).error);
    }
    plan = after(moves, count);
    if (errors.empty()) errors = choosing.errors_of(plan, samples.count);
    out.error = std::ranges::max(errors);
    out.likely_worst = likely_worst(errors, samples.groups);
  }
  out.bytes = bytes_with(plan);
  for (auto& [id, layer] : layers) {
    if (const auto at = plan.find(id); at != plan.end()) {
      layer.format = at->second;
      layer.bytes = choosing.bytes_of(id, at->second);
      const std::string& input = graph.value(graph.node(id).inputs[0]).name;
      layer.rounds_input = layer.format == WeightFormat::fp8 && settings.largest.contains(input);
    }
    out.layers.push_back(std::move(layer));
  }
  out.floats = graph;
  store_small(graph, plan, settings.largest);
  infer(graph);
  out.graph = std::move(graph);
  return out;
}

}  // namespace sparkpilot
