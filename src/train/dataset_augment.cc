#include "train/dataset_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/fnv.h"
#include "base/random.h"
#include "route/contract/frame.h"

namespace sparkpilot::train {
namespace {

constexpr size_t kPlane = size_t{drive::kFrameHeight} * drive::kFrameWidth;
constexpr double kBlack = 16;
using drive::inverse, drive::multiply, drive::transpose;

}  // namespace

// Y at even rows and columns, at odd rows and even columns, at even rows and odd columns, at odd ones; then U and V.
void unpack_frame(std::span<const uint8_t> frame, drive::YuvImage& out) {
  if (out.width() != drive::kModelWidth || out.height() != drive::kModelHeight) {
    out = drive::YuvImage(drive::kModelWidth, drive::kModelHeight);
  }
  for (size_t plane = 0; plane < 4; ++plane) {
    const size_t odd_row = plane % 2, odd_column = plane / 2;
    const uint8_t* from = frame.data() + plane * kPlane;
    for (size_t y = 0; y < drive::kFrameHeight; ++y) {
      uint8_t* to = out.y() + (2 * y + odd_row) * drive::kModelWidth + odd_column;
      for (size_t x = 0; x < drive::kFrameWidth; ++x) to[2 * x] = *from++;
    }
  }
  std::copy_n(frame.data() + 4 * kPlane, 2 * kPlane, out.u());
}

PictureChange draw_change(const AugmentOptions& options, int64_t epoch, int64_t sample) {
  Fnv key(options.seed);
  for (const int64_t part : {epoch, sample}) key.bytes(&part, sizeof part);
  Random random(key.value());
  // More would leave the picture.
  const auto normal = [&](double deviation) { return deviation * std::clamp(random.normal(), -3.0, 3.0); };
  PictureChange change;
  for (double& angle : change.turn) angle = normal(options.warp_degrees) * std::numbers::pi / 180;
  change.gain = std::max(0.1, 1 + normal(options.brightness));
  change.offset = 64 * normal(options.brightness);
  return change;
}

void change_frame(const PictureChange& change, bool big, std::span<uint8_t> frame, drive::YuvImage& scratch) {
  if (change.turn != drive::Vector3{}) {
    unpack_frame(frame, scratch);
    const drive::Matrix3 k = big ? drive::big_model_intrinsics() : drive::model_intrinsics();
    const drive::Matrix3 view = drive::view_from_device();
    const drive::Matrix3 turn = multiply(multiply(view, drive::rotation_from_euler(change.turn)), transpose(view));
    // Bilinear warps have chroma between two pixels, where a prepared frame's was sampled.
    prepare_frame(scratch.view(), multiply(multiply(k, turn), inverse(k)), drive::Sampling::bilinear, frame);
  }
  change_luma(change, frame.first(4 * kPlane));
}

void change_luma(const PictureChange& change, std::span<uint8_t> lumas) {
  if (change.gain == 1 && change.offset == 0) return;
  std::array<uint8_t, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    const double value = kBlack + (static_cast<double>(i) - kBlack) * change.gain + change.offset;
    table[i] = static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
  }
  for (uint8_t& luma : lumas) luma = table[luma];
}

}  // namespace sparkpilot::train
