// A picture at another size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "route/contract/image.h"

namespace sparkpilot::drive {

// Averages over areas to reduce, interpolates to enlarge; copies at the same size. Keeps its weights from one picture
// to the next. One thread uses an object at a time.
class Scaler {
 public:
  // Fills `to`, whose size is the target. Fails (user) if a size is not positive and even.
  void scale(const YuvView& from, YuvImage& to);

 private:
  // The weights of one axis: output i is the sum of `taps` inputs from begin[i], in 1/256.
  struct Axis {
    int from = 0, to = 0, taps = 0;
    std::vector<int> begin;
    std::vector<uint16_t> weights;
  };
  static void prepare(Axis& axis, int from, int to);
  static void resample_row(const uint16_t* sums, const Axis& x, uint8_t* out);
  void plane(const uint8_t* from, int stride, const Axis& x, const Axis& y, uint8_t* to);

  Axis x_, y_, uv_x_, uv_y_;
  std::vector<uint16_t> row_;
};

}  // namespace sparkpilot::drive
