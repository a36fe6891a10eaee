// A student's layers beside those of a teacher with the same layers: what they compute is compared.
#pragma once

#include <map>
#include <set>
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
// which no adapter has changed. Of the layers that the regular expression chooses (matching_layers()), perhaps none.
std::vector<LayerResult> name_results(const Graph& file, Graph& net, const std::string& pattern = ".*");

// A network's results with the values that they have become in another graph (append_graph()).
std::map<std::string, ValueId> placed(const std::vector<LayerResult>& results, const Graph& net,
                                      const ValueMap<ValueId>& became);

struct LayerPair {
  ValueId student, teacher;
};

struct StudentLayers {
  std::set<std::string> paths = {};             // of all of its file's layers
  std::map<std::string, ValueId> results = {};  // placed()
};

// The teacher's results, each with the student's; what passes have replaced in one of the networks is left out. Fails
// (user) naming a layer that the student lacks or whose result has another shape.
std::vector<LayerPair> pair_results(const Builder& b, const std::vector<LayerResult>& teacher,
                                    const std::map<std::string, ValueId>& teacher_values, const StudentLayers& student);

// The mean of relative_squared_error() over the pairs, of which there is at least one.
ValueId layers_loss(Builder& b, const std::vector<LayerPair>& pairs);

}  // namespace sparkpilot::train
