// Sizes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparkpilot {

// Bytes of "2G", "500M", "500MB", "200kB", "1T", "1000" or "1000B": decimal units, as disks have them. Nothing for
// anything else, for less than 1, and for more than 2^60.
std::optional<int64_t> read_bytes(std::string_view text);
// The same; fails (user) naming the flag.
int64_t parse_bytes(const std::string& text, const std::string& flag);

}  // namespace sparkpilot
