// Converts a camera's picture to a model's input: warped, sampled, packed.
//
// The arithmetic is defined to the bit and the same on every processor: floats are IEEE single precision; every
// product, sum and quotient is rounded separately (no fused multiply-add), to nearest, ties to even. For the output
// pixel (x, y) of a plane and the warp m, both as floats:
//
//   px = (m0 x + m1 y) + m2      py = (m3 x + m4 y) + m5      w = (m6 x + m7 y) + m8
//
// bilinear: s = 32 / w, or 0 if w is 0; X = round(px s), Y = round(py s), in 1/32 of a pixel. Each of the four pixels
// around it is clamped to the plane separately; the weights (32-ax)(32-ay), ax(32-ay), (32-ax)ay, ax ay of the
// fractions have 10 bits (the 15 of OpenCV's tables are these times 32), and the sum is rounded half up. nearest: X =
// round(px / w), Y = round(py / w), clamped to the plane. In both modes a quotient that is not a number counts as 0,
// and one beyond the plane, however far, is its edge; points behind the camera (w < 0) are treated like any other, as
// in openpilot.
//
// Where openpilot does not determine the last bit, it is defined here: a GPU may fuse or divide less exactly, and
// tinygrad's round() takes 0.49999997, the float below one half, to 1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "route/contract/camera.h"
#include "route/contract/image.h"

namespace sparkpilot::drive {

inline constexpr int kFrameChannels = 6, kFrameHeight = 128, kFrameWidth = 256;
inline constexpr int kFrameBytes = kFrameChannels * kFrameHeight * kFrameWidth;

enum class Sampling {
  // OpenCV's fixed point, as in openpilot's OpenCL kernel up to early 2026 (selfdrive/modeld/transforms/transform.cl).
  bilinear,
  // openpilot on tinygrad, from early 2026 (selfdrive/modeld/compile_warp.py, later compile_modeld.py).
  nearest,
};

// Writes the driving models' uint8 [6, 128, 256]: Y at even rows and columns, Y at odd rows and even columns, Y at even
// rows and odd columns, Y at odd rows and columns, U, V (selfdrive/modeld/transforms/loadyuv.cl). `warp` maps a pixel
// of the model's 512 x 256 frame to one of `picture`; it is rounded to float first, and any entries are allowed. May be
// called concurrently; runs on one thread, without allocation. Fails (user) on a picture wider or higher than 32768,
// whose planes are longer than 2^31 bytes, or that is empty or odd.
void prepare_frame(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::span<uint8_t> out);

// A picture of kModelWidth x kModelHeight as it is: the bytes of prepare_frame() with the identity.
void pack_frame(const YuvView& picture, std::span<uint8_t> out);

// The same, written plainly: prepare_frame must give the same bits.
void prepare_frame_reference(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::span<uint8_t> out);

// The driver monitoring model's frame: only luma, row by row.
inline constexpr int kDriverFrameBytes = kDriverModelWidth * kDriverModelHeight;
// The value of pixels outside the picture in openpilot since 2026; before that it repeated the edge.
inline constexpr uint8_t kDriverBorder = 16;

// Writes kDriverFrameBytes bytes of the picture's luma. `warp` is dm_warp_matrix's. With a `border`, a pixel whose
// rounded coordinates X, Y lie outside the picture or are not numbers has that value; without, the edge is repeated.
// Everything else is as in prepare_frame. (openpilot: selfdrive/modeld/compile_dm_warp.py; bilinear:
// MonitoringModelFrame of 2025.)
void prepare_driver_frame(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::optional<uint8_t> border,
                          std::span<uint8_t> out);
void prepare_driver_frame_reference(const YuvView& picture, const Matrix3& warp, Sampling sampling,
                                    std::optional<uint8_t> border, std::span<uint8_t> out);

// The warp as floats, and the corresponding warp between the half-size chroma planes.
//   bilinear: S_in M S_out with S_out = [[2,0,.5],[0,2,.5],[0,0,1]] and S_in = [[.5,0,-.25],[0,.5,-.25],[0,0,1]]:
//   pixels
//             have their centres at whole coordinates, so that chroma pixel 0 lies between luma pixels 0 and 1. M S_out
//             first, each sum from 0 on from left to right.
//   nearest:  M's entries times [[1,1,.5],[1,1,.5],[2,2,1]]: chroma pixel 0 lies on luma pixel 0.
using FloatWarp = std::array<float, 9>;
FloatWarp float_warp(const Matrix3& warp);
FloatWarp chroma_warp(const FloatWarp& luma, Sampling sampling);

}  // namespace sparkpilot::drive
