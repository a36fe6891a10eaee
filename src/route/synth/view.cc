#include "route/synth/view.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr float kRowStep = RoadTable::kStep, kBehind = 12;

Vector3 ahead_of(const Pose& pose) { return {pose.ned_from_calib[0], pose.ned_from_calib[3], pose.ned_from_calib[6]}; }

}  // namespace

RoadTable::RoadTable(const Road& road) : first_(road.first()) {
  const auto count = static_cast<size_t>((road.last() - road.first()) / kStep) + 1;
  rows_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const double s = first_ + static_cast<double>(i) * kStep;
    const RoadPoint point = road.at(s);
    const SinCos heading = sin_cos(point.heading);
    rows_.push_back({point.north,
                     point.east,
                     point.height,
                     heading.cos,
                     heading.sin,
                     static_cast<float>(point.curvature),
                     {static_cast<float>(road.bank(s, 0)), static_cast<float>(road.bank(s, 1))}});
  }
}

int64_t RoadTable::index(double s) const { return static_cast<int64_t>(std::floor((s - first_) / kStep)); }

const RoadTable::Row& RoadTable::at(int64_t index) const {
  return rows_[static_cast<size_t>(clamped<int64_t>(index, 0, std::ssize(rows_) - 1))];
}

Strip::Strip(const World& world, const RoadTable& table, const Pose& pose)
    : origin_(pose.s),
      left_edge_(static_cast<float>(world.road().left_edge())),
      right_edge_(static_cast<float>(world.road().right_edge())) {
  const Vector3 ahead = ahead_of(pose);
  const double level = std::sqrt(ahead[0] * ahead[0] + ahead[1] * ahead[1]);
  const double c = ahead[0] / level, s = ahead[1] / level;
  const auto count = static_cast<int64_t>((kReach + kBehind + 40) / kRowStep);
  const int64_t begin = table.index(pose.s - kBehind);
  first_ = static_cast<float>(table.s(begin) - pose.s);
  rows_.reserve(static_cast<size_t>(count));
  for (int64_t i = begin; i < begin + count; ++i) {
    const RoadTable::Row& row = table.at(i);
    const double north = row.north - pose.position[0], east = row.east - pose.position[1];
    rows_.push_back({static_cast<float>(c * north + s * east),
                     static_cast<float>(c * east - s * north),
                     static_cast<float>(c * row.cos + s * row.sin),
                     static_cast<float>(c * row.sin - s * row.cos),
                     row.curvature,
                     static_cast<float>(-row.height - pose.position[2]),
                     {row.bank[0], row.bank[1]}});
  }
}

inline Strip::Between Strip::between(float s) const {
  const float place = clamped((s - first_) * (1 / kRowStep), 0.0F, static_cast<float>(rows_.size() - 2));
  const auto i = static_cast<size_t>(place);
  return {rows_[i], rows_[i + 1], place - static_cast<float>(i)};
}

inline float Strip::down(const Between& rows, float d) const {
  const float level = rows.mix(&Row::down), beyond = d < left_edge_ ? left_edge_ - d : d - right_edge_;
  if (beyond <= 2) return level;
  const float x = std::min((beyond - 2) * (1.0F / 45), 1.0F);
  const int hand = d > 0 ? 1 : 0;
  return level - (rows.a.bank[hand] + rows.share * (rows.b.bank[hand] - rows.a.bank[hand])) * x * x * (3 - 2 * x);
}

Strip::Place Strip::locate(float x, float y, float hint) const {
  Place place{hint, 0};
  for (int round = 0; round < 3; ++round) {
    const Between at = between(place.s);
    const float dx = x - at.mix(&Row::x), dy = y - at.mix(&Row::y);
    const float tx = at.mix(&Row::tx), ty = at.mix(&Row::ty);
    const float along = dx * tx + dy * ty;
    place.d = dy * tx - dx * ty;
    if (std::fabs(along) < 2e-4F) break;
    place.s = clamped(place.s + along / std::max(0.3F, 1 - at.a.curvature * place.d), -kBehind, kReach + 30);
  }
  return place;
}

float Strip::down(const Place& place) const { return down(between(place.s), place.d); }

Point3 Strip::point(float s, float d, float up) const {
  const Between at = between(s);
  return {at.mix(&Row::x) - d * at.mix(&Row::ty), at.mix(&Row::y) + d * at.mix(&Row::tx), down(at, d) - up};
}

View::View(const World& world, const Pose& pose, const Camera& camera)
    : View(pose, camera, 0.5 * camera.width, 0.5 * camera.height,
           multiply(view_from_device(), rotation(world.calibration()))) {}

View::View(const Pose& pose, const Camera& camera, double centre_x, double centre_y, const Matrix3& view_from_calib)
    : camera_(camera) {
  const Vector3 ahead = ahead_of(pose);
  heading_ = arctan2(ahead[1], ahead[0]);
  const double level = std::sqrt(ahead[0] * ahead[0] + ahead[1] * ahead[1]);
  const double c = ahead[0] / level, s = ahead[1] / level;
  const Matrix3 level_from_calib = multiply({c, s, 0, -s, c, 0, 0, 0, 1}, pose.ned_from_calib);
  const Matrix3 view_from_level = multiply(view_from_calib, transpose(level_from_calib));
  const double f = camera.focal_length;
  const Matrix3 pixel = multiply({f, 0, centre_x, 0, f, centre_y, 0, 0, 1}, view_from_level);
  const Matrix3 ray = multiply(transpose(view_from_level), {1 / f, 0, -centre_x / f, 0, 1 / f, -centre_y / f, 0, 0, 1});
  for (size_t i = 0; i < 9; ++i) ray_[i] = static_cast<float>(ray[i]), pixel_[i] = static_cast<float>(pixel[i]);
}

GroundMap::GroundMap(const View& view, const Strip& strip)
    : view_(view), strip_(strip), columns_((view.camera().width + kSpan - 1) / kSpan + 1) {
  nodes_.resize(static_cast<size_t>(view.camera().height) * static_cast<size_t>(columns_));
  parallel_for(columns_, 4, [this](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column) trace_column(static_cast<int>(column));
  });
}

// From the bottom up: higher rays meet the ground farther away, so each search begins where the one below it ended.
void GroundMap::trace_column(int column) {
  Node last{0.5F, 0, 0.5F};
  float down = 0;  // of `last`; 0: not known
  for (int row = view_.camera().height - 1; row >= 0; --row) {
    const Node node = trace(static_cast<float>(column * kSpan), static_cast<float>(row), last, &down);
    if (node.range >= kFar) return;
    nodes_[static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column)] = node;
    last = node;
  }
}

GroundMap::Node GroundMap::trace(float u, float v, const Node& near, float* down) const {
  const Point3 ray = view_.ray(u, v);
  const float level = std::sqrt(ray.x * ray.x + ray.y * ray.y);
  const float ux = ray.x / level, uy = ray.y / level, slope = ray.z / level;
  Node at = near;
  float ground = 0;
  // How far the ray is below the ground's surface at `range`. The ray leads along the road.
  const auto below = [&](float range) {
    const Strip::Place place = strip_.locate(ux * range, uy * range, at.s + (range - at.range));
    at = {place.s, place.d, range};
    ground = strip_.down(place);
    return slope * range - ground;
  };
  // The ray of the row below ended on the ground there, so this one is above it.
  float range = near.range, depth = down && *down > 0 ? slope * range - *down : 0;
  if (!(depth < 0)) depth = below(range);
  while (depth > 0 && range > 0.3F) range *= 0.94F, depth = below(range);
  float before = range, depth_before = depth, rate = slope;
  while (depth < 0) {
    if (range > Strip::kReach) return {};
    const float step = rate > 1e-5F ? -1.02F * depth / rate : 1e9F;
    before = range, depth_before = depth;
    range += clamped(step, 1e-3F * range, 0.06F * range + 0.1F);
    depth = below(range);
    rate = (depth - depth_before) / (range - before);
  }
  // The ray enters the ground between `before` and `range`; a few secant steps find where.
  constexpr float kClose = 2e-5F;  // a fiftieth of a pixel
  Node hit = at;
  float hit_ground = ground;
  for (int round = 0; round < 6 && depth > kClose * range && range > before; ++round) {
    const float middle = before + (range - before) * clamped(-depth_before / (depth - depth_before), 0.05F, 0.95F);
    const float there = below(middle);
    const bool close = std::fabs(there) <= kClose * middle;
    if (there < 0 && !close) {
      before = middle, depth_before = there;
    } else {
      range = middle, depth = close ? 0 : there, hit = at, hit_ground = ground;
    }
  }
  if (down) *down = hit_ground;
  return hit;
}

}  // namespace sparkpilot::drive::synth
