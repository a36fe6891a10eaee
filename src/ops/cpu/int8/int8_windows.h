// Bytes of images put where int8_gemm can read them: rows with their padding, and whole windows.
#pragma once

#include "ops/cpu/conv/conv_shape.h"

namespace sparkpilot {

struct Int8Image {
  const uint8_t* x;
  const uint8_t* end;
  int64_t first_channel;
  uint8_t padding;
};

// Copies in steps of 16 bytes where that reads nothing behind `end`; may write up to 15 bytes behind `to` + n.
void copy_bytes(const uint8_t* from, const uint8_t* end, int64_t n, uint8_t* to);

// The windows at output positions [first, last), each in the order of kernel positions, then channels, at a distance of
// `stride`; may write up to 15 bytes behind the last.
void gather_windows(const ConvShape& shape, const Int8Image& image, int64_t first, int64_t last, uint8_t* to,
                    int64_t stride);

// Of two-dimensional images: a row with its padding, as bytes, and the rows under that many rows of the output.
int64_t padded_row_bytes(const ConvShape& shape);
int64_t rows_under(const Window& window, int64_t rows);
// Row h of image n, or padding where it is outside.
void copy_padded_row(const ConvShape& shape, const uint8_t* x, int64_t n, int64_t h, uint8_t padding, uint8_t* to);

}  // namespace sparkpilot
