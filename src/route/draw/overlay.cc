#include "route/draw/overlay.h"

#include <algorithm>

#include "base/error.h"
#include "route/draw/scene.h"

namespace sparkpilot::drive {
namespace {

constexpr int kMin = 64, kMax = 8192, kPanelsFrom = 200;
constexpr double kRowsOfAUnit = 604;  // height for which the panels are laid out
constexpr double kMinUnit = 0.7;      // text in smaller panels would be illegible

const OverlayOptions& checked(const OverlayOptions& o) {
  const auto wrong = [](int size) { return size < kMin || size > kMax || size % 2 != 0; };
  if (wrong(o.width) || wrong(o.height)) {
    fail("an overlay of {}x{} pixels, expected even sizes from {} to {}", o.width, o.height, kMin, kMax);
  }
  return o;
}

}  // namespace

struct Overlay::Impl {
  explicit Impl(const OverlayOptions& o) : options(checked(o)), layer(o.width, o.height) {}

  void draw(const OverlayFrame& frame, YuvImage& picture) {
    if (picture.width() != options.width || picture.height() != options.height) {
      fail("a picture of {}x{} pixels to draw on, expected {}x{}", picture.width(), picture.height(), options.width,
           options.height);
    }
    layer.clear();
    const Projection projection(frame.intrinsics, frame.rpy);
    const double unit = options.height / kRowsOfAUnit;
    for (const auto part : {draw_road, draw_leads}) {
      if (frame.ours) part(layer, projection, {*frame.ours, true, frame.height, unit});
      if (frame.recorded) part(layer, projection, {*frame.recorded, false, frame.height, unit});
    }
    if (options.height >= kPanelsFrom) {
      const double panel_unit = std::max(unit, kMinUnit);
      draw_speed(layer, frame, panel_unit);
      if (options.bird_eye) draw_bird_eye(layer, frame, panel_unit);
      draw_footer(layer, frame, options, panel_unit);
    }
    layer.blend_onto(picture);
  }

  OverlayOptions options;
  Layer layer;
};

Overlay::Overlay(const OverlayOptions& options) : impl_(new Impl(options)) {}
Overlay::~Overlay() = default;
void Overlay::draw(const OverlayFrame& frame, YuvImage& picture) { impl_->draw(frame, picture); }

}  // namespace sparkpilot::drive
