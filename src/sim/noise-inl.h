// Random numbers of a world: those of base/random.h's generator (Philox4x32-10), whose counter is (step, world), so
// neither the order of worlds nor their number enters.
#if defined(SPARKPILOT_SIM_NOISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_NOISE_INL_H_
#undef SPARKPILOT_SIM_NOISE_INL_H_
#else
#define SPARKPILOT_SIM_NOISE_INL_H_
#endif

#include "sim/math-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

// In: the counter. Out: four random words.
template <class W>
SIM_FN void philox4x32(uint64_t key, W (&c)[4]) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    W high0, low0, high1, low1;
    multiply_words(c[0], 0xD2511F53u, high0, low0);
    multiply_words(c[2], 0xCD9E8D57u, high1, low1);
    c[0] = high1 ^ c[1] ^ W(k0);
    c[1] = low1;
    c[2] = high0 ^ c[3] ^ W(k1);
    c[3] = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Four standard normal numbers for one step of each world (Box-Muller). A world is numbered high 2^23 + low, both whole
// and below 2^23.
template <class N>
SIM_FN void normal_numbers(uint64_t seed, WordsOf<N> step, N low, N high, N (&out)[4]) {
  using W = WordsOf<N>;
  W c[4] = {step, W(0u), to_words(low), to_words(high)};
  philox4x32(seed, c);
  for (int i = 0; i < 4; i += 2) {
    const N radius = sqrt(N(-2) * log(uniform_of<N>(c[i])));
    N s, co;
    sin_cos(N(6.283185307179586) * uniform_of<N>(c[i + 1]), s, co);
    out[i] = radius * co;
    out[i + 1] = radius * s;
  }
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
