#include "ops/cpu/vector/fft.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace sparkpilot {
namespace {

constexpr double kPi = 3.14159265358979323846;

// exp(-i pi numerator / denominator)
Fft::Complex root(int64_t numerator, int64_t denominator) {
  const double angle = -kPi * static_cast<double>(numerator) / static_cast<double>(denominator);
  return {std::cos(angle), std::sin(angle)};
}

}  // namespace

Fft::Fft(int64_t length) : length_(length), padded_(length) {
  if (length < 1 || length > int64_t{1} << 28) fail("a Fourier transform of length {} is not supported", length);
  const bool direct = std::has_single_bit(static_cast<uint64_t>(length));
  if (!direct) padded_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * length - 1)));
  for (int64_t k = 0; k < padded_ / 2; ++k) roots_.push_back(root(2 * k, padded_));
  if (direct) return;
  for (int64_t k = 0; k < length; ++k) chirp_.push_back(root(k * k % (2 * length), length));
  chirp_fft_.assign(static_cast<size_t>(padded_), Complex{});
  for (int64_t k = 0; k < length; ++k) {
    const Complex value = std::conj(chirp_[static_cast<size_t>(k)]) / static_cast<double>(padded_);
    chirp_fft_[static_cast<size_t>(k)] = value;
    if (k > 0) chirp_fft_[static_cast<size_t>(padded_ - k)] = value;
  }
  butterflies(chirp_fft_.data(), false);
}

void Fft::butterflies(Complex* data, bool inverse) const {
  for (int64_t i = 1, j = 0; i < padded_; ++i) {  // j: i with its bits reversed
    int64_t bit = padded_ >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  for (int64_t size = 2; size <= padded_; size *= 2) {
    const int64_t half = size / 2, step = padded_ / size;
    for (int64_t first = 0; first < padded_; first += size) {
      for (int64_t k = 0; k < half; ++k) {
        const Complex w = roots_[static_cast<size_t>(k * step)];
        const double wi = inverse ? -w.imag() : w.imag();
        Complex &a = data[first + k], &b = data[first + k + half];
        const Complex t{b.real() * w.real() - b.imag() * wi, b.real() * wi + b.imag() * w.real()};
        b = a - t;
        a += t;
      }
    }
  }
}

void Fft::transform(Complex* data, Complex* scratch, bool inverse) const {
  if (length_ == padded_) return butterflies(data, inverse);
  // The inverse is the conjugate of the forward transform of the conjugate.
  const auto turned = [&](Complex v) { return inverse ? std::conj(v) : v; };
  for (int64_t k = 0; k < length_; ++k) scratch[k] = turned(data[k]) * chirp_[static_cast<size_t>(k)];
  std::fill(scratch + length_, scratch + padded_, Complex{});
  butterflies(scratch, false);
  for (int64_t k = 0; k < padded_; ++k) scratch[k] *= chirp_fft_[static_cast<size_t>(k)];
  butterflies(scratch, true);
  for (int64_t k = 0; k < length_; ++k) data[k] = turned(scratch[k] * chirp_[static_cast<size_t>(k)]);
}

}  // namespace sparkpilot
