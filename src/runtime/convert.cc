#include "runtime/convert.h"

#include "base/error.h"
#include "base/file.h"
#include "ir/infer.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

void fix_dimension(Graph& graph, const std::string& symbol, int64_t size) {
  if (size < 0) fail("dimension \"{}\" cannot be {}", symbol, size);
  bool found = false;
  for (const ValueId input : graph.inputs()) {
    if (!graph.value(input).declared) continue;
    for (Dim& dim : *graph.value(input).declared) {
      if (dim.symbol != symbol) continue;
      dim.size = size;
      found = true;
    }
  }
  if (!found) fail("no input has an open dimension named \"{}\"", symbol);
  for (const Graph::Output& output : graph.outputs()) {
    if (!graph.value(output.value).declared) continue;
    for (Dim& dim : *graph.value(output.value).declared) {
      if (dim.symbol == symbol) dim.size = size;
    }
  }
}

// Inputs without open dimensions have a shape.
void bind_fixed_inputs(Graph& graph) {
  for (const ValueId input : graph.inputs()) {
    const Value& value = graph.value(input);
    if (value.shape || !value.declared) continue;
    std::vector<int64_t> sizes;
    for (const Dim& dim : *value.declared) {
      if (dim.size >= 0) sizes.push_back(dim.size);
    }
    if (sizes.size() == value.declared->size()) bind_input(graph, input, Shape(std::span<const int64_t>(sizes)));
  }
}

}  // namespace

std::vector<std::string> convert_model(const std::filesystem::path& from, const std::filesystem::path& to,
                                       const ConvertOptions& options) {
  std::vector<std::string> notes;
  std::vector<std::filesystem::path> read;
  refuse_to_replace(to, from);
  Graph graph = load_onnx(from, read);
  for (const auto& [symbol, size] : options.dims) fix_dimension(graph, symbol, size);
  if (!options.outputs.empty()) notes.push_back(select_outputs(graph, options.outputs));
  bind_fixed_inputs(graph);
  infer(graph);
  if (options.simplify) {
    while (fold_constants(graph) + share_common(graph) + drop_dead(graph) > 0) infer(graph);
  }
  graph.compact();
  const auto own = graph.opsets.find("");
  const int written =
      save_onnx(graph, to, {.opset = options.opset, .external_data = options.external_data, .keep = read});
  if (options.opset == 0 && own != graph.opsets.end() && own->second != written) {
    notes.push_back(
        fmt::format("written in opset {}: not every node has a form in the model's own, {}", written, own->second));
  }
  std::erase(notes, "");
  return notes;
}

}  // namespace sparkpilot
