#include "compare/variant.h"

#include <algorithm>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/with_file.h"
#include "bench/inputs.h"
#include "bench/quantize.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "passes/precision.h"
#include "passes/small_weights.h"
#include "runtime/session.h"

namespace sparkpilot::compare {

void quantize_variant(Variant& variant, const Samples& samples, const QuantizeProgress& progress) {
  QuantizeSettings settings;
  settings.threads = variant.session.threads;
  variant.graph = std::make_shared<const Graph>(int8_graph(variant.file, variant.session, samples, settings, progress));
  variant.session.dims.clear();  // all its sizes are fixed now
}

Session open_variant(const Variant& variant, const Samples* samples, std::vector<std::string>* notes) {
  std::optional<Session> session;
  with_file(variant.file, [&] {
    session.emplace(variant.graph ? *variant.graph : load_model(variant.file), variant.session);
    for (const TensorInfo& input : std::vector<TensorInfo>(session->inputs())) {
      if (input.shape || !samples) continue;
      const auto found = samples->inputs.find(input.name);
      if (found != samples->inputs.end() && !found->second.empty()) {
        session->set_shape(input.name, found->second[0].shape());
      }
    }
    const std::vector<std::string> assumed = bind_open_dimensions(*session);
    if (notes) notes->insert(notes->end(), assumed.begin(), assumed.end());
  });
  return std::move(*session);
}

Variant settled(Variant variant, const Session& session) {
  variant.session.choices = session.choices();
  variant.session.threads = session.threads();
  variant.session.tune = Tune::off;
  return variant;
}

std::string same_precision(const Variant& variant, const Session& session) {
  if (!stores_small(session.precision())) return {};
  Graph graph = variant.graph ? *variant.graph : load_model(variant.file);
  fix_dimensions(graph, variant.session.dims, variant.session.shapes);
  if (!variant.session.outputs.empty()) select_outputs(graph, variant.session.outputs);
  for (size_t i = 0; i < graph.inputs().size(); ++i) bind_input(graph, graph.inputs()[i], *session.inputs()[i].shape);
  graph = plain_graph(std::move(graph));
  const auto plan = plan_small(graph, session.precision());
  if (plan.empty()) return "fp32";
  const bool four = std::ranges::any_of(plan, [](const auto& node) { return node.second == WeightFormat::fp4; });
  return session.precision() == Precision::fp4 && !four ? "fp8" : "";
}

Tensor sample_for(const Variant& variant, const Samples& samples, size_t i, const std::string& input, DType dtype,
                  const std::optional<Shape>& shape) {
  const auto found = samples.inputs.find(input);
  if (found == samples.inputs.end()) {
    fail("{}: input \"{}\" is not an input of the first model", variant.file.string(), input);
  }
  const Tensor& sample = found->second[found->second.size() == 1 ? 0 : i];
  if (shape && !(*shape == sample.shape())) {
    fail("{}: input \"{}\" is {}, the first model's is {}", variant.file.string(), input, shape->str(),
         sample.shape().str());
  }
  return sample.dtype() == dtype ? sample : convert(sample, dtype);
}

void set_inputs(Session& session, const Variant& variant, const Samples& samples, size_t i) {
  for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
    const Tensor sample = sample_for(variant, samples, i, input.name, input.dtype, input.shape);
    session.set_input(input.name, sample.view());
  }
}

}  // namespace sparkpilot::compare
