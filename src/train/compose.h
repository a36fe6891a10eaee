// Several graphs as one.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "ir/id_map.h"

namespace sparkpilot::train {

// Adds the values, nodes and states of `part` to `into`; its outputs, and constants that nothing reads, are not added.
// `inputs` says for each of its inputs which value of `into` takes its place. Returns which value each of its values
// has become. Nodes keep their names, which may then be there twice. Fails (user) naming an input that `inputs` lacks,
// or whose type or shape does not fit.
ValueMap<ValueId> append_graph(Graph& into, const Graph& part, const std::map<std::string, ValueId>& inputs);

}  // namespace sparkpilot::train
