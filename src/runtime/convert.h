// Converts a model file: another opset, fewer outputs, fixed dimensions, simplified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

struct ConvertOptions {
  int opset = 0;                        // 0: the model's opset if possible
  bool external_data = false;           // weights in a separate file next to the model
  bool simplify = false;                // folds constants, merges equal nodes, drops dead ones
  std::map<std::string, int64_t> dims;  // sizes of named dimensions, fixed in the written model
  std::map<std::string, Shape> shapes;  // shapes of inputs, fixed too
  std::vector<std::string> outputs;     // only these, sliced as select_outputs() says; empty: all
};

// Fails (user) with file and node, also if a written file would replace one that is read; then nothing is written.
// Returns notes about the written model that the caller may not expect, one line each.
std::vector<std::string> convert_model(const std::filesystem::path& from, const std::filesystem::path& to,
                                       const ConvertOptions& options = {});

}  // namespace sparkpilot
