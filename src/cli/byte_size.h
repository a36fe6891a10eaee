// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace sparkpilot::cli {

// Bytes of "2G", "500M", "20K", "1T" or "1000": decimal units, as disks have them. Fails (user) naming the flag on
// anything else, and on less than 1.
int64_t parse_bytes(const std::string& text, const std::string& flag);

}  // namespace sparkpilot::cli
