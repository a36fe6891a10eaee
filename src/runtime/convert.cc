#include "runtime/convert.h"

#include "base/error.h"
#include "base/file.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "runtime/session.h"

namespace sparkpilot {

std::vector<std::string> convert_model(const std::filesystem::path& from, const std::filesystem::path& to,
                                       const ConvertOptions& options) {
  std::vector<std::string> notes;
  std::vector<std::filesystem::path> read;
  refuse_to_replace(to, from);
  Graph graph = load_onnx(from, read);
  fix_dimensions(graph, options.dims, options.shapes);
  if (!options.outputs.empty()) notes.push_back(select_outputs(graph, options.outputs));
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
