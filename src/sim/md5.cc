#include "sim/md5.h"

#include <bit>
#include <string>

namespace sparkpilot::sim {
namespace {

constexpr std::array<uint32_t, 64> kSines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

// Bytes of a little-endian number, whatever the machine's order.
uint32_t word(const char* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(at[i])} << (8 * i);
  return value;
}

void add_block(const char* block, std::array<uint32_t, 4>& sum) {
  auto [a, b, c, d] = sum;
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t mixed = 0, k = 0;
    switch (i / 16) {
      case 0: mixed = (b & c) | (~b & d), k = i; break;
      case 1: mixed = (d & b) | (~d & c), k = (5 * i + 1) % 16; break;
      case 2: mixed = b ^ c ^ d, k = (3 * i + 5) % 16; break;
      default: mixed = c ^ (b | ~d), k = 7 * i % 16; break;
    }
    const uint32_t turned = std::rotl(a + mixed + kSines[i] + word(block + size_t{4} * k), kShifts[i / 16][i % 4]);
    a = d, d = c, c = b, b += turned;
  }
  sum[0] += a, sum[1] += b, sum[2] += c, sum[3] += d;
}

}  // namespace

std::array<uint8_t, 16> md5(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8);
  for (int i = 0; i < 8; ++i) padded += static_cast<char>(uint64_t{text.size()} * 8 >> (8 * i));
  std::array<uint32_t, 4> sum = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (size_t at = 0; at < padded.size(); at += 64) add_block(padded.data() + at, sum);
  std::array<uint8_t, 16> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(sum[i / 4] >> (i % 4 * 8));
  return out;
}

}  // namespace sparkpilot::sim
