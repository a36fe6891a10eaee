#include "sim/tinyphysics_network.h"

#include <algorithm>

#include "base/error.h"
#include "ir/dimensions.h"
#include "sim/challenge_route.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::sim {
namespace {

constexpr int64_t kContext = 20, kMostBins = 32768;

std::vector<Dim> dims_of(const Value& value) { return value.declared.value_or(std::vector<Dim>()); }

std::string described(const std::string& name, const Value& value) {
  return fmt::format("\"{}\" {} {}", name, sparkpilot::name(value.dtype), declared_text(dims_of(value)));
}

// What the file has, and what is wrong with it.
[[noreturn]] void refuse(const Graph& graph, const std::string& name, const std::string& why) {
  std::string inputs, outputs;
  for (const ValueId id : graph.inputs()) {
    inputs += (inputs.empty() ? "" : ", ") + described(graph.value(id).name, graph.value(id));
  }
  for (const Graph::Output& output : graph.outputs()) {
    outputs += (outputs.empty() ? "" : ", ") + described(output.name, graph.value(output.value));
  }
  fail(
      "{}: expected the inputs f32 [b, n, {}] (states) and i64 or i32 [b, n] (tokens) and one output f32 [b, n, bins] "
      "or "
      "[b, bins] (logits), got {} and {}: {}",
      name, kPlantFeatures, inputs.empty() ? "no input" : inputs, outputs.empty() ? "no output" : outputs, why);
}

// The one input that has the rank and one of the types.
ValueId find_input(const Graph& graph, const std::string& name, size_t rank, std::initializer_list<DType> dtypes,
                   const char* what) {
  ValueId found;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (std::ranges::find(dtypes, value.dtype) == dtypes.end() || dims_of(value).size() != rank) continue;
    if (found.present()) refuse(graph, name, fmt::format("two inputs can be the {}", what));
    found = id;
  }
  if (!found.present()) refuse(graph, name, fmt::format("no input can be the {}", what));
  return found;
}

// The size that two dimensions have, which must not differ; -1 if both are open.
int64_t common(const Graph& graph, const std::string& name, int64_t a, int64_t b, const char* what) {
  if (a >= 0 && b >= 0 && a != b) refuse(graph, name, fmt::format("its {} are {} and {}", what, a, b));
  return a >= 0 ? a : b;
}

}  // namespace

PlantNetwork plant_network(Graph& graph, const std::string& name, double temperature) {
  if (graph.inputs().size() != 2 || graph.outputs().size() != 1) {
    refuse(graph, name,
           fmt::format("its inputs and outputs are {} and {}", graph.inputs().size(), graph.outputs().size()));
  }
  const Graph::Output logits = graph.outputs()[0];
  const ValueId states = find_input(graph, name, 3, {DType::f32}, "states"),
                tokens = find_input(graph, name, 2, {DType::i64, DType::i32}, "tokens");
  const std::vector<Dim> of_states = dims_of(graph.value(states)), of_tokens = dims_of(graph.value(tokens)),
                         of_logits = dims_of(graph.value(logits.value));
  if (graph.value(logits.value).dtype != DType::f32 || (of_logits.size() != 2 && of_logits.size() != 3)) {
    refuse(graph, name, "its output cannot be the logits");
  }
  PlantNetwork plant{.states = graph.value(states).name, .tokens = graph.value(tokens).name};
  plant.narrow = graph.value(tokens).dtype == DType::i32;
  plant.bins = of_logits.back().size;
  if (of_states[2].size != kPlantFeatures) {
    refuse(graph, name, fmt::format("a row of states has {} numbers", of_states[2].size));
  }
  if (plant.bins < 2 || plant.bins > kMostBins) {
    refuse(graph, name,
           plant.bins < 0 ? "its number of bins is open"
                          : fmt::format("{} bins, expected 2 to {}", plant.bins, kMostBins));
  }
  plant.context = common(graph, name, of_states[1].size, of_tokens[1].size, "lengths of states and tokens");
  if (plant.context < 0) plant.context = kContext;
  if (plant.context < 1 || plant.context > kChallengeStart) {
    refuse(graph, name, fmt::format("a length of {} rows, expected 1 to {}", plant.context, kChallengeStart));
  }
  if ((of_states[0].size < 0) != (of_tokens[0].size < 0)) {
    refuse(graph, name, "only one of its inputs has a fixed first dimension");
  }
  const int64_t rows = common(graph, name, of_states[0].size, of_tokens[0].size, "first dimensions");
  common(graph, name, rows, of_logits[0].size, "first dimensions");
  if (rows == 0) refuse(graph, name, "its first dimension is 0");
  plant.routes = std::max<int64_t>(rows, 0);
  if (!graph.states().empty()) {
    refuse(graph, name, "it keeps states, so that its output does not depend on its inputs alone");
  }
  Builder b(graph);
  const ValueId scaled = b.add("Div", {logits.value, b.scalar(DType::f32, temperature)});
  const ValueId probabilities = b.add("Softmax", {scaled}, {{"axis", int64_t{-1}}});
  graph.replace_outputs({{probabilities, kProbabilities}});
  plant.session.outputs = {of_logits.size() == 3 ? fmt::format("{}[:, -1, :]", kProbabilities) : kProbabilities};
  return plant;
}

void choose_batch(PlantNetwork& plant, const std::string& name, std::optional<int64_t> batch, int64_t usual) {
  if (batch.value_or(1) < 1) fail("expected a batch of 1 or more, got {}", *batch);
  const bool fixed = plant.routes > 1;
  if (fixed && batch.value_or(plant.routes) != plant.routes) {
    fail("{}: it takes {} routes at once, not {}", name, plant.routes, *batch);
  }
  plant.batch = fixed ? plant.routes : batch.value_or(usual);
  if (plant.routes == 1) plant.session.batch = plant.batch;
  const int64_t entries = plant.routes == 1 ? 1 : plant.batch;
  plant.session.shapes[plant.states] = Shape({entries, plant.context, kPlantFeatures});
  plant.session.shapes[plant.tokens] = Shape({entries, plant.context});
}

}  // namespace sparkpilot::sim
