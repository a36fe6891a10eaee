// A model read and written anew: another opset, fewer outputs, fixed dimensions, simplified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

struct ConvertOptions {
  int opset = 0;                        // 0: the model's own where it can be
  bool external_data = false;           // weights beside the model
  bool simplify = false;                // constants folded, equal nodes shared, dead ones dropped
  std::map<std::string, int64_t> dims;  // sizes of named dimensions, fixed in what is written
  std::map<std::string, Shape> shapes;  // and shapes of inputs
  std::vector<std::string> outputs;     // only these, sliced as select_outputs() says; empty: all
};

// Fails (user) with file and node, and where what is written would replace what is read; nothing is written then.
// Returns what the caller may not expect of what was written, a line each.
std::vector<std::string> convert_model(const std::filesystem::path& from, const std::filesystem::path& to,
                                       const ConvertOptions& options = {});

}  // namespace sparkpilot
