// The words of ops/cuda/device.cuh in the emulator, against what the program expects of a GPU (ops/cuda/words_check.h).
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

// Where CUTLASS 4.2 sees the elements (mma_traits_sm120.hpp, SM120_16x8x64_TN_VS: shapes and strides of its layouts,
// columns first) is where ops/cuda/word_products.cc writes them.
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

// The same of CUTLASS 4.2's layouts for E4M3 and s8, which are one (mma_traits_sm89.hpp,
// SM89_16x8x32_F32E4M3E4M3F32_TN; mma_traits_sm80.hpp, SM80_16x8x32_S32S8S8S32_TN).
TEST(Words, FragmentsOfEightBitsLieAsCutlassSaysTheyDo) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2, in_group = lane & 3;
    for (int value = 0; value < 16; ++value) {  // ALayout ((4,8),(4,2,2)):((64,1),(16,8,256)), 16 rows
      const int at = lane % 4 * 64 + lane / 4 + value % 4 * 16 + value / 4 % 2 * 8 + value / 8 * 256;
      const int word = value / 4, i = value % 4;
      EXPECT_EQ(at % 16, word == 0 || word == 2 ? group : group + 8);
      EXPECT_EQ(at / 16, in_group * 4 + i + (word >= 2 ? 16 : 0));
    }
    for (int value = 0; value < 8; ++value) {  // BLayout ((4,8),(4,2)):((32,1),(8,128)), 8 columns
      const int at = lane % 4 * 32 + lane / 4 + value % 4 * 8 + value / 4 * 128;
      EXPECT_EQ(at % 8, group);
      EXPECT_EQ(at / 8, in_group * 4 + value % 4 + (value >= 4 ? 16 : 0));
    }
    for (int value = 0; value < 4; ++value) {  // CLayout ((4,8),(2,2)):((32,1),(16,8)), 16 rows
      const int at = lane % 4 * 32 + lane / 4 + value % 2 * 16 + value / 2 * 8;
      EXPECT_EQ(at % 16, group + (value >= 2 ? 8 : 0));
      EXPECT_EQ(at / 16, in_group * 2 + value % 2);
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
