#include "drive/draw/overlay.h"

#include <algorithm>

#include "base/error.h"
#include "drive/draw/scale.h"
#include "drive/draw/scene.h"

namespace sparkpilot::drive {
namespace {

constexpr int kLeast = 64, kMost = 8192, kPanelsFrom = 200;
constexpr double kRowsOfAUnit = 604;  // the size that the panels are laid out for
constexpr double kLeastUnit = 0.7;    // letters in smaller panels could not be read

const OverlayOptions& checked(const OverlayOptions& o) {
  const auto wrong = [](int size) { return size < kLeast || size > kMost || size % 2 != 0; };
  if (wrong(o.width) || wrong(o.height)) {
    fail("an overlay of {}x{} pixels, expected even sizes from {} to {}", o.width, o.height, kLeast, kMost);
  }
  return o;
}

}  // namespace

struct Overlay::Impl {
  explicit Impl(const OverlayOptions& o) : options(checked(o)), layer(o.width, o.height) {}

  void draw(const OverlayFrame& frame, YuvImage& out) {
    if (out.width() != options.width || out.height() != options.height) out = YuvImage(options.width, options.height);
    scaler.scale(frame.picture, out);
    layer.clear();
    const Projection projection(frame.intrinsics, frame.rpy, 1.0 * options.width / frame.picture.width,
                                1.0 * options.height / frame.picture.height);
    const double unit = options.height / kRowsOfAUnit;
    for (const auto part : {draw_road, draw_leads}) {
      if (frame.ours) part(layer, projection, {*frame.ours, true, frame.height, unit});
      if (frame.recorded) part(layer, projection, {*frame.recorded, false, frame.height, unit});
    }
    if (options.height >= kPanelsFrom) {
      const double panel_unit = std::max(unit, kLeastUnit);
      draw_speed(layer, frame, panel_unit);
      if (options.bird_eye) draw_bird_eye(layer, frame, panel_unit);
      draw_footer(layer, frame, options, panel_unit);
    }
    layer.blend_onto(out);
  }

  OverlayOptions options;
  Layer layer;
  Scaler scaler;
};

Overlay::Overlay(const OverlayOptions& options) : impl_(new Impl(options)) {}
Overlay::~Overlay() = default;
void Overlay::draw(const OverlayFrame& frame, YuvImage& out) { impl_->draw(frame, out); }

}  // namespace sparkpilot::drive
