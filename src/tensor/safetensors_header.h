// The header of a safetensors file, read and written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/safetensors.h"

namespace sparkpilot {

inline constexpr int64_t kSafetensorsLength = 8;  // bytes of the header's length, before it
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsHeader {
  std::vector<SafetensorsReader::Entry> entries;  // in the order of their offsets, which count from the data's begin
  std::map<std::string, std::string> metadata;
};

// Checks all that safetensors.h promises; `data_bytes` come after the header. Errors do not name the file.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes);

// The header's length and the header, padded with spaces to a multiple of eight and to at least `at_least` bytes.
std::string format_safetensors_header(const SafetensorsHeader& header, int64_t at_least = 0);

// Types of more bytes first, otherwise as they are: then every tensor is aligned.
std::vector<size_t> safetensors_order(const std::vector<DType>& dtypes);

}  // namespace sparkpilot
