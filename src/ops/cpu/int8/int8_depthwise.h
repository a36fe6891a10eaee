// The project's depthwise convolution of bytes: u8 images with channels last, one i8 filter per channel.
#pragma once

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/int8/int8_output.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// Filters and output parameters in the order in which the vectors use them.
struct Int8Depthwise {
  ConvShape shape;
  uint8_t padding = 0;  // the value around the image: its zero point
  bool dots = false;    // four kernel rows at once, by the dot product instruction
  bool pairs = false;   // with dots: two output rows share what they read
  int64_t step = 0;     // elements per vector
  int64_t steps = 0;    // vectors per pixel; or, if dots continue over its end, vectors until channels repeat
  int64_t pixel = 0;    // bytes per pixel in scratch: its channels, or whole vectors
  int64_t phases = 1;   // of a row in scratch: every phases-th pixel lies beside the next
  // i8: for dots [steps, output row, 4 kernel rows, kernel columns, step, 4], else [taps, steps * step]; or, on x86-64,
  // i16 of two kernel rows each: [half of the kernel rows, kernel columns, steps * step, 2].
  Tensor weights;
  Tensor start, multiplier, shift;  // [steps * step], in the vectors' order

  int64_t phase_bytes() const;    // of a phase of a padded row
  int64_t row_bytes() const;      // of a padded row: its phases, concatenated
  int64_t kept_rows() const;      // rows that are in scratch at once
  int64_t scratch_bytes() const;  // what depthwise_int8 needs
};

// `weights` [channels, kernel]; the other arrays have one element per channel (`start` includes bias and zero point).
// `fast` false disables the dot product instructions (for tests). The kernel has at most kInt8DepthwiseTaps positions.
inline constexpr int64_t kInt8DepthwiseTaps = 64;
Int8Depthwise pack_depthwise_int8(const ConvShape& shape, const int8_t* weights, uint8_t padding, const int32_t* start,
                                  const float* multiplier, const float* shift, bool fast = true);

// Computes rows (n, h) [first_row, last_row) of the output. Of `out`, only dtype (u8 or i8), range and y are used, not
// its arrays. Serial.
void depthwise_int8(const Int8Depthwise& filter, const uint8_t* x, const Int8Output& out, int64_t first_row,
                    int64_t last_row, std::byte* scratch);

}  // namespace sparkpilot
