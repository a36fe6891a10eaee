// Pictures as the pipeline passes them on: 8-bit YUV 4:2:0 in three planes.
#pragma once

#include <cstdint>
#include <vector>

namespace sparkpilot::drive {

// Not owned. Width and height are even; a chroma plane has half of each. Strides are in bytes.
struct YuvView {
  int width = 0, height = 0;
  const uint8_t *y = nullptr, *u = nullptr, *v = nullptr;
  int y_stride = 0, uv_stride = 0;
};

// A picture that owns its planes: Y, U and V one after the other, no padding between rows.
class YuvImage {
 public:
  YuvImage() = default;
  // Grey (all 128) until it is written. Width and height: even, positive.
  YuvImage(int width, int height)
      : width_(width),
        height_(height),
        bytes_(static_cast<size_t>(width) * static_cast<size_t>(height) * 3 / 2, uint8_t{128}) {}

  int width() const { return width_; }
  int height() const { return height_; }
  uint8_t* y() { return bytes_.data(); }
  uint8_t* u() { return bytes_.data() + luma(); }
  uint8_t* v() { return bytes_.data() + luma() + luma() / 4; }
  std::vector<uint8_t>& bytes() { return bytes_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  YuvView view() const {
    const uint8_t* at = bytes_.data();
    return {width_, height_, at, at + luma(), at + luma() + luma() / 4, width_, width_ / 2};
  }

 private:
  size_t luma() const { return static_cast<size_t>(width_) * static_cast<size_t>(height_); }
  int width_ = 0, height_ = 0;
  std::vector<uint8_t> bytes_;
};

}  // namespace sparkpilot::drive
