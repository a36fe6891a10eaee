// Sets the sizes of dimensions that a model leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// The declared dimensions as text: "[batch, 3, ?]".
std::string declared_text(const std::vector<Dim>& dims);

// The names of the dimensions that inputs leave open.
std::set<std::string> open_dimensions(const Graph& graph);

// Fixes open dimensions: `dims` by their names, `shapes` the whole shape of an input by its name. If a shape gives a
// size to a named dimension, that dimension has this size everywhere, in the declared outputs too. Afterwards, inputs
// without open dimensions have their shape. Fails (user) if there is no dimension or input of a given name, or a rank
// or size contradicts the model, `dims` or another of the shapes.
void fix_dimensions(Graph& graph, const std::map<std::string, int64_t>& dims,
                    const std::map<std::string, Shape>& shapes);

// Gives the inputs that still have open dimensions a shape in which each of these has this size.
void bind_open_inputs(Graph& graph, int64_t size = 1);

}  // namespace sparkpilot
