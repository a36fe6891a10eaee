#include "bench/inputs.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/dimensions.h"

namespace sparkpilot {
namespace {

// Sizes of named dimensions, from the inputs whose shapes are already set. Inputs that differ are noted: a node will
// refuse them, by names that nobody gave.
std::map<std::string, int64_t> named_sizes(const Session& session, std::vector<std::string>& notes) {
  std::map<std::string, int64_t> sizes;
  std::map<std::string, std::string> from;
  for (const TensorInfo& input : session.inputs()) {
    if (!input.shape) continue;
    for (size_t i = 0; i < input.dims.size(); ++i) {
      const std::string& symbol = input.dims[i].symbol;
      if (symbol.empty()) continue;
      const int64_t size = (*input.shape)[static_cast<int>(i)];
      const auto [known, fresh] = sizes.emplace(symbol, size);
      if (fresh) from[symbol] = input.name;
      else if (known->second != size) {
        notes.push_back(fmt::format("dimension \"{}\" is {} in input \"{}\" and {} in input \"{}\"", symbol,
                                    known->second, from[symbol], size, input.name));
      }
    }
  }
  return sizes;
}

}  // namespace

std::vector<std::string> bind_open_dimensions(Session& session, int64_t batch) {
  std::vector<std::string> notes;
  const std::map<std::string, int64_t> known = named_sizes(session, notes);
  for (const TensorInfo& input : std::vector<TensorInfo>(session.inputs())) {
    if (input.shape) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : input.dims) {
      const auto named = known.find(dim.symbol);
      if (dim.size >= 0) sizes.push_back(dim.size);
      else if (named != known.end()) sizes.push_back(named->second);
      else sizes.push_back(sizes.empty() ? batch : 1);
    }
    const Shape shape{std::span<const int64_t>(sizes)};
    session.set_shape(input.name, shape);
    notes.push_back(fmt::format("input \"{}\": {} taken as {}", input.name, declared_text(input.dims), shape.str()));
  }
  return notes;
}

int64_t session_batch(Graph graph, const SessionOptions& options, int64_t batch) {
  if (batch < 1) fail("batch: expected at least 1, got {}", batch);
  fix_dimensions(graph, options.dims, options.shapes);
  if (batch == 1) return 1;
  if (graph.inputs().empty()) fail("a batch of {} is asked for, but the model has no inputs", batch);
  std::string shapes;
  bool fixed = true, any_one = false;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    const std::vector<Dim> declared = input.declared.value_or(std::vector<Dim>{});
    if (!declared.empty() && declared[0].size < 0) return 1;
    fixed &= std::all_of(declared.begin(), declared.end(), [](const Dim& dim) { return dim.size >= 0; });
    any_one |= !declared.empty() && declared[0].size == 1;
    shapes += fmt::format("{}\"{}\" is {}", shapes.empty() ? "" : ", ", input.name, declared_text(declared));
  }
  if (fixed && any_one) return batch;
  fail(
      "a batch of {} is asked for, but no input has an open first dimension, and not all sizes are fixed with 1 in "
      "front: {}",
      batch, shapes);
}

}  // namespace sparkpilot
