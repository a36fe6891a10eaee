// Base64 (RFC 4648), as Python's codecs write it: lines of 76 characters, each followed by a newline.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

std::string encode_base64(std::span<const std::byte> bytes);
// White space is skipped, padding is checked; fails (user) on anything else that is not base64.
std::vector<std::byte> decode_base64(std::string_view text);

}  // namespace sparkpilot
