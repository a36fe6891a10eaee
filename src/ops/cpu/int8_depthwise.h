// The project's own depthwise convolution of bytes: images of u8 with channels last, one filter of i8 a channel.
#pragma once

#include "ops/cpu/conv_shape.h"
#include "ops/cpu/int8_output.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// Filters and output parameters in the order in which the vectors take them.
struct Int8Depthwise {
  ConvShape shape;
  uint8_t padding = 0;          // what stands around the image: the zero point
  bool dots = false;            // four of the kernel's rows at once, by the dot product instruction
  int64_t step = 0, steps = 0;  // channels to a vector, and vectors to a pixel
  int64_t pixels = 1;           // in a vector, where several of few channels fill it
  // i8: for dots [steps, rows of the kernel / 4, columns of the kernel, step, 4], else [taps, steps * step].
  Tensor weights;
  Tensor start, multiplier, shift;  // [steps * step], in the vectors' order

  int64_t pixel_bytes() const;  // of the padded image, in whole vectors
  int64_t row_bytes() const;
  // Scratch that depthwise_int8 wants for that many rows.
  int64_t scratch_bytes(int64_t rows) const;
};

// `weights` [channels, kernel]; the others have an element a channel (`start` holds bias and zero point already).
// `fast` false does without the dot product instructions (tests). The kernel has at most kInt8DepthwiseTaps positions.
inline constexpr int64_t kInt8DepthwiseTaps = 64;
Int8Depthwise pack_depthwise_int8(const ConvShape& shape, const int8_t* weights, uint8_t padding, const int32_t* start,
                                  const float* multiplier, const float* shift, bool fast = true);

// Rows of the output (n, d, h) in [first_row, last_row) with one depth; `out` gives dtype (u8 or i8), range and y; its
// arrays are not read. Serial.
void depthwise_int8(const Int8Depthwise& filter, const uint8_t* x, const Int8Output& out, int64_t first_row,
                    int64_t last_row, std::byte* scratch);

}  // namespace sparkpilot
