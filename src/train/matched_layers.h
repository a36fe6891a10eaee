// A student's layers beside those of a teacher with the same layers: what they compute is compared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/id_map.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::train {

// What a layer (adapters/layers.h) computes, before what follows it. A layer that is used twice has two.
struct LayerResult {
  std::string layer;  // its path
  std::string name;   // of the value
};

// Gives the results of layers names in `net`, which is `file` with its layers named (name_layers()) and prepared, and
// which no adapter has changed. Of the layers that the regular expression chooses (matching_layers()).
std::vector<LayerResult> name_results(const Graph& file, Graph& net, const std::string& pattern = ".*");

// A network's results with the values that they have become in another graph (append_graph()).
std::map<std::string, ValueId> placed(const std::vector<LayerResult>& results, const Graph& net,
                                      const ValueMap<ValueId>& became);

struct LayerPair {
  ValueId student, teacher;
};

// The teacher's results, each with the student's; what passes have replaced in one of the networks is left out. Fails
// (user) naming a layer that the student lacks or whose result has another shape, and if nothing is left.
std::vector<LayerPair> pair_results(const Builder& b, const std::vector<LayerResult>& teacher,
                                    const std::map<std::string, ValueId>& student_values,
                                    const std::map<std::string, ValueId>& teacher_values);

// The mean of relative_squared_error() over the pairs, of which there is at least one.
ValueId layers_loss(Builder& b, const std::vector<LayerPair>& pairs);

}  // namespace sparkpilot::train
