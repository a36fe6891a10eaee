// The words of ops/cuda/device.cuh in the emulator, against their definitions. The same kernels are run on a GPU and
// their answers compared with the emulator's.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/random.h"
#include "emulator/number.h"
#include "emulator/test_kernel.h"
#include "ops/cuda/kernels.h"
#include "sparkpilot/tensor.h"

#define SPARKPILOT_WORD(name, in, out, capability, last_places) \
  extern "C" void word_##name(sparkpilot::cuda::WordArguments);
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD

namespace sparkpilot::emulator {
namespace {

constexpr int kThreads = 64, kLanes = 32;

struct Word {
  void (*kernel)(cuda::WordArguments);
  size_t in, out;
};
const std::map<std::string, Word> kWords = {
#define SPARKPILOT_WORD(name, in, out, capability, last_places) {#name, {word_##name, in, out}},
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD
};

template <typename Out, typename In>
std::vector<Out> answer(const std::string& name, const std::vector<In>& input) {
  const Word& word = kWords.at(name);
  EXPECT_EQ(input.size() * sizeof(In), word.in);
  TestMemory in(word.in), out(word.out);
  std::memcpy(in.data(), input.data(), word.in);
  const auto bytes = run_all_schedules(in, out, [&](const Schedule& schedule) {
    launch({.grid = {}, .block = {kThreads}}, schedule, word.kernel, {in.data(), out.data()});
  });
  std::vector<Out> values(bytes.size() / sizeof(Out));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> numbers(size_t count, uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> out(count);
  for (float& x : out) x = static_cast<float>(random.normal() * scale);
  return out;
}
std::vector<uint32_t> random_words(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> out(count);
  for (uint32_t& x : out) x = random.bits();
  return out;
}

// Each special value, ties and limits among ordinary ones.
std::vector<float> edge_cases(size_t count) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> out = {0.0f,        -0.0f,     inf,          -inf,         NAN,          -NAN,
                            65504,       65519.9f,  65520,        -65520,       0x1p-24f,     0x1p-25f,
                            0x1.8p-25f,  0x1p-14f,  0x1.ffep-15f, 1 + 0x1p-11f, 1 + 0x3p-11f, 1 + 0x1p-8f,
                            1 + 0x3p-8f, 448,       464,          480,          0x1p-9f,      0x1p-10f,
                            0x1.8p-10f,  0x1.fp-7f, 17,           19,           3.4e38f,      1e-40f};
  const std::vector<float> more = numbers(count - out.size(), 11, 30);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Numbers as the tensor's own conversions know them; a GPU makes one NaN of all.
uint16_t half_of(float x) { return std::isnan(x) ? 0x7fff : float_to_half(x); }
uint16_t bfloat16_of(float x) { return std::isnan(x) ? 0x7fff : float_to_bfloat16(x); }
template <typename T>
uint32_t bits_of(T x) {
  return std::bit_cast<uint32_t>(static_cast<float>(x));
}

TEST(Words, SmallFloats) {
  const auto x = edge_cases(kThreads);
  const auto halves = answer<uint16_t>("half", x), bfloats = answer<uint16_t>("bfloat16", x);
  const auto small = answer<uint8_t>("e4m3", x);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(halves[i], half_of(x[i])) << x[i];
    EXPECT_EQ(bfloats[i], bfloat16_of(x[i])) << x[i];
    uint8_t expected = 0;
    store_element(DType::f8e4m3fn, &expected, 0, x[i], true);
    EXPECT_EQ(small[i], std::isnan(x[i]) ? 0x7f : expected) << x[i];
  }
  auto bits = random_words(kThreads / 2, 3);
  bits[0] = 0x7c00fc00, bits[1] = 0x03ff8001;
  const auto values = answer<float>("half_value", bits);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(bits_of(values[i]), bits_of(half_to_float(static_cast<uint16_t>(bits[i / 2] >> i % 2 * 16)))) << i;
  }
}

TEST(Words, EveryE4m3) {
  for (int first = 0; first < 256; first += kThreads) {
    std::vector<uint8_t> codes(kThreads);
    std::iota(codes.begin(), codes.end(), static_cast<uint8_t>(first));
    const auto values = answer<float>("e4m3_value", codes);
    for (int i = 0; i < kThreads; ++i) {
      const double expected = load_element(DType::f8e4m3fn, codes.data(), i);
      EXPECT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected))) << first + i;
    }
  }
}

TEST(Words, Pairs) {
  const auto x = edge_cases(2 * kThreads);
  for (const bool half : {true, false}) {
    const auto y = answer<uint32_t>(half ? "half2" : "bfloat162", x);
    for (int i = 0; i < 2 * kThreads; ++i) {
      const uint16_t bits = half ? half_of(x[i]) : bfloat16_of(x[i]);
      EXPECT_EQ(static_cast<uint16_t>(y[i / 2] >> i % 2 * 16), bits) << x[i];
      EXPECT_EQ(y[kThreads + i], bits_of(half ? half_to_float(bits) : bfloat16_to_float(bits))) << x[i];
    }
  }
}

TEST(Words, Copies) {
  const auto wide = random_words(1024, 4);
  EXPECT_EQ(answer<uint32_t>("wide_copies", wide), wide);
  EXPECT_EQ(answer<uint32_t>("copy_groups", wide), wide);
  for (const int bytes : {4, 8, 16}) {
    const auto words = random_words(static_cast<size_t>(kThreads * bytes / 4), 5);
    std::vector<uint8_t> expected(static_cast<size_t>(kThreads * bytes));
    std::memcpy(expected.data(), words.data(), expected.size());
    for (int t = 0; t < kThreads; ++t) {
      for (int i = t % (bytes + 1); i < bytes; ++i) expected[static_cast<size_t>(t * bytes + i)] = 0;
    }
    EXPECT_EQ(answer<uint8_t>("copy_async_" + std::to_string(bytes), words), expected);
  }
}

// "Each thread holds two consecutive elements of row lane / 4" (PTX manual, ldmatrix).
TEST(Words, Matrices) {
  std::vector<uint16_t> rows(256);
  std::iota(rows.begin(), rows.end(), uint16_t{0});
  for (const bool transposed : {false, true}) {
    const auto y = answer<uint32_t>(transposed ? "matrix_x4_transposed" : "matrix_x4", rows);
    for (int t = 0; t < kThreads; ++t) {
      const auto element = [&](int matrix, int row, int column) {
        const int lane = matrix * 8 + row, r = t < kLanes ? lane : (lane * 5 + 3) % 32;
        return static_cast<uint32_t>(r * 8 + column);
      };
      for (int m = 0; m < 4; ++m) {
        const int r = t % kLanes / 4, c = t % 4 * 2;
        const uint32_t low = transposed ? element(m, c, r) : element(m, r, c);
        const uint32_t high = transposed ? element(m, c + 1, r) : element(m, r, c + 1);
        EXPECT_EQ(y[static_cast<size_t>(t * 4 + m)], low | high << 16) << t << " " << m;
      }
    }
  }
}

// Small whole numbers, so that every sum is exact whatever its order. Where the elements of a fragment lie is written
// here as in the figures of the PTX manual, once for each element width.
struct Product {
  std::vector<double> a, b, c;  // 16 x K, K x 8, 16 x 8
  int depth;
};
struct Packed {
  std::vector<uint32_t> words;  // a, b, c of each lane
  Product product;
};
Packed pack(int bits, uint64_t seed, const std::vector<std::pair<double, uint32_t>>& codes) {
  Random random(seed);
  const int in_word = 32 / bits, depth = 256 / bits;
  Packed out{std::vector<uint32_t>(320),
             {std::vector<double>(16 * depth), std::vector<double>(depth * 8), std::vector<double>(128), depth}};
  const auto draw = [&] {
    return codes[static_cast<size_t>(random.integer(0, static_cast<int64_t>(codes.size()) - 1))];
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2, in_group = lane & 3;
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < in_word; ++i) {
        const auto [value, code] = draw();
        const int row = w == 0 || w == 2 ? group : group + 8, k = in_group * in_word + i + (w >= 2 ? depth / 2 : 0);
        out.product.a[static_cast<size_t>(row * depth + k)] = value;
        out.words[static_cast<size_t>(lane * 4 + w)] |= code << (i * bits);
      }
    }
    for (int w = 0; w < 2; ++w) {
      for (int i = 0; i < in_word; ++i) {
        const auto [value, code] = draw();
        const int k = in_group * in_word + i + (w == 1 ? depth / 2 : 0);
        out.product.b[static_cast<size_t>(k * 8 + group)] = value;
        out.words[static_cast<size_t>(128 + lane * 2 + w)] |= code << (i * bits);
      }
    }
    for (int e = 0; e < 4; ++e) {
      const double value = static_cast<double>(random.integer(-9, 9));
      out.product.c[static_cast<size_t>((group + (e >= 2 ? 8 : 0)) * 8 + in_group * 2 + (e & 1))] = value;
      out.words[static_cast<size_t>(192 + lane * 4 + e)] = bits_of(value);
    }
  }
  return out;
}
std::vector<double> multiplied(const Product& p) {
  std::vector<double> out = p.c;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      for (int k = 0; k < p.depth; ++k)
        out[static_cast<size_t>(i * 8 + j)] +=
            p.a[static_cast<size_t>(i * p.depth + k)] * p.b[static_cast<size_t>(k * 8 + j)];
    }
  }
  return out;
}
void expect_fragments(const std::vector<float>& y, const std::vector<double>& expected, const std::string& what) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int e = 0; e < 4; ++e) {
      const int row = (lane >> 2) + (e >= 2 ? 8 : 0), column = (lane & 3) * 2 + (e & 1);
      EXPECT_EQ(y[static_cast<size_t>(lane * 4 + e)], expected[static_cast<size_t>(row * 8 + column)])
          << what << " " << lane << " " << e;
    }
  }
}

std::vector<std::pair<double, uint32_t>> small_codes(const std::string& type) {
  std::vector<std::pair<double, uint32_t>> out;
  for (int i = -8; i <= 8; ++i) {
    const auto x = static_cast<float>(i);
    out.push_back({i, type == "f16" ? float_to_half(x) : type == "bf16" ? float_to_bfloat16(x) : to_e4m3(x)});
  }
  return out;
}

TEST(Words, Mma) {
  for (const char* type : {"f16", "bf16", "e4m3"}) {
    const Packed packed = pack(std::string(type) == "e4m3" ? 8 : 16, 6, small_codes(type));
    const auto y = answer<float>(std::string("mma_") + type, packed.words);
    expect_fragments(y, multiplied(packed.product), type);
  }
}

TEST(Words, MmaOfFourBits) {
  std::vector<std::pair<double, uint32_t>> codes;
  for (uint32_t code = 0; code < 16; ++code) {
    const uint8_t byte = static_cast<uint8_t>(code);
    codes.push_back({load_element(DType::f4e2m1, &byte, 0), code});
  }
  Packed packed = pack(4, 7, codes);
  Product& p = packed.product;
  p.c.assign(p.c.size(), 0);
  // Scales 2^-1 to 2^2, other ones in the bytes that are not to be read.
  Random random(8);
  std::vector<uint32_t> words(packed.words.begin(), packed.words.begin() + 192);
  std::vector<double> scale_a(16 * 4), scale_b(8 * 4);
  for (int which = 0; which < 2; ++which) {
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t word = 0;
      for (int block = 0; block < 4; ++block) {
        const int exponent = static_cast<int>(random.integer(-1, 2));
        word |= static_cast<uint32_t>(exponent + 7) << (3 + 8 * block);
        const int group = lane >> 2, in_group = lane & 3;
        if (which == 0 && in_group < 2)
          scale_a[static_cast<size_t>((group + in_group * 8) * 4 + block)] = std::ldexp(1, exponent);
        if (which == 1 && in_group == 0) scale_b[static_cast<size_t>(group * 4 + block)] = std::ldexp(1, exponent);
      }
      words.push_back(word);
    }
  }
  for (int k = 0; k < 64; ++k) {
    for (int i = 0; i < 16; ++i) p.a[static_cast<size_t>(i * 64 + k)] *= scale_a[static_cast<size_t>(i * 4 + k / 16)];
    for (int j = 0; j < 8; ++j) p.b[static_cast<size_t>(k * 8 + j)] *= scale_b[static_cast<size_t>(j * 4 + k / 16)];
  }
  expect_fragments(answer<float>("mma_e2m1", words), multiplied(p), "e2m1");
}

// Where CUTLASS 4.2 sees the elements (mma_traits_sm120.hpp, SM120_16x8x64_TN_VS: shapes and strides of its layouts,
// columns first) is where pack() and MmaOfFourBits write them.
TEST(Words, FragmentsOfFourBitsLieAsCutlassSaysTheyDo) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2, in_group = lane & 3;
    for (int value = 0; value < 32; ++value) {  // ALayout ((4,8),(8,2,2)):((128,1),(16,8,512)), 16 rows
      const int at = lane % 4 * 128 + lane / 4 + value % 8 * 16 + value / 8 % 2 * 8 + value / 16 * 512;
      const int word = value / 8, i = value % 8;
      EXPECT_EQ(at % 16, word == 0 || word == 2 ? group : group + 8);
      EXPECT_EQ(at / 16, in_group * 8 + i + (word >= 2 ? 32 : 0));
    }
    for (int value = 0; value < 16; ++value) {  // BLayout ((4,8),(8,2)):((64,1),(8,256)), 8 columns
      const int at = lane % 4 * 64 + lane / 4 + value % 8 * 8 + value / 8 * 256;
      EXPECT_EQ(at % 8, group);
      EXPECT_EQ(at / 8, in_group * 8 + value % 8 + (value >= 8 ? 32 : 0));
    }
    EXPECT_EQ(lane % 2 * 8 + lane / 4, group + in_group % 2 * 8);  // SFALayout ((2,2,8),64):((8,0,1),16)
  }
}

TEST(Words, MmaTile) {
  std::vector<uint32_t> words(768);
  std::vector<double> expected[2];  // of each warp: the sums over the rows of tiles, by column of tiles
  for (int warp = 0; warp < 2; ++warp) {
    Packed parts[2];
    for (int i = 0; i < 2; ++i)
      parts[i] = pack(16, static_cast<uint64_t>(20 + warp * 2 + i), small_codes(warp ? "bf16" : "f16"));
    for (int lane = 0; lane < kLanes; ++lane) {
      const int t = warp * kLanes + lane;
      for (int i = 0; i < 8; ++i)
        words[static_cast<size_t>(t * 8 + i)] = parts[i / 4].words[static_cast<size_t>(lane * 4 + i % 4)];
      for (int i = 0; i < 4; ++i)
        words[static_cast<size_t>(512 + t * 4 + i)] = parts[i / 2].words[static_cast<size_t>(128 + lane * 2 + i % 2)];
    }
    for (int j = 0; j < 2; ++j) {
      std::vector<double> sum(128);
      for (int i = 0; i < 2; ++i) {
        const auto one = multiplied({parts[i].product.a, parts[j].product.b, std::vector<double>(128), 16});
        for (size_t e = 0; e < 128; ++e) sum[e] += one[e];
      }
      expected[warp].insert(expected[warp].end(), sum.begin(), sum.end());
    }
  }
  // Thread t writes c[0][j][e] + c[1][j][e] at j * 4 + e.
  const auto y = answer<float>("mma_tile", words);
  for (int warp = 0; warp < 2; ++warp) {
    for (int j = 0; j < 2; ++j) {
      std::vector<float> fragments(128);
      for (int lane = 0; lane < kLanes; ++lane) {
        for (int e = 0; e < 4; ++e)
          fragments[static_cast<size_t>(lane * 4 + e)] = y[static_cast<size_t>((warp * kLanes + lane) * 8 + j * 4 + e)];
      }
      expect_fragments(fragments, {expected[warp].begin() + j * 128, expected[warp].begin() + (j + 1) * 128}, "tile");
    }
  }
}

TEST(Words, ShufflesAndVotes) {
  std::vector<int> x(kThreads);
  Random random(9);
  for (int& v : x) v = static_cast<int>(random.bits());
  x[3] |= 2;
  for (int i = kLanes; i < kThreads; ++i) x[static_cast<size_t>(i)] |= 4;
  const auto y = answer<int>("shuffles", x);
  const auto votes = answer<unsigned>("votes", x);
  for (int t = 0; t < kThreads; ++t) {
    const int lane = t % kLanes, base = t - lane;
    const auto of = [&](int l) { return x[static_cast<size_t>(base + l)]; };
    const std::array<int, 5> expected = {of(31 - lane), of(lane ^ 5), of(lane + 3 < 32 ? lane + 3 : lane),
                                         of(lane >= 7 ? lane - 7 : lane), of(((lane ^ 8) & ~7) + 2)};
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(y[static_cast<size_t>(t * 5 + i)], expected[static_cast<size_t>(i)]) << t << " " << i;
    unsigned odd = 0, any = 0, all = 1;
    for (int l = 0; l < kLanes; ++l) {
      odd |= static_cast<unsigned>(of(l) & 1) << l;
      any |= (of(l) & 2) != 0;
      all &= (of(l) & 4) != 0;
    }
    const auto u = static_cast<unsigned>(of(lane));
    const std::array<unsigned, 4> said = {odd, any, all,
                                          static_cast<unsigned>(std::popcount(u) * 100 + std::countl_zero(u))};
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(votes[static_cast<size_t>(t * 4 + i)], said[static_cast<size_t>(i)]) << t << " " << i;
  }
}

TEST(Words, BarriersAndAtomics) {
  std::vector<int> x(kThreads);
  std::iota(x.begin(), x.end(), 30);
  const auto y = answer<int>("barriers", x);
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(y[static_cast<size_t>(t * 2)], 32);
    EXPECT_EQ(y[static_cast<size_t>(t * 2 + 1)], 1);
  }
  for (int& v : x) v -= 80;
  EXPECT_EQ(answer<int>("barriers", x)[1], 0);
  EXPECT_EQ(answer<int>("atomics", x), (std::vector<int>{std::accumulate(x.begin(), x.end(), 0), 13, kThreads, 0}));
}

TEST(Words, NanStaysNan) {
  auto x = edge_cases(2 * kThreads);
  x[70] = NAN;
  const auto y = answer<float>("max_nan", x);
  for (int t = 0; t < kThreads; ++t) {
    const float a = x[static_cast<size_t>(t)], b = x[static_cast<size_t>(kThreads + t)],
                high = y[static_cast<size_t>(t * 2)], low = y[static_cast<size_t>(t * 2 + 1)];
    if (std::isnan(a) || std::isnan(b)) EXPECT_TRUE(std::isnan(high) && std::isnan(low)) << t;
    else EXPECT_TRUE(high == std::max(a, b) && low == std::min(a, b)) << t;
  }
}

TEST(Words, RoundedOnce) {
  const auto x = numbers(3 * kThreads, 12);
  const auto y = answer<float>("rounded_once", x);
  int contracted = 0;
  for (int t = 0; t < kThreads; ++t) {
    const float a = x[static_cast<size_t>(t)], b = x[static_cast<size_t>(kThreads + t)],
                c = x[static_cast<size_t>(2 * kThreads + t)];
    const float product = static_cast<float>(static_cast<double>(a) * b);
    const auto at = [&](int i) { return y[static_cast<size_t>(t * 5 + i)]; };
    EXPECT_EQ(at(0), static_cast<float>(static_cast<double>(product) + c));
    EXPECT_EQ(at(1), std::fma(a, b, c));
    EXPECT_EQ(at(2), a / b);
    EXPECT_EQ(at(3), std::sqrt(c * c));
    EXPECT_EQ(at(4), std::fma(a, b, -c));
    contracted += at(0) != at(1);
  }
  EXPECT_GT(contracted, 5);  // else the cases show nothing
}

TEST(Words, HighProduct) {
  std::vector<uint32_t> x(2 * kThreads);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint32_t>(i * 0x9e3779b1u + 7);
  x[0] = x[kThreads] = ~0u, x[1] = 0;
  const auto y = answer<uint32_t>("high_product", x);
  for (size_t t = 0; t < kThreads; ++t) EXPECT_EQ(y[t], static_cast<uint32_t>(uint64_t{x[t]} * x[kThreads + t] >> 32));
}

TEST(Words, WarpSum) {
  const auto x = numbers(kThreads, 13);
  const auto y = answer<float>("warp_sum", x);
  for (int warp = 0; warp < 2; ++warp) {
    const auto begin = x.begin() + warp * kLanes;
    const double sum = std::accumulate(begin, begin + kLanes, 0.0);
    EXPECT_NEAR(y[static_cast<size_t>(warp * 64)], sum, 1e-5);
    EXPECT_EQ(y[static_cast<size_t>(warp * 64 + 1)], *std::max_element(begin, begin + kLanes));
    for (int lane = 1; lane < kLanes; ++lane)
      EXPECT_EQ(y[static_cast<size_t>(warp * 64 + lane * 2)], y[static_cast<size_t>(warp * 64)]);
  }
}

// Within CUDA's bounds, and as wrong as they allow: exact answers would hide what a kernel cannot rely on.
TEST(Words, ApproximateFunctionsErr) {
  Random random(14);
  std::vector<float> x(kThreads);
  for (float& v : x) v = static_cast<float>(random.uniform(2, 8));
  const auto y = answer<float>("approximate", x);
  std::array<double, 7> worst{};
  for (int t = 0; t < kThreads; ++t) {
    const double v = x[static_cast<size_t>(t)];
    const double quarter = static_cast<float>(v / 4);
    const std::array<double, 7> exact = {std::exp(-v),       std::log(v),       1 / std::sqrt(v), 1 / v,
                                         std::tanh(quarter), std::erf(quarter), std::exp(v)};
    for (size_t i = 0; i < 7; ++i) {
      const double last_place = std::ldexp(1, std::ilogb(exact[i]) - 23);
      worst[i] = std::max(worst[i], std::fabs(y[static_cast<size_t>(t) * 7 + i] - exact[i]) / last_place);
    }
  }
  const std::array<double, 7> bound = {11, 3, 2, 2, 2, 2, 2};
  for (size_t i = 0; i < 7; ++i) EXPECT_LE(worst[i], bound[i]) << i;
  for (size_t i = 0; i < 4; ++i) EXPECT_GE(worst[i], 0.6 * bound[i]) << i;
}

}  // namespace
}  // namespace sparkpilot::emulator
