// ONNX models become graphs. IR 3 to 13, opsets up to 28.
//
// Weights, wherever they are (initializers, graph inputs with an initializer, Constant nodes, external data), become
// constants of the graph, read once from the file into their place. Model-local functions are inlined. What the bodies
// of If, Loop and Scan use from around them becomes explicit, as ir/graph.h says. No shapes are inferred here.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "sparkpilot/graph.h"

namespace sparkpilot {

inline constexpr int kNewestIr = 13, kOldestIr = 3, kNewestOpset = 28;

// Fails (user) with the file and, where there is one, the node in the message; throws Unsupported, which is such an
// error too, for what the model may hold and sparkpilot does not do.
Graph load_onnx(const std::filesystem::path& path);

// The same for bytes in memory; `name` stands for the file in messages. External data is refused.
Graph parse_onnx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace sparkpilot
