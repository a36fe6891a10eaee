// The hash of a file's bytes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/fnv.h"

namespace sparkpilot {

// Adds the bytes of a file to `hash` and returns their number. Fails (user) naming a file that cannot be read.
int64_t add_file(Fnv& hash, const std::filesystem::path& path);

}  // namespace sparkpilot
