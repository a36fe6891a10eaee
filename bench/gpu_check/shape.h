// What gpu_check.json holds, field by field, and whether a document is such a file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sparkpilot::gpu_check {

using Json = nlohmann::ordered_json;

inline constexpr const char* kFormat = "sparkpilot gpu_check";
inline constexpr int kFormatVersion = 1;

// Whether this program, in any version, wrote it.
bool is_ours(const Json& document);

// The first field that is missing, of another type, too much, or contradicts another one, and what was expected there:
// "parts.ops.failures[2]: expected a text, got 7". Empty if it is whole.
std::string fault_of(const Json& document);

}  // namespace sparkpilot::gpu_check
