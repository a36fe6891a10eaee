// What candidates of convolutions of bytes share: quantized_candidates.h and e4m3_conv_candidates.h.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cuda/byte_conv.h"
#include "ops/cuda/window_candidates.h"

namespace sparkpilot::cuda {

// Sizes of the arguments of a convolution that takes_window() accepts: size, by, m, n, k and code_bytes.
template <typename Arguments>
void set_byte_conv(const ConvShape& s, Arguments& to) {
  set_window(s.window, to.size);
  to.size.batch = static_cast<int>(s.batch);
  to.size.channels = static_cast<int>(s.in_channels), to.size.out_channels = static_cast<int>(s.out_channels);
  to.by = conv_divisors(to.size);
  to.m = static_cast<int>(s.batch * s.window.out_size()), to.n = to.size.out_channels;
  to.k = static_cast<int>(s.in_per_group() * s.window.kernel_size());
  to.code_bytes = byte_gemm_depth(to.k);
}

// Weights of (output channel, channel, tap), of one group, as rows of (tap, channel) of that many bytes, the rest
// zeros.
std::vector<uint8_t> byte_conv_rows(const ConvShape& s, const uint8_t* weights, int64_t row_bytes);

}  // namespace sparkpilot::cuda
