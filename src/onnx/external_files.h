// The files of external data that a model names.
#pragma once

#include <filesystem>
#include <vector>

namespace sparkpilot {

// Each once, sorted; reads no weights. Without those that load_onnx() would refuse; empty for what is no ONNX model.
std::vector<std::filesystem::path> external_files(const std::filesystem::path& model);

}  // namespace sparkpilot
