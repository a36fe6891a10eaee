// The words of ops/cuda/device.cuh in the emulator, against what the program expects of a GPU (ops/cuda/words_check.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "emulator/test_kernel.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/words_check.h"

#define SPARKPILOT_WORD(name, in, out, capability, last_places) \
  extern "C" void word_##name(sparkpilot::cuda::WordArguments);
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD

namespace sparkpilot::emulator {
namespace {

using cuda::WordCase;
constexpr int kLanes = 32;

const std::map<std::string_view, void (*)(cuda::WordArguments)> kWords = {
#define SPARKPILOT_WORD(name, in, out, capability, last_places) {#name, word_##name},
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD
};

std::vector<std::byte> answer(const WordCase& word_case) {
  TestMemory in(word_case.in.size()), out(word_case.expected.size());
  std::memcpy(in.data(), word_case.in.data(), in.size());
  const auto bytes = run_all_schedules(in, out, [&](const Schedule& schedule) {
    launch({.grid = {}, .block = {64}}, schedule, kWords.at(word_case.word), {in.data(), out.data()});
  });
  const auto answered = std::as_bytes(std::span(bytes));
  return {answered.begin(), answered.end()};
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(Words, TheEmulatorAnswersWhatIsExpectedOfAGpu) {
  std::set<std::string_view> seen;
  for (const WordCase& word_case : cuda::word_cases()) {
    EXPECT_EQ(wrong_answer(word_case, answer(word_case)), "");
    seen.insert(word_case.word);
  }
  EXPECT_EQ(seen.size(), kWords.size());
}

// Any bit of any byte, in turn: every byte of an answer counts, but the last bits of an approximate one.
TEST(Words, AWrongAnswerIsNamed) {
  for (const WordCase& word_case : cuda::word_cases()) {
    for (size_t i = 0; i < word_case.expected.size(); ++i) {
      const size_t last = word_case.element_bytes - 1, place = i % word_case.element_bytes;
      if (word_case.word == "approximate" && place < last - 1) continue;
      std::vector<std::byte> wrong = word_case.expected;
      wrong[i] ^= std::byte{0x40} >> i % 2;
      const float now = word_case.element_bytes == 4 ? floats(wrong)[i / 4] : 0.0f;
      if (i / 4 >= word_case.floats_from && std::isnan(now)) continue;
      const std::string line = wrong_answer(word_case, wrong);
      EXPECT_NE(line.find(fmt::format("{}: element {}: expected ", word_case.word, i / word_case.element_bytes)),
                std::string::npos)
          << word_case.word << " byte " << i << ": " << line;
    }
  }
  WordCase sums = cuda::word_cases()[0];
  for (const WordCase& word_case : cuda::word_cases()) {
    if (word_case.word == "atomics") sums = word_case;
  }
  std::vector<std::byte> wrong = sums.expected;
  wrong[8] ^= std::byte{1};
  EXPECT_EQ(wrong_answer(sums, wrong), "atomics: element 2: expected 00000040, got 00000041; 1 of 4 differ");
  wrong.pop_back();
  EXPECT_EQ(wrong_answer(sums, wrong), "atomics: expected 16 bytes, got 15");
}

// A layout as CUTLASS publishes them (CuTe): an index counts through the modes, the first one fastest, and each counts
// its stride. Here a thread's modes, then those of the values in its registers, the lowest bits first; what comes out
// is row + rows * depth of A, column + 8 * depth of B, row + 16 * column of C.
struct CuteMode {
  int size, stride;
};
struct CuteLayout {
  std::vector<CuteMode> threads, values;
  int at(int lane, int value) const { return count(threads, lane) + count(values, value); }

 private:
  static int count(const std::vector<CuteMode>& modes, int index) {
    int out = 0;
    for (const CuteMode& mode : modes) {
      out += index % mode.size * mode.stride;
      index /= mode.size;
    }
    return out;
  }
};

// An instruction: its word, the bits of an element, the code of 1, and CUTLASS 4.2's layouts of its operands.
struct CuteFragments {
  std::string_view word;
  int bits;
  uint32_t one;
  CuteLayout a, b;

  int in_word() const { return 32 / bits; }
  int depth() const { return 256 / bits; }
  int a_values() const { return 4 * in_word(); }
  int b_values() const { return 2 * in_word(); }
};
// cute/atom/mma_traits_sm80.hpp: SM80_16x8x16_F32F16F16F32_TN (that of bf16 is the same), SM80_16x8x32_S32S8S8S32_TN;
// mma_traits_sm89.hpp: SM89_16x8x32_F32E4M3E4M3F32_TN; mma_traits_sm120.hpp: SM120_16x8x64_TN_VS. CLayout is one for
// all.
const CuteLayout kOf16Bits[2] = {{{{4, 32}, {8, 1}}, {{2, 16}, {2, 8}, {2, 128}}},
                                 {{{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}},
                 kOf8Bits[2] = {{{{4, 64}, {8, 1}}, {{4, 16}, {2, 8}, {2, 256}}},
                                {{{4, 32}, {8, 1}}, {{4, 8}, {2, 128}}}},
                 kOf4Bits[2] = {{{{4, 128}, {8, 1}}, {{8, 16}, {2, 8}, {2, 512}}},
                                {{{4, 64}, {8, 1}}, {{8, 8}, {2, 256}}}};
const CuteLayout kOfSums = {{{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}};
// SFALayout and SFBLayout give the scale of each of 64 depths; the four of 16 depths each are the bytes of a word.
const CuteLayout kOfScales[2] = {{{{2, 8}, {2, 0}, {8, 1}}, {{64, 16}}}, {{{4, 0}, {8, 1}}, {{64, 8}}}};

const CuteFragments kCuteFragments[] = {{"mma_f16", 16, 0x3c00, kOf16Bits[0], kOf16Bits[1]},
                                        {"mma_bf16", 16, 0x3f80, kOf16Bits[0], kOf16Bits[1]},
                                        {"mma_e4m3", 8, 0x38, kOf8Bits[0], kOf8Bits[1]},
                                        {"mma_s8", 8, 1, kOf8Bits[0], kOf8Bits[1]},
                                        {"mma_e2m1", 4, 2, kOf4Bits[0], kOf4Bits[1]}};

// What a word's kernel (words.cu) reads: registers of a, b and c, or of a, b and the scales of both, here 1.
class FragmentRegisters {
 public:
  explicit FragmentRegisters(const CuteFragments& of) : of_(of), words_(320) {
    if (of.word == "mma_e2m1") std::fill(words_.begin() + kC, words_.begin() + kC + 2 * kLanes, 0x38383838u);
  }
  void set_a(int lane, int value) { set(lane * 4, value); }
  void set_b(int lane, int value) { set(kB + lane * 2, value); }
  // All of A or B: is_one(row or column, depth).
  template <typename IsOne>
  void fill_a(const IsOne& is_one) {
    fill(of_.a, of_.a_values(), 16, is_one, [&](int lane, int value) { set_a(lane, value); });
  }
  template <typename IsOne>
  void fill_b(const IsOne& is_one) {
    fill(of_.b, of_.b_values(), 8, is_one, [&](int lane, int value) { set_b(lane, value); });
  }
  void set_scales(int operand, int lane, uint32_t bytes) { words_[at(kC + operand * kLanes + lane)] = bytes; }

  // C by row + 16 * column.
  std::vector<int> product() const {
    TestMemory in(words_.size() * 4), out(kLanes * 4 * 4);
    std::memcpy(in.data(), words_.data(), in.size());
    launch({.grid = {}, .block = {64}}, Schedule{}, kWords.at(of_.word), {in.data(), out.data()});
    std::vector<int> c(16 * 8);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int value = 0; value < 4; ++value) {
        const auto* const from = static_cast<const char*>(out.data()) + (lane * 4 + value) * 4;
        int whole;
        float number;
        std::memcpy(&whole, from, 4);
        std::memcpy(&number, from, 4);
        c[at(kOfSums.at(lane, value))] = of_.word == "mma_s8" ? whole : static_cast<int>(number);
      }
    }
    return c;
  }

 private:
  static constexpr int kB = 128, kC = 192;
  static size_t at(int i) { return static_cast<size_t>(i); }
  void set(int first, int value) {
    words_[at(first + value / of_.in_word())] |= of_.one << value % of_.in_word() * of_.bits;
  }
  template <typename IsOne, typename Set>
  void fill(const CuteLayout& layout, int values, int lines, const IsOne& is_one, const Set& set_one) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int value = 0; value < values; ++value) {
        const int place = layout.at(lane, value);
        if (is_one(place % lines, place / lines)) set_one(lane, value);
      }
    }
  }

  const CuteFragments& of_;
  std::vector<uint32_t> words_;
};

// One element of A at a time is 1. B's column 7 is 1, and columns 0 to 6 are the bits of the depth: the row of C that
// is not 0 says where the instruction sees that element.
TEST(Words, ElementsOfALieWhereCutlassSaysTheyDo) {
  for (const CuteFragments& fragments : kCuteFragments) {
    FragmentRegisters others(fragments);
    others.fill_b([](int column, int depth) { return column == 7 || (depth >> column & 1) != 0; });
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int value = 0; value < fragments.a_values(); ++value) {
        FragmentRegisters registers = others;
        registers.set_a(lane, value);
        const int place = fragments.a.at(lane, value), row = place % 16;
        std::vector<int> expected(16 * 8);
        for (int column = 0; column < 8; ++column)
          expected[static_cast<size_t>(row + 16 * column)] = column == 7 || (place / 16 >> column & 1) != 0;
        ASSERT_EQ(registers.product(), expected) << fragments.word << ", lane " << lane << ", value " << value;
      }
    }
  }
}

// The same of B: row 15 of A is 1, rows 0 to 6 are the bits of the depth.
TEST(Words, ElementsOfBLieWhereCutlassSaysTheyDo) {
  for (const CuteFragments& fragments : kCuteFragments) {
    FragmentRegisters others(fragments);
    others.fill_a([](int row, int depth) { return row == 15 || (row < 7 && (depth >> row & 1) != 0); });
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int value = 0; value < fragments.b_values(); ++value) {
        FragmentRegisters registers = others;
        registers.set_b(lane, value);
        const int place = fragments.b.at(lane, value), column = place % 8;
        std::vector<int> expected(16 * 8);
        for (int row = 0; row < 16; ++row)
          expected[static_cast<size_t>(row + 16 * column)] = row == 15 || (row < 7 && (place / 8 >> row & 1) != 0);
        ASSERT_EQ(registers.product(), expected) << fragments.word << ", lane " << lane << ", value " << value;
      }
    }
  }
}

// Other scales for each row and block of one operand; the other operand has 1 in block i of its line i alone.
TEST(Words, ScalesLieWhereCutlassSaysTheyDo) {
  const CuteFragments& fragments = kCuteFragments[4];
  const auto exponent = [](int line, int block) { return (line * 5 + block * 3) % 11 - 4; };
  const auto all = [](int, int) { return true; };
  const auto own_block = [](int line, int depth) { return line == depth / 16; };
  for (const int operand : {0, 1}) {
    const int lines = operand == 0 ? 16 : 8;
    FragmentRegisters registers(fragments);
    if (operand == 0) registers.fill_a(all), registers.fill_b(own_block);
    else registers.fill_a(own_block), registers.fill_b(all);
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t bytes = 0;
      for (int block = 0; block < 4; ++block) {
        const int place = kOfScales[operand].at(lane, block * 16), line = place % lines;
        ASSERT_EQ(place / lines, block * 16);
        bytes |= static_cast<uint32_t>(exponent(line, block) + 7) << (3 + 8 * block);
      }
      registers.set_scales(operand, lane, bytes);
    }
    const std::vector<int> c = registers.product();
    for (int line = 0; line < lines; ++line) {
      for (int block = 0; block < 4; ++block) {
        const int at = operand == 0 ? line + 16 * block : block + 16 * line;
        EXPECT_EQ(c[static_cast<size_t>(at)], 1 << (4 + exponent(line, block)))
            << "line " << line << ", block " << block;
      }
    }
  }
}

// Else the cases do not show that a product and a sum are rounded apart.
TEST(Words, SomeSumsWouldDifferIfTheyWereContracted) {
  for (const WordCase& word_case : cuda::word_cases()) {
    if (word_case.word != "rounded_once") continue;
    const auto y = floats(word_case.expected);
    int differ = 0;
    for (size_t t = 0; t < 64; ++t) differ += y[t * 5] != y[t * 5 + 1];
    EXPECT_GT(differ, 5);
  }
}

// As wrong as CUDA's bounds allow: exact answers would hide what a kernel cannot rely on.
TEST(Words, ApproximateFunctionsErr) {
  const WordCase& word_case = cuda::word_cases()[cuda::word_cases().size() - 2];
  ASSERT_EQ(word_case.word, "approximate");
  const auto y = floats(answer(word_case));
  std::array<double, 4> worst{};  // share of the bound that the first four functions use
  for (size_t i = 0; i < y.size(); ++i) {
    const double exact = word_case.exact[i], last_place = std::ldexp(1, std::ilogb(exact) - 23);
    if (i % 7 < 4)
      worst[i % 7] = std::max(worst[i % 7], std::fabs(y[i] - exact) / last_place / word_case.last_places[i]);
  }
  for (const double share : worst) EXPECT_GE(share, 0.6);
}

}  // namespace
}  // namespace sparkpilot::emulator
