// For the tests of kernels that multiply codes of E4M3.
#pragma once

#include <vector>

#include "base/random.h"
#include "tensor/tensor.h"

namespace sparkpilot::cuda {

inline double value_of(uint8_t code) { return load_element(DType::f8e4m3fn, &code, 0); }

// Any code but NaN.
inline std::vector<uint8_t> any_codes(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> out(count);
  for (uint8_t& code : out) {
    code = static_cast<uint8_t>(random.integer(0, 255));
    if ((code & 0x7f) == 0x7f) code = 0;
  }
  return out;
}

}  // namespace sparkpilot::cuda
