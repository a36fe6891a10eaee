// MD5 (RFC 1321). Not for security: comma's controls challenge seeds its simulator by it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sparkpilot::sim {

std::array<uint8_t, 16> md5(std::string_view text);

}  // namespace sparkpilot::sim
