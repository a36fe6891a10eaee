// What load_adapter() does with the files' contents.
#pragma once

#include <filesystem>
#include <string>

#include "adapters/adapter.h"
#include "tensor/safetensors.h"

namespace sparkpilot {

// Errors name the files as if they were in `folder`.
Adapter read_adapter(const std::string& config, const SafetensorsFile& tensors, const std::filesystem::path& folder);

}  // namespace sparkpilot
