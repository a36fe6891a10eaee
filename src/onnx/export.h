// Graphs become ONNX models that other programs load.
#pragma once

#include <filesystem>

#include "ir/graph.h"

namespace sparkpilot {

inline constexpr int kNewestExportOpset = 26;

struct ExportOptions {
  // The opset to write; 0: the graph's own where all its ops are those of that opset and it is not above
  // kNewestExportOpset, else the newest that fits.
  int opset = 0;
  // Weights go to `<file name>.data` beside the model: always, or only where protobuf's 2 GiB would not hold them.
  bool external_data = false;
};

// Writes aside and renames, weights straight from their tensors. Bodies' captures become references to the graph
// around again, internal ops are written as what they expand to, names are made unique (inputs and outputs of the
// graph keep theirs). Fails (user) naming the node that ONNX has no form for; nothing is left behind then. States
// have none: a graph with states is refused.
void save_onnx(const Graph& graph, const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace sparkpilot
