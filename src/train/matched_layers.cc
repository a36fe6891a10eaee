#include "train/matched_layers.h"

#include <algorithm>

#include "adapters/layers.h"
#include "base/error.h"
#include "ops/formula.h"
#include "train/losses.h"

namespace sparkpilot::train {

std::vector<LayerResult> name_results(const Graph& file, Graph& net, const std::string& pattern) {
  const std::vector<Layer> layers = find_layers(file);
  const std::vector<bool> chosen = matching_layers(layers, pattern);
  std::map<std::string, std::vector<NodeId>> nodes;
  for (const NodeId id : net.order()) {
    if (net.node(id).op->traits.product) nodes[net.node(id).name].push_back(id);
  }
  std::vector<LayerResult> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!chosen[i]) continue;
    const std::vector<NodeId>& uses = nodes[layers[i].path];
    for (size_t k = 0; k < uses.size(); ++k) {
      out.push_back({layers[i].path, layers[i].path + (k == 0 ? "/result" : "/result_" + std::to_string(k))});
      net.value(net.node(uses[k]).outputs[0]).name = out.back().name;
    }
  }
  return out;
}

std::map<std::string, ValueId> placed(const std::vector<LayerResult>& results, const Graph& net,
                                      const ValueMap<ValueId>& became) {
  std::map<std::string, ValueId> all, out;
  for (int i = 0; i < net.value_count(); ++i) {
    const ValueId id{i};
    if (!net.value(id).name.empty() && became[id].present()) all[net.value(id).name] = became[id];
  }
  for (const LayerResult& each : results) {
    if (const auto found = all.find(each.name); found != all.end()) out.insert(*found);
  }
  return out;
}

std::vector<LayerPair> pair_results(const Builder& b, const std::vector<LayerResult>& teacher,
                                    const std::map<std::string, ValueId>& teacher_values,
                                    const StudentLayers& student) {
  std::vector<LayerPair> out;
  for (const auto& [layer, name] : teacher) {
    if (!student.paths.contains(layer)) fail("the student has no layer \"{}\": expected the teacher's layers", layer);
    const auto beside = teacher_values.find(name), of = student.results.find(name);
    if (beside == teacher_values.end() || of == student.results.end()) continue;
    if (!(b.shape(of->second) == b.shape(beside->second))) {
      fail("the layer \"{}\" gives {}, the teacher's {}", layer, b.shape(of->second).str(),
           b.shape(beside->second).str());
    }
    out.push_back({of->second, beside->second});
  }
  return out;
}

ValueId layers_loss(Builder& b, const std::vector<LayerPair>& pairs) {
  if (pairs.empty()) fail_internal("no layers to compare");
  Term sum(b, relative_squared_error(b, pairs[0].student, pairs[0].teacher));
  for (size_t i = 1; i < pairs.size(); ++i) {
    sum = sum + Term(b, relative_squared_error(b, pairs[i].student, pairs[i].teacher));
  }
  return (1.0 / static_cast<double>(pairs.size())) * sum;
}

}  // namespace sparkpilot::train
