// Compares the fast transform with the sum that defines it.
#include "ops/cpu/vector/fft.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

using Complex = Fft::Complex;

std::vector<Complex> plain(const std::vector<Complex>& x, bool inverse) {
  const auto n = static_cast<double>(x.size());
  std::vector<Complex> out(x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double angle = (inverse ? 2 : -2) * M_PI * std::fmod(static_cast<double>(k * i), n) / n;
      out[k] += x[i] * Complex{std::cos(angle), std::sin(angle)};
    }
  }
  return out;
}

TEST(Fft, MatchesItsDefinitionForAnyLength) {
  for (const int64_t length : {1, 2, 3, 4, 5, 7, 8, 12, 31, 64, 100, 127, 400}) {
    const Fft fft(length);
    Random random(static_cast<uint64_t>(length));
    std::vector<Complex> x(static_cast<size_t>(length)), scratch(static_cast<size_t>(fft.scratch()));
    for (Complex& v : x) v = {random.normal(), random.normal()};
    for (const bool inverse : {false, true}) {
      std::vector<Complex> got = x;
      fft.transform(got.data(), scratch.data(), inverse);
      const std::vector<Complex> expected = plain(x, inverse);
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_NEAR(std::abs(got[k] - expected[k]), 0, 1e-11 * static_cast<double>(length)) << length << " at " << k;
      }
    }
  }
}

TEST(Fft, RefusesAbsurdLengths) {
  EXPECT_THROW(Fft(0), Error);
  EXPECT_THROW(Fft(int64_t{1} << 40), Error);
}

}  // namespace
}  // namespace sparkpilot
