// The files of external data that a model names.
#pragma once

#include <filesystem>
#include <vector>

namespace sparkpilot {

// Each once, sorted; reads no weights. Empty for what is no ONNX model, and where load_onnx() would refuse one of them.
std::vector<std::filesystem::path> external_files(const std::filesystem::path& model);

}  // namespace sparkpilot
