#include "compare/peer_run.h"

#include "base/error.h"
#include "base/with_file.h"
#include "ir/dimensions.h"
#include "ir/graph.h"
#include "onnx/import.h"
#include "passes/precision.h"

namespace sparkpilot::compare {

PeerRun::PeerRun(const Variant& variant, const Samples& samples, int threads, const PeerOptions& options)
    : variant_(variant), samples_(samples), peer_(*variant.peer, options) {
  with_file(variant.file, [&] {
    Graph graph = load_onnx(variant.file);
    for (const ValueId id : graph.inputs()) inputs_.push_back({.open = !graph.value(id).shape});
    fix_dimensions(graph, variant.session.dims, variant.session.shapes);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Value& value = graph.value(graph.inputs()[i]);
      inputs_[i] = {value.name, value.dtype, value.shape, inputs_[i].open};
    }
  });
  request_ = {.model = variant.file,
              .threads = variant.session.threads > 0 ? variant.session.threads : threads,
              .precision = std::string(name(variant.session.passes.precision))};
  for (const Input& input : inputs_) {
    const Tensor sample = sample_for(variant, samples, 0, input.name, input.dtype, input.shape);
    if (input.open) request_.shapes[input.name] = sample.shape();
  }
}

void PeerRun::load(const std::vector<std::string>& outputs) {
  request_.outputs = outputs;
  loaded_ = peer_.load(request_);
}

void PeerRun::set_sample(size_t i) {
  std::map<std::string, Tensor> inputs;
  for (const Input& input : inputs_) {
    inputs[input.name] = sample_for(variant_, samples_, i, input.name, input.dtype, input.shape);
  }
  peer_.set_inputs(inputs);
}

Side peer_side_of(const Variant& variant, const Samples& samples, int threads, const PeerOptions& options) {
  Side side;
  const Graph file = load_onnx(variant.file);
  for (const NodeId id : file.order()) {
    for (const ValueId value : file.node(id).outputs) {
      if (value.present() && !file.value(value).name.empty()) side.names.insert(file.value(value).name);
    }
  }
  const auto peer = std::make_shared<PeerRun>(variant, samples, threads, options);
  side.run = [peer](const std::set<std::string, std::less<>>& keep, size_t sample) {
    peer->load({keep.begin(), keep.end()});
    peer->set_sample(sample);
    peer->run(1);
    Values values;
    for (auto& [name, tensor] : peer->outputs()) values.insert_or_assign(name, std::move(tensor));
    return values;
  };
  return side;
}

}  // namespace sparkpilot::compare
