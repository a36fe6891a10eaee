// Reads ONNX models into graphs (IR 3 to 13, opsets up to 28) and writes graphs as ONNX models.
//
// Weights, wherever they are (initializers, graph inputs with an initializer, Constant nodes, external data), become
// constants of the graph, read once from the file into their final memory. Model-local functions are inlined. Values
// that bodies of If, Loop and Scan use from the enclosing graph become explicit inputs (sparkpilot/graph.h). No shapes
// are inferred here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparkpilot/graph.h"

namespace sparkpilot {

inline constexpr int kNewestIr = 13, kOldestIr = 3, kNewestOpset = 28;

// Fails (user) with the file and, if there is one, the node in the message. For valid ONNX that sparkpilot does not
// support it throws Unsupported, which is such an error too.
Graph load_onnx(const std::filesystem::path& path);
// The same; `files` receives the paths that were read: the file itself and those with external data.
Graph load_onnx(const std::filesystem::path& path, std::vector<std::filesystem::path>& files);

// The same for bytes in memory; `name` stands for the file in messages. External data is refused.
Graph parse_onnx(std::span<const std::byte> bytes, const std::string& name);

// ---------------------------------------------------------------- openpilot's metadata
// Python's slice(start, stop, step).
struct OutputSlice {
  std::optional<int64_t> start = {}, stop = {}, step = {};

  // The elements that it selects from `length`, as [begin, end); fails (user) on a step other than 1.
  std::pair<int64_t, int64_t> resolve(int64_t length) const;
  bool operator==(const OutputSlice&) const = default;
};

// The part of a driving model's flat output that each head has: a dictionary name -> slice, kept in metadata_props as
// `output_slices`, base64 of a Python pickle.
using OutputSlices = std::vector<std::pair<std::string, OutputSlice>>;  // in the order of the dictionary

// The slices of a model; empty if it has none. Fails (user) if they cannot be read.
OutputSlices output_slices(const Graph& graph);

// ---------------------------------------------------------------- writing
inline constexpr int kNewestExportOpset = 26;

struct ExportOptions {
  // The opset to write; 0: the graph's own if all its ops can be expressed in it and it is not above
  // kNewestExportOpset, else the newest that fits.
  int opset = 0;
  // Weights go to `<file name>.data` next to the model: always, or only if they exceed protobuf's 2 GiB.
  bool external_data = false;
  // Files that must not be replaced, such as those that the graph was read from: fails (user) instead.
  std::vector<std::filesystem::path> keep = {};
};

// Writes to a temporary name and renames; weights are written straight from their tensors. Bodies' captures become
// references to the enclosing graph again, internal ops are written as their expansions, names are made unique (inputs
// and outputs of the graph keep theirs). Fails (user) naming a node that ONNX cannot express, and leaves no file; a
// graph with states is refused too. Returns the opset that was written.
int save_onnx(const Graph& graph, const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace sparkpilot
