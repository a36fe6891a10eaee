// Times the drawing of overlays: a tici's road picture (1928 x 1208), two models in a bend, with every panel.
//
//   overlay_bench [RUNS]
//
// One core; sizes of the output in turns. Prints the minimum and the median of RUNS frames (200) in ms: for scaling the
// picture, and for drawing on it.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/statistics.h"
#include "route/draw/overlay.h"
#include "route/draw/scale.h"

namespace sparkpilot::drive {
namespace {

// A line `side` metres to the right of the middle of a bend of `curvature` 1/m, to 120 m ahead.
Polyline bend(double curvature, double side, double z) {
  Polyline line;
  for (int i = 0; i < 33; ++i) {
    const double way = 120 * (i / 32.0) * (i / 32.0), angle = curvature * way;
    line.x.push_back(static_cast<float>(std::sin(angle) / curvature - std::sin(angle) * side));
    line.y.push_back(static_cast<float>((1 - std::cos(angle)) / curvature + std::cos(angle) * side));
    line.z.push_back(static_cast<float>(z));
  }
  return line;
}

ModelRecord model(double curvature) {
  ModelRecord out;
  out.position = bend(curvature, 0, 0);
  for (const double side : {-5.4, -1.8, 1.8, 5.4}) out.lane_lines.push_back(bend(curvature, side, 1.22));
  out.lane_line_probs = {0.7F, 0.95F, 0.9F, 0.6F};
  out.road_edges = {bend(curvature, -7.3, 1.22), bend(curvature, 7.5, 1.22)};
  out.road_edge_stds = {0.2F, 0.4F};
  for (const float x : {24.0F, 51.0F}) {
    LeadRecord lead;
    lead.prob = 0.9F;
    lead.x = {x};
    lead.y = {static_cast<float>(curvature * x * x / 2)};
    lead.v = {17};
    out.leads.push_back(lead);
  }
  return out;
}

struct Size {
  int width, height;
  std::unique_ptr<Overlay> overlay = {};
  YuvImage out = YuvImage(width, height);
  Scaler scaler = {};
  std::vector<double> scale_ms = {}, draw_ms = {};

  // Intrinsics are scaled with the size: the field of view stays the same.
  void draw(const YuvImage& picture, OverlayFrame frame) {
    const int64_t start = now_ns();
    scaler.scale(picture.view(), out);
    const int64_t scaled = now_ns();
    frame.intrinsics = Camera{1928, 1208, 2648}.scaled(width, height).intrinsics();
    overlay->draw(frame, out);
    scale_ms.push_back(static_cast<double>(scaled - start) * 1e-6);
    draw_ms.push_back(static_cast<double>(now_ns() - scaled) * 1e-6);
  }
};

void measure(int runs) {
  YuvImage picture(1928, 1208);
  Random random(1);
  for (uint8_t& byte : picture.bytes()) byte = static_cast<uint8_t>(96 + random.bits() % 64);
  const ModelRecord ours = model(0.004), recorded = model(0.003);
  OverlayFrame frame;
  frame.ours = &ours;
  frame.recorded = &recorded;
  frame.v_ego = 21.4;
  frame.alert = "Keep hands on the wheel";
  Size sizes[] = {{526, 330}, {964, 604}, {1928, 1208}};
  for (Size& size : sizes) {
    size.overlay = std::make_unique<Overlay>(OverlayOptions{.width = size.width, .height = size.height});
    size.draw(picture, frame);  // the first run loads the fonts
    size.scale_ms.clear();
    size.draw_ms.clear();
  }
  for (int run = 0; run < runs; ++run) {
    frame.frame_id = run;
    frame.route_time = run / 20.0;
    frame.steering_deg = 0.1 * run - 10;
    for (Size& size : sizes) size.draw(picture, frame);
  }
  fmt::print("{} runs; ms: least, median of scaling, of drawing\n", runs);
  for (const Size& size : sizes) {
    const Statistics s = summarize(size.scale_ms), d = summarize(size.draw_ms);
    fmt::print("{:4} x {:4}  {:.2f} {:.2f}  {:.2f} {:.2f}\n", size.width, size.height, s.min, s.p50, d.min, d.p50);
  }
}

}  // namespace
}  // namespace sparkpilot::drive

int main(int argc, char** argv) {
  try {
    const int runs = argc > 1 ? std::atoi(argv[1]) : 200;
    sparkpilot::drive::measure(runs > 0 ? runs : 200);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "overlay_bench: {}\n", error.what());
    return 2;
  }
}
