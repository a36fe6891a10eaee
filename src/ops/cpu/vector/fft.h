// Discrete Fourier transforms of any length in O(n log n), in double.
//
// Powers of two use Cooley and Tukey's butterflies; other lengths are computed as a convolution with a chirp (L.
// Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970), by transforms of
// powers of two.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace sparkpilot {

class Fft {
 public:
  using Complex = std::complex<double>;
  explicit Fft(int64_t length);  // at least 1; fails (user) above 2^28

  int64_t length() const { return length_; }
  // Complex numbers of scratch that transform() needs.
  int64_t scratch() const { return length_ == padded_ ? 0 : padded_; }
  // data[k] = sum over n of data[n] * exp(-+2 pi i k n / length), with plus in the exponent if `inverse`; not divided
  // by the length.
  void transform(Complex* data, Complex* scratch, bool inverse) const;

 private:
  void butterflies(Complex* data, bool inverse) const;

  int64_t length_, padded_;         // padded_: the power of two that is used
  std::vector<Complex> roots_;      // exp(-2 pi i k / padded_), k < padded_ / 2
  std::vector<Complex> chirp_;      // exp(-pi i k^2 / length)
  std::vector<Complex> chirp_fft_;  // transform of the conjugate chirp, wrapped around, divided by padded_
};

}  // namespace sparkpilot
