#include "route/synth/render.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "route/synth/draw_list.h"
#include "route/synth/scenery.h"
#include "route/synth/shade.h"
#include "route/synth/view.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr int kSpan = GroundMap::kSpan;
constexpr uint32_t kGrains = 8191;

// One picture being drawn.
struct Job {
  const View& view;
  const GroundMap& map;
  const Shader& shader;
  const std::vector<float>& grain;
  uint32_t dice;  // seed of the sensor's noise
  YuvImage& picture;

  // The size of a pixel on the ground at a node, from its neighbours.
  void reach(int row, int column, GroundPixels& at) const {
    const auto& here = map.at(row, column);
    const auto& right = map.at(row, column + 1);
    const int other_row = row + 1 < view.camera().height ? row + 1 : row - 1;
    const auto& below = map.at(other_row, column);
    const float focal = static_cast<float>(view.camera().focal_length);
    const float most = 0.02F + 4 * here.range * here.range / focal;  // not across a crest
    const float down_s = std::min(most, std::fabs(here.s - below.s)),
                down_d = std::min(most, std::fabs(here.d - below.d));
    const float right_s = (right.s - here.s) / kSpan, right_d = (right.d - here.d) / kSpan;
    at.reach_s = std::sqrt(down_s * down_s + right_s * right_s) + 1e-4F;
    at.reach_d = std::sqrt(down_d * down_d + right_d * right_d) + 1e-4F;
  }

  void span(int row, int column, Pixels& out) const {
    const auto &a = map.at(row, column), &b = map.at(row, column + 1);
    const int u = column * kSpan;
    out.count = std::min(kSpan, view.camera().width - u);
    if (a.range >= GroundMap::kFar && b.range >= GroundMap::kFar) return shader.sky(u, row, out);
    if (a.range > 1.3F * b.range || b.range > 1.3F * a.range) return broken(row, column, out);
    GroundPixels at;
    reach(row, column, at);
    at.range = a.range;
    const auto v = static_cast<float>(row);
    at.from = shader.light(static_cast<float>(u), v, a.range),
    at.to = shader.light(static_cast<float>(u + kSpan), v, b.range);
    for (int i = 0; i < kSpan; ++i) {
      const float share = static_cast<float>(i) * (1.0F / kSpan);
      at.s[i] = a.s + share * (b.s - a.s), at.d[i] = a.d + share * (b.d - a.d);
    }
    shader.ground(at, out);
  }

  // If the ground ends or jumps in distance between two nodes, every pixel is traced separately.
  void broken(int row, int column, Pixels& out) const {
    const auto &a = map.at(row, column), &b = map.at(row, column + 1);
    const int u = column * kSpan;
    const auto v = static_cast<float>(row);
    const int count = out.count;
    shader.sky(u, row, out);
    GroundMap::Node start = a.range < b.range ? a : b;
    start.range *= 0.8F;
    for (int i = 0; i < count; ++i) {
      const float x = static_cast<float>(u + i);
      const GroundMap::Node node = map.trace(x, v, start);
      if (node.range >= GroundMap::kFar) continue;
      GroundPixels at;
      std::ranges::fill(at.s, node.s), std::ranges::fill(at.d, node.d);
      at.range = node.range;
      at.reach_d = node.range / static_cast<float>(view.camera().focal_length);
      at.reach_s = std::min(60.0F, at.reach_d * node.range);
      at.from = at.to = shader.light(x, v, node.range);
      Pixels one;
      shader.ground(at, one);
      out.y[i] = one.y[0], out.u[i] = one.u[0], out.v[i] = one.v[0];
    }
  }

  void write(int row, int u, const Pixels& pixels) const {
    const int width = view.camera().width;
    uint8_t* luma = picture.y() + static_cast<ptrdiff_t>(row) * width + u;
    const float* noise = grain.data() + (hash(dice, static_cast<uint32_t>(row), static_cast<uint32_t>(u)) & kGrains);
    if (pixels.count == kSpan) {
      put_luma(pixels.y, noise, luma);
    } else {
      uint8_t whole[kSpan];
      put_luma(pixels.y, noise, whole);
      std::copy_n(whole, pixels.count, luma);
    }
    if (row % 2 != 0) return;
    const ptrdiff_t at = static_cast<ptrdiff_t>(row / 2) * (width / 2) + u / 2;
    for (int i = 0; i + 1 < pixels.count; i += 2) {
      picture.u()[at + i / 2] =
          static_cast<uint8_t>(clamped(0.5F * (pixels.u[i] + pixels.u[i + 1]) + 0.5F, 4.0F, 251.0F));
      picture.v()[at + i / 2] =
          static_cast<uint8_t>(clamped(0.5F * (pixels.v[i] + pixels.v[i + 1]) + 0.5F, 4.0F, 251.0F));
    }
  }
};

}  // namespace

Renderer::Renderer(const World& world)
    : world_(world),
      road_(world.road()),
      fine_(static_cast<uint32_t>(world.options().seed) + 11, 0.85F),
      rough_(static_cast<uint32_t>(world.options().seed) + 12, 0.25F) {
  const Road& road = world.road();
  const auto count = static_cast<size_t>((road.right_edge() - road.left_edge()) * 20) + 1;
  for (size_t i = 0; i < count; ++i) {
    const double d = road.left_edge() + static_cast<double>(i) * 0.05;
    // Two smooth worn tracks per lane; a little dirt between the lanes and at the edges.
    const double in_lane = d / road.lane_width() - std::floor(d / road.lane_width());
    const double from_track = std::fabs(std::fabs(in_lane - 0.5) - 0.22) / 0.11;
    const double track = from_track < 1 ? (1 - from_track * from_track) : 0;
    const double shoulder =
        d < -road.oncoming_lanes() * road.lane_width() || d > road.lanes() * road.lane_width() ? 0.07 : 0;
    asphalt_.push_back(world.scene().asphalt.y * static_cast<float>(1 - 0.09 * track + shoulder));
  }
  for (uint32_t i = 0; i <= kGrains + kSpan; ++i) {
    const uint32_t dice = hash(i, 9, 9);
    const float sum =
        static_cast<float>(dice & 255) + static_cast<float>(dice >> 8 & 255) + static_cast<float>(dice >> 16 & 255);
    grain_.push_back(0.5F + world.scene().grain * (sum - 382.5F) * (1.0F / 128));
  }
}

void Renderer::draw(double time, const Camera& camera, YuvImage& picture) const {
  const Pose pose = world_.pose(time);
  draw(time, pose, View(world_, pose, camera), picture);
}

void Renderer::draw_model_frame(double time, bool big, YuvImage& picture) const {
  const Matrix3 k = big ? big_model_intrinsics() : model_intrinsics();
  const Pose pose = world_.pose(time);
  draw(time, pose, View(pose, {kModelWidth, kModelHeight, k[0]}, k[2], k[5], view_from_device()), picture);
}

void Renderer::draw(double time, const Pose& pose, const View& view, YuvImage& picture) const {
  const Camera& camera = view.camera();
  if (picture.width() != camera.width || picture.height() != camera.height)
    picture = YuvImage(camera.width, camera.height);
  const Strip strip(world_, road_, pose);
  const GroundMap map(view, strip);
  const Shader shader(world_, strip, view, fine_, rough_, asphalt_);
  DrawList list(view);
  add_scenery(world_, time, strip, map, view, list);
  const auto moment = static_cast<uint32_t>(static_cast<int64_t>(std::floor(time * 1000 + 0.5)));
  const Job job{view, map, shader, grain_, hash(moment, static_cast<uint32_t>(camera.focal_length), 1), picture};
  parallel_for(camera.height / 2, 16, [&](int64_t begin, int64_t end) {
    Pixels pixels;
    for (int row = static_cast<int>(2 * begin); row < 2 * end; ++row) {
      for (int column = 0; column * kSpan < camera.width; ++column) {
        job.span(row, column, pixels);
        job.write(row, column * kSpan, pixels);
      }
    }
    list.paint(picture, static_cast<int>(2 * begin), static_cast<int>(2 * end), fine_);
  });
}

}  // namespace sparkpilot::drive::synth
