#include "ops/cuda/word_products.h"

#include <bit>
#include <cmath>

#include "base/random.h"

namespace sparkpilot::cuda {
namespace {

constexpr int kLanes = 32;

size_t at(int i) { return static_cast<size_t>(i); }

using Codes = std::vector<std::pair<double, uint32_t>>;

// Where the elements of a fragment lie, once for each element width.
WordProduct pack(int bits, uint64_t seed, const Codes& codes, bool integers = false) {
  Random random(seed);
  const int in_word = 32 / bits, depth = 256 / bits;
  WordProduct out{std::vector<uint32_t>(320), std::vector<double>(at(16 * depth)), std::vector<double>(at(depth * 8)),
                  std::vector<double>(128), depth};
  const auto draw = [&] { return codes[at(static_cast<int>(random.integer(0, std::ssize(codes) - 1)))]; };
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2, in_group = lane & 3;
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < in_word; ++i) {
        const auto [value, code] = draw();
        const int row = w == 0 || w == 2 ? group : group + 8, k = in_group * in_word + i + (w >= 2 ? depth / 2 : 0);
        out.a[at(row * depth + k)] = value;
        out.words[at(lane * 4 + w)] |= code << (i * bits);
      }
    }
    for (int w = 0; w < 2; ++w) {
      for (int i = 0; i < in_word; ++i) {
        const auto [value, code] = draw();
        const int k = in_group * in_word + i + (w == 1 ? depth / 2 : 0);
        out.b[at(k * 8 + group)] = value;
        out.words[at(128 + lane * 2 + w)] |= code << (i * bits);
      }
    }
    for (int e = 0; e < 4; ++e) {
      const auto value = static_cast<int32_t>(integers ? random.bits() : random.integer(-9, 9));
      out.c[at((group + (e >= 2 ? 8 : 0)) * 8 + in_group * 2 + (e & 1))] = value;
      out.words[at(192 + lane * 4 + e)] =
          integers ? static_cast<uint32_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value));
    }
  }
  return out;
}

}  // namespace

WordProduct whole_numbers(DType type, uint64_t seed) {
  Codes codes;
  for (int i = -8; i <= 8; ++i) {
    uint32_t code = 0;
    store_element(type, &code, 0, i);
    codes.emplace_back(i, code);
  }
  return pack(type == DType::f8e4m3fn ? 8 : 16, seed, codes);
}

WordProduct product_with_nan(uint64_t seed) {
  WordProduct out = whole_numbers(DType::f8e4m3fn, seed);
  constexpr int lane = 5;  // whose first byte of a is in row 1, at a depth of 4
  out.words[lane * 4] |= 0x7f;
  out.a[32 + 4] = NAN;
  return out;
}

WordProduct integer_product(uint64_t seed) {
  Codes codes;
  for (int i = -128; i < 128; ++i) codes.emplace_back(i, static_cast<uint8_t>(i));
  return pack(8, seed, codes, true);
}

WordProduct four_bit_product(uint64_t seed) {
  Codes codes;
  for (uint32_t code = 0; code < 16; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    codes.emplace_back(load_element(DType::f4e2m1, &byte, 0), code);
  }
  WordProduct out = pack(4, seed, codes);
  out.c.assign(out.c.size(), 0);
  out.words.resize(192);
  // Other scales in the bytes that are not to be read.
  Random random(seed + 1);
  std::vector<double> scale_a(16 * 4), scale_b(8 * 4);
  for (int which = 0; which < 2; ++which) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int group = lane >> 2, in_group = lane & 3;
      uint32_t word = 0;
      for (int block = 0; block < 4; ++block) {
        const auto exponent = static_cast<int>(random.integer(-1, 1));
        word |= static_cast<uint32_t>(exponent + 7) << (3 + 8 * block);
        if (which == 0 && in_group < 2) scale_a[at((group + in_group * 8) * 4 + block)] = std::ldexp(1, exponent);
        if (which == 1 && in_group == 0) scale_b[at(group * 4 + block)] = std::ldexp(1, exponent);
      }
      out.words.push_back(word);
    }
  }
  for (int k = 0; k < 64; ++k) {
    for (int i = 0; i < 16; ++i) out.a[at(i * 64 + k)] *= scale_a[at(i * 4 + k / 16)];
    for (int j = 0; j < 8; ++j) out.b[at(k * 8 + j)] *= scale_b[at(j * 4 + k / 16)];
  }
  return out;
}

namespace {
template <typename T, typename Round>
std::vector<T> fragments(const WordProduct& p, Round round) {
  std::vector<T> out(128);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int e = 0; e < 4; ++e) {
      const int row = (lane >> 2) + (e >= 2 ? 8 : 0), column = (lane & 3) * 2 + (e & 1);
      double sum = p.c[at(row * 8 + column)];
      for (int k = 0; k < p.depth; ++k) sum += p.a[at(row * p.depth + k)] * p.b[at(k * 8 + column)];
      out[at(lane * 4 + e)] = round(sum);
    }
  }
  return out;
}
}  // namespace

std::vector<float> fragments_of(const WordProduct& p) {
  return fragments<float>(p, [](double sum) { return static_cast<float>(sum); });
}

std::vector<uint32_t> integer_fragments_of(const WordProduct& p) {
  return fragments<uint32_t>(p, [](double sum) { return static_cast<uint32_t>(static_cast<int64_t>(sum)); });
}

// Two by two tiles of each warp, f16 by the first and bf16 by the second; thread t writes c[0][j][e] + c[1][j][e] at
// j * 4 + e.
std::pair<std::vector<uint32_t>, std::vector<float>> tile_of_products() {
  std::vector<uint32_t> in(768);
  std::vector<float> out(512);
  for (int warp = 0; warp < 2; ++warp) {
    std::vector<WordProduct> parts;
    for (int i = 0; i < 2; ++i)
      parts.push_back(whole_numbers(warp ? DType::bf16 : DType::f16, static_cast<uint64_t>(20 + warp * 2 + i)));
    for (int lane = 0; lane < kLanes; ++lane) {
      const int t = warp * kLanes + lane;
      for (int i = 0; i < 8; ++i) in[at(t * 8 + i)] = parts[at(i / 4)].words[at(lane * 4 + i % 4)];
      for (int i = 0; i < 4; ++i) in[at(512 + t * 4 + i)] = parts[at(i / 2)].words[at(128 + lane * 2 + i % 2)];
    }
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        const auto one = fragments_of({{}, parts[at(i)].a, parts[at(j)].b, std::vector<double>(128), 16});
        for (int lane = 0; lane < kLanes; ++lane) {
          for (int e = 0; e < 4; ++e) out[at((warp * kLanes + lane) * 8 + j * 4 + e)] += one[at(lane * 4 + e)];
        }
      }
    }
  }
  return {in, out};
}

}  // namespace sparkpilot::cuda
