// The project's own depthwise convolution of bytes: images of u8 with channels last, one filter of i8 a channel.
#pragma once

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/int8/int8_output.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// Filters and output parameters in the order in which the vectors take them.
struct Int8Depthwise {
  ConvShape shape;
  uint8_t padding = 0;  // what stands around the image: the zero point
  bool dots = false;    // four of the kernel's rows at once, by the dot product instruction
  bool pairs = false;   // of dots: two rows of the output share what they read
  int64_t step = 0;     // elements to a vector
  int64_t steps = 0;    // vectors to a pixel; or, where dots run on over its end, those after which channels repeat
  int64_t pixel = 0;    // bytes to a pixel in scratch: its channels, or whole vectors
  Tensor weights;       // i8: for dots [steps, row of the output, 4 rows of the kernel, its columns, step, 4],
                        // else [taps, steps * step]
  Tensor start, multiplier, shift;  // [steps * step], in the vectors' order

  int64_t phase_bytes() const;    // of every stride-th pixel of a padded row
  int64_t row_bytes() const;      // of a padded row: its phases one after the other
  int64_t kept_rows() const;      // that are in scratch at once
  int64_t scratch_bytes() const;  // that depthwise_int8 wants
};

// `weights` [channels, kernel]; the others have an element a channel (`start` holds bias and zero point already).
// `fast` false does without the dot product instructions (tests). The kernel has at most kInt8DepthwiseTaps positions.
inline constexpr int64_t kInt8DepthwiseTaps = 64;
Int8Depthwise pack_depthwise_int8(const ConvShape& shape, const int8_t* weights, uint8_t padding, const int32_t* start,
                                  const float* multiplier, const float* shift, bool fast = true);

// Rows of the output (n, h) in [first_row, last_row); `out` gives dtype (u8 or i8), range and y; its arrays are not
// read. Serial.
void depthwise_int8(const Int8Depthwise& filter, const uint8_t* x, const Int8Output& out, int64_t first_row,
                    int64_t last_row, std::byte* scratch);

}  // namespace sparkpilot
