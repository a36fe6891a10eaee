// What each word of device.cuh answers, written from its definition in C++ and NVIDIA's PTX manual.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "ops/cuda/word_products.h"
#include "ops/cuda/words_check.h"
#include "tensor/small_floats.h"

namespace sparkpilot::cuda {
namespace {

constexpr size_t kThreads = 64, kLanes = 32;
using Floats = std::vector<float>;
using Words = std::vector<uint32_t>;

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// Integers and codes, which are compared by their bits; f32, of which every NaN is the same.
template <typename In, typename Out>
WordCase exactly(std::string_view word, const std::vector<In>& in, const std::vector<Out>& expected) {
  WordCase out{.word = word, .in = bytes_of(in), .expected = bytes_of(expected), .exact = {}, .last_places = {}};
  out.element_bytes = sizeof(Out);
  if (std::is_same_v<Out, float>) out.floats_from = 0;
  return out;
}

Floats numbers(size_t count, uint64_t seed, double scale = 1) {
  Random random(seed);
  Floats out(count);
  for (float& x : out) x = static_cast<float>(random.normal() * scale);
  return out;
}
Words random_words(size_t count, uint64_t seed) {
  Random random(seed);
  Words out(count);
  for (uint32_t& x : out) x = random.bits();
  return out;
}

// Each special value, ties and limits among ordinary ones.
Floats edge_cases(size_t count) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  Floats out = {0.0f,         -0.0f,       inf,         -inf,     NAN,        -NAN,     65504,        65519.9f,
                65520,        -65520,      0x1p-24f,    0x1p-25f, 0x1.8p-25f, 0x1p-14f, 0x1.ffep-15f, 1 + 0x1p-11f,
                1 + 0x3p-11f, 1 + 0x1p-8f, 1 + 0x3p-8f, 448,      464,        480,      0x1p-9f,      0x1p-10f,
                0x1.8p-10f,   0x1.fp-7f,   17,          19,       3.4e38f,    1e-40f};
  const Floats more = numbers(count - out.size(), 11, 30);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// As the tensor's own conversions; a GPU makes one NaN of all.
uint16_t half_of(float x) { return std::isnan(x) ? 0x7fff : float_to_half(x); }
uint16_t bfloat16_of(float x) { return std::isnan(x) ? 0x7fff : float_to_bfloat16(x); }
uint8_t e4m3_of(float x) {
  uint8_t out = 0x7f;
  if (!std::isnan(x)) store_element(DType::f8e4m3fn, &out, 0, x, true);
  return out;
}

void small_floats(std::vector<WordCase>& out) {
  const Floats x = edge_cases(kThreads);
  std::vector<uint16_t> halves(kThreads), bfloats(kThreads), bits(kThreads);
  std::vector<uint8_t> small(kThreads);
  std::ranges::transform(x, halves.begin(), half_of);
  std::ranges::transform(x, bfloats.begin(), bfloat16_of);
  std::ranges::transform(x, small.begin(), e4m3_of);
  out.push_back(exactly("half", x, halves));
  out.push_back(exactly("bfloat16", x, bfloats));
  out.push_back(exactly("e4m3", x, small));
  Random random(3);
  for (uint16_t& b : bits) b = static_cast<uint16_t>(random.bits());
  bits[0] = 0xfc00, bits[1] = 0x7c00, bits[2] = 0x8001, bits[3] = 0x03ff, bits[4] = 0x7e01;
  Floats values(kThreads);
  std::ranges::transform(bits, values.begin(), half_to_float);
  out.push_back(exactly("half_value", bits, values));
  for (int first = 0; first < 256; first += static_cast<int>(kThreads)) {
    std::iota(small.begin(), small.end(), static_cast<uint8_t>(first));
    for (size_t i = 0; i < kThreads; ++i)
      values[i] = static_cast<float>(load_element(DType::f8e4m3fn, small.data(), static_cast<int64_t>(i)));
    out.push_back(exactly("e4m3_value", small, values));
  }
}

uint8_t e2m1_of(float x) { return std::isnan(x) ? 7 : float_to_e2m1(x); }

// Codes themselves, the middles between them, and their neighbours; and numbers of all sizes.
void four_bits(std::vector<WordCase>& out) {
  Floats near;
  for (const float middle : {0.0f, 0.25f, 0.5f, 0.75f, 1.25f, 1.75f, 2.5f, 3.0f, 3.5f, 5.0f, 6.0f, 7.0f}) {
    for (const float each : {middle, std::nextafter(middle, 9.0f), std::nextafter(middle, -9.0f)}) {
      near.push_back(each);
      near.push_back(-each);
    }
  }
  near.resize(2 * kThreads, 1.0f);
  for (const Floats& numbers : {edge_cases(2 * kThreads), near}) {
    std::vector<uint8_t> codes(kThreads);
    for (size_t i = 0; i < 2 * kThreads; ++i) codes[i / 2] |= static_cast<uint8_t>(e2m1_of(numbers[i]) << i % 2 * 4);
    out.push_back(exactly("e2m1x2", numbers, codes));
  }
}

// Packed pairs, then the values of what was packed.
void pairs(std::vector<WordCase>& out) {
  const Floats x = edge_cases(2 * kThreads);
  for (const bool half : {true, false}) {
    Words y(3 * kThreads);
    for (size_t i = 0; i < 2 * kThreads; ++i) {
      const uint16_t bits = half ? half_of(x[i]) : bfloat16_of(x[i]);
      y[i / 2] |= static_cast<uint32_t>(bits) << i % 2 * 16;
      y[kThreads + i] = bits_of(half ? half_to_float(bits) : bfloat16_to_float(bits));
    }
    out.push_back(exactly(half ? "half2" : "bfloat162", x, y));
    out.back().floats_from = kThreads;
  }
}

// Products of pairs of 16 bits, subnormal ones among them.
void products_of_pairs(std::vector<WordCase>& out) {
  for (const bool half : {true, false}) {
    Words x(2 * kThreads), y(kThreads);
    const Floats factors = numbers(4 * kThreads, half ? 21 : 22, 8);
    const auto bits_16 = [&](float v) { return half ? half_of(v) : bfloat16_of(v); };
    const auto value = [&](uint32_t bits) {
      const auto low = static_cast<uint16_t>(bits);
      return half ? half_to_float(low) : bfloat16_to_float(low);
    };
    for (size_t i = 0; i < 2 * kThreads; ++i)
      x[i] = bits_16(factors[2 * i]) | static_cast<uint32_t>(bits_16(factors[2 * i + 1])) << 16;
    x[0] = 0x00010003, x[kThreads] = half ? 0x7bff3c00 : 0x7b807b80;  // subnormal numbers made normal
    x[1] = 0x80000000, x[kThreads + 1] = 0x40004000;                  // both zeros
    x[2] = half ? 0x04000400 : 0x3f803f80, x[kThreads + 2] = half ? 0x38003400 : 0x3f813f81;
    for (size_t i = 0; i < kThreads; ++i) {
      const uint32_t a = x[i], b = x[kThreads + i];
      y[i] = bits_16(value(a) * value(b)) | static_cast<uint32_t>(bits_16(value(a >> 16) * value(b >> 16))) << 16;
    }
    out.push_back(exactly(half ? "multiply_half2" : "multiply_bfloat162", x, y));
  }
}

void copies(std::vector<WordCase>& out) {
  const Words wide = random_words(1024, 4);
  out.push_back(exactly("wide_copies", wide, wide));
  out.push_back(exactly("copy_groups", wide, wide));
  for (const auto& [word, size] : {std::pair("copy_async_16", 16), {"copy_async_8", 8}, {"copy_async_4", 4}}) {
    const auto bytes = static_cast<size_t>(size);
    const Words words = random_words(kThreads * bytes / 4, 5);
    std::vector<uint8_t> expected(kThreads * bytes);
    std::memcpy(expected.data(), words.data(), expected.size());
    for (size_t t = 0; t < kThreads; ++t) {
      for (size_t i = t % (bytes + 1); i < bytes; ++i) expected[t * bytes + i] = 0;
    }
    out.push_back(exactly(word, words, expected));
  }
}

// "Each thread holds two consecutive elements of row lane / 4" (PTX manual, ldmatrix).
void matrices(std::vector<WordCase>& out) {
  std::vector<uint16_t> rows(256);
  std::iota(rows.begin(), rows.end(), uint16_t{0});
  for (const bool transposed : {false, true}) {
    Words y(kThreads * 4);
    for (size_t t = 0; t < kThreads; ++t) {
      const auto at = [&](size_t matrix, size_t row, size_t column) {
        const size_t lane = matrix * 8 + row, r = t < kLanes ? lane : (lane * 5 + 3) % 32;
        return static_cast<uint32_t>(r * 8 + column);
      };
      for (size_t m = 0; m < 4; ++m) {
        const size_t r = t % kLanes / 4, c = t % 4 * 2;
        y[t * 4 + m] = transposed ? at(m, c, r) | at(m, c + 1, r) << 16 : at(m, r, c) | at(m, r, c + 1) << 16;
      }
    }
    out.push_back(exactly(transposed ? "matrix_x4_transposed" : "matrix_x4", rows, y));
  }
}

void products(std::vector<WordCase>& out) {
  for (const auto& [word, type] :
       {std::pair("mma_f16", DType::f16), {"mma_bf16", DType::bf16}, {"mma_e4m3", DType::f8e4m3fn}}) {
    const WordProduct product = whole_numbers(type, 6);
    out.push_back(exactly(word, product.words, fragments_of(product)));
  }
  const WordProduct nan = product_with_nan(8), integers = integer_product(9), scaled = four_bit_product(7);
  out.push_back(exactly("mma_e4m3", nan.words, fragments_of(nan)));
  out.push_back(exactly("mma_s8", integers.words, integer_fragments_of(integers)));
  out.push_back(exactly("mma_e2m1", scaled.words, fragments_of(scaled)));
  const auto [in, expected] = tile_of_products();
  out.push_back(exactly("mma_tile", in, expected));
}

void warps(std::vector<WordCase>& out) {
  Words x = random_words(kThreads, 9), moved, votes;
  x[3] |= 2;
  for (size_t i = kLanes; i < kThreads; ++i) x[i] |= 4;
  for (size_t t = 0; t < kThreads; ++t) {
    const size_t lane = t % kLanes, base = t - lane;
    const auto of = [&](size_t l) { return x[base + l]; };
    for (const size_t from : {31 - lane, lane ^ 5, lane + 3 < 32 ? lane + 3 : lane, lane >= 7 ? lane - 7 : lane,
                              ((lane ^ 8) & ~size_t{7}) + 2})
      moved.push_back(of(from));
    uint32_t odd = 0, any = 0, all = 1;
    for (size_t l = 0; l < kLanes; ++l) {
      odd |= (of(l) & 1) << l;
      any |= (of(l) & 2) != 0;
      all &= (of(l) & 4) != 0;
    }
    const int counted = std::popcount(of(lane)) * 100 + std::countl_zero(of(lane));
    votes.insert(votes.end(), {odd, any, all, static_cast<uint32_t>(counted)});
  }
  out.push_back(exactly("shuffles", x, moved));
  out.push_back(exactly("votes", x, votes));
  for (const int first : {30, -50}) {  // 77 is among the first numbers only
    std::vector<int> counted, numbers(kThreads);
    std::iota(numbers.begin(), numbers.end(), first);
    for (size_t t = 0; t < kThreads; ++t) counted.insert(counted.end(), {32, first == 30});
    out.push_back(exactly("barriers", numbers, counted));
    const std::vector<int> sums = {std::accumulate(numbers.begin(), numbers.end(), 0), first + 63, kThreads, 0};
    out.push_back(exactly("atomics", numbers, sums));
  }
}

void arithmetic(std::vector<WordCase>& out) {
  Floats x = edge_cases(2 * kThreads), y;
  x[70] = NAN;
  for (size_t t = 0; t < kThreads; ++t) {
    const float a = x[t], b = x[kThreads + t];
    const bool nan = std::isnan(a) || std::isnan(b);
    y.insert(y.end(), {nan ? NAN : std::max(a, b), nan ? NAN : std::min(a, b)});
  }
  out.push_back(exactly("max_nan", x, y));
  x = numbers(3 * kThreads, 12);
  y.clear();
  for (size_t t = 0; t < kThreads; ++t) {
    const float a = x[t], b = x[kThreads + t], c = x[2 * kThreads + t];
    // Sums and products of two f32 rounded by way of double are rounded once. Volatile: for Arm this room is compiled
    // with contraction, which else sees through the casts.
    const volatile float product = static_cast<float>(static_cast<double>(a) * b),
                         square = static_cast<float>(static_cast<double>(c) * c);
    y.insert(y.end(), {static_cast<float>(static_cast<double>(product) + c), std::fma(a, b, c), a / b,
                       std::sqrt(static_cast<float>(square)), std::fma(a, b, -c)});
  }
  out.push_back(exactly("rounded_once", x, y));
  // Eighths, whose sums are exact in any order.
  x = numbers(kThreads, 13, 40);
  y.clear();
  for (float& v : x) v = std::round(v) / 8;
  for (size_t t = 0; t < kThreads; ++t) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(t / kLanes * kLanes), end = begin + kLanes;
    y.insert(y.end(), {std::accumulate(begin, end, 0.0f), *std::max_element(begin, end)});
  }
  out.push_back(exactly("warp_sum", x, y));
  Words factors(2 * kThreads), high(kThreads);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = static_cast<uint32_t>(i * 0x9e3779b1u + 7);
  factors[0] = factors[kThreads] = ~0u, factors[1] = 0;
  for (size_t t = 0; t < kThreads; ++t)
    high[t] = static_cast<uint32_t>(uint64_t{factors[t]} * factors[kThreads + t] >> 32);
  out.push_back(exactly("high_product", factors, high));
}

// Within the last places that CUDA's programming guide gives, for arguments of 2 to 8.
void approximate(std::vector<WordCase>& out) {
  Random random(14);
  Floats x(kThreads), nearest;
  std::vector<double> exact, places;
  for (float& v : x) {
    v = static_cast<float>(random.uniform(2, 8));
    const double quarter = v / 4, one = v;
    exact.insert(exact.end(), {std::exp(-one), std::log(one), 1 / std::sqrt(one), 1 / one, std::tanh(quarter),
                               std::erf(quarter), std::exp(one)});
    places.insert(places.end(), {11, 3, 2, 2, 2, 2, 2});
  }
  for (const double v : exact) nearest.push_back(static_cast<float>(v));
  out.push_back(exactly("approximate", x, nearest));
  out.back().exact = std::move(exact);
  out.back().last_places = std::move(places);
}

std::vector<WordCase> in_order(std::vector<WordCase> made) {
  std::vector<WordCase> out;
  const auto take = [&](std::string_view word, size_t in, size_t written, int capability) {
    for (WordCase& c : made) {
      if (c.word != word) continue;
      if (c.in.size() != in || c.expected.size() != written) fail_internal("word {}: wrong number of bytes", word);
      c.capability = capability;
      out.push_back(std::move(c));
    }
    if (out.empty() || out.back().word != word) fail_internal("word {} has no case", word);
  };
#define SPARKPILOT_WORD(name, in, out, capability, last_places) take(#name, in, out, capability);
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD
  return out;
}

}  // namespace

const std::vector<WordCase>& word_cases() {
  static const std::vector<WordCase> cases = [] {
    std::vector<WordCase> made;
    for (const auto add : {small_floats, four_bits, pairs, products_of_pairs, copies, matrices, products, warps,
                           arithmetic, approximate})
      add(made);
    return in_order(std::move(made));
  }();
  return cases;
}

}  // namespace sparkpilot::cuda
