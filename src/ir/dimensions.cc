#include "ir/dimensions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/infer.h"

namespace sparkpilot {
namespace {

// Fixes the open dimension of that name everywhere, if an input has it; returns whether one has.
bool fix_named(Graph& graph, const std::string& symbol, int64_t size) {
  bool found = false;
  const auto fix = [&](Value& value) {
    if (!value.declared) return false;
    bool any = false;
    for (Dim& dim : *value.declared) {
      if (dim.size >= 0 || dim.symbol != symbol) continue;
      dim.size = size;
      any = true;
    }
    return any;
  };
  for (const ValueId input : graph.inputs()) found |= fix(graph.value(input));
  if (!found) return false;
  for (const Graph::Output& output : graph.outputs()) fix(graph.value(output.value));
  return true;
}

ValueId input_named(const Graph& graph, const std::string& name) {
  const ValueId found = graph.find_input(name);
  if (found.present()) return found;
  std::string names;
  for (const ValueId id : graph.inputs()) names += (names.empty() ? "" : ", ") + graph.value(id).name;
  fail("the model has no input \"{}\"; it has: {}", name, names);
}

void fix_input(Graph& graph, const std::string& name, const Shape& shape) {
  Value& input = graph.value(input_named(graph, name));
  if (!input.declared) {  // of any rank
    input.declared.emplace();
    for (const int64_t size : shape) input.declared->push_back({size, {}});
    return;
  }
  const std::vector<Dim> declared = *input.declared;
  bool fits = std::ssize(declared) == shape.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    const Dim& dim = (*input.declared)[static_cast<size_t>(axis)];
    if (dim.size < 0 && !dim.symbol.empty()) fix_named(graph, dim.symbol, shape[axis]);
    if (dim.size < 0) (*input.declared)[static_cast<size_t>(axis)].size = shape[axis];
    fits = dim.size == shape[axis];
  }
  if (!fits) fail("input \"{}\" is {}, the shape given for it {}", name, declared_text(declared), shape.str());
}

// Fails where two shapes give one named dimension two sizes.
void check_alike(const Graph& graph, const std::map<std::string, Shape>& shapes) {
  std::map<std::string, std::pair<std::string, int64_t>> known;  // the input that a dimension's size is from
  for (const auto& [name, shape] : shapes) {
    const Value& input = graph.value(input_named(graph, name));
    if (!input.declared || std::ssize(*input.declared) != shape.rank()) continue;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const Dim& dim = (*input.declared)[static_cast<size_t>(axis)];
      if (dim.size >= 0 || dim.symbol.empty()) continue;
      const auto& [other, size] = known.try_emplace(dim.symbol, name, shape[axis]).first->second;
      if (size == shape[axis]) continue;
      fail("dimension \"{}\" is {} in the shape given for input \"{}\" and {} in that for \"{}\"", dim.symbol, size,
           other, shape[axis], name);
    }
  }
}

}  // namespace

std::set<std::string> open_dimensions(const Graph& graph) {
  std::set<std::string> names;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (input.shape || !input.declared) continue;
    for (const Dim& dim : *input.declared) {
      if (dim.size < 0 && !dim.symbol.empty()) names.insert(dim.symbol);
    }
  }
  return names;
}

std::string declared_text(const std::vector<Dim>& dims) {
  std::string out;
  for (const Dim& dim : dims) {
    if (!out.empty()) out += ", ";
    out += dim.size >= 0 ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return "[" + out + "]";
}

void fix_dimensions(Graph& graph, const std::map<std::string, int64_t>& dims,
                    const std::map<std::string, Shape>& shapes) {
  for (const auto& [symbol, size] : dims) {
    if (size < 0) fail("dimension \"{}\" cannot be {}", symbol, size);
    if (symbol.empty() || !fix_named(graph, symbol, size)) {
      const std::set<std::string> open = open_dimensions(graph);
      fail("no input has an open dimension named \"{}\"{}", symbol,
           open.empty() ? ", nor any with a name" : fmt::format("; there are: {}", fmt::join(open, ", ")));
    }
  }
  check_alike(graph, shapes);
  for (const auto& [name, shape] : shapes) fix_input(graph, name, shape);
  for (const ValueId id : graph.inputs()) {
    Value& input = graph.value(id);
    if (input.shape || !input.declared) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : *input.declared) {
      if (dim.size >= 0) sizes.push_back(dim.size);
    }
    if (sizes.size() == input.declared->size()) input.shape = Shape(std::span<const int64_t>(sizes));
  }
}

void bind_open_inputs(Graph& graph, int64_t size) {
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (value.shape || !value.declared) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : *value.declared) sizes.push_back(dim.size >= 0 ? dim.size : size);
    bind_input(graph, id, Shape(std::span<const int64_t>(sizes)));
  }
}

}  // namespace sparkpilot
