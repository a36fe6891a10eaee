#include "compare/variant.h"

#include "base/error.h"
#include "base/with_file.h"
#include "bench/inputs.h"
#include "onnx/import.h"

namespace sparkpilot::compare {

void quantize_variant(Variant& variant, const Samples& samples, const QuantizeProgress& progress) {
  QuantizeSettings settings;
  settings.threads = variant.session.threads;
  variant.graph = std::make_shared<const Graph>(int8_graph(variant.file, variant.session, samples, settings, progress));
}

Session open_variant(const Variant& variant, const Samples* samples, std::vector<std::string>* notes) {
  std::optional<Session> session;
  with_file(variant.file, [&] {
    session.emplace(variant.graph ? *variant.graph : load_onnx(variant.file), variant.session);
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

void set_inputs(Session& session, const Variant& variant, const Samples& samples, size_t i) {
  for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
    const auto found = samples.inputs.find(input.name);
    if (found == samples.inputs.end()) {
      fail("{}: input \"{}\" is not an input of the first model", variant.file.string(), input.name);
    }
    const Tensor& sample = found->second[found->second.size() == 1 ? 0 : i];
    if (input.shape && !(*input.shape == sample.shape())) {
      fail("{}: input \"{}\" is {}, the first model's is {}", variant.file.string(), input.name, input.shape->str(),
           sample.shape().str());
    }
    session.set_input(input.name, (sample.dtype() == input.dtype ? sample : convert(sample, input.dtype)).view());
  }
}

}  // namespace sparkpilot::compare
