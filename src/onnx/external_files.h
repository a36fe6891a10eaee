// The files of external data that a model names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sparkpilot {

// Each once, sorted; reads no weights. Without those that load_onnx() would refuse; empty for what is no ONNX model.
std::vector<std::filesystem::path> external_files(const std::filesystem::path& model);
// The names in the bytes of a model, wherever its tensors are. Fails (user) on what is no ONNX model.
std::set<std::string> external_names(std::span<const std::byte> model);

}  // namespace sparkpilot
