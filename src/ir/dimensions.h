// Sizes for the dimensions that a model leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// "[batch, 3, ?]"
std::string declared_text(const std::vector<Dim>& dims);

// Fixes open dimensions: `dims` by their names, `shapes` the whole shape of an input by the input's. A named dimension
// that an input's shape gives a size has that size wherever it is named, in the declared outputs too. Inputs without
// open dimensions have their shape then. Fails (user) where there is no dimension or input of that name, and where rank
// or size differ from what the model, `dims` or another of the shapes says.
void fix_dimensions(Graph& graph, const std::map<std::string, int64_t>& dims,
                    const std::map<std::string, Shape>& shapes);

}  // namespace sparkpilot
