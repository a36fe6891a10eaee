// Copies bytes of images to where int8_gemm can read them: padded rows, and whole windows.
#pragma once

#include "ops/cpu/conv/conv_shape.h"

namespace sparkpilot {

struct Int8Image {
  const uint8_t* x;
  const uint8_t* end;
  int64_t first_channel;
  uint8_t padding;
};

// Copies in steps of 16 bytes, except where that would read past `end`; may write up to 15 bytes past `to` + n.
void copy_bytes(const uint8_t* from, const uint8_t* end, int64_t n, uint8_t* to);

// Copies the windows of output positions [first, last), each in the order of kernel positions, then channels, `stride`
// bytes apart; may write up to 15 bytes past the last.
void gather_windows(const ConvShape& shape, const Int8Image& image, int64_t first, int64_t last, uint8_t* to,
                    int64_t stride);

// For two-dimensional images: the bytes of a padded row, and the number of input rows that `rows` output rows need.
int64_t padded_row_bytes(const ConvShape& shape);
int64_t rows_under(const KernelWindow& window, int64_t rows);
// Copies row h of image n; writes padding if h is outside.
void copy_padded_row(const ConvShape& shape, const uint8_t* x, int64_t n, int64_t h, uint8_t padding, uint8_t* to);

}  // namespace sparkpilot
