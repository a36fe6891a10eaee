#include "route/synth/world.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sparkpilot::drive::synth {
namespace {

Scene make_scene(Light light, bool wet, Random& random) {
  Scene scene;
  scene.light = light;
  scene.wet = wet;
  scene.sun = random.uniform(-kPi, kPi);
  scene.grass = {static_cast<float>(random.uniform(82, 112)), static_cast<float>(random.uniform(104, 114)),
                 static_cast<float>(random.uniform(120, 135))};
  scene.soil = {static_cast<float>(random.uniform(120, 140)), 112, static_cast<float>(random.uniform(134, 141))};
  scene.asphalt = {static_cast<float>(wet ? random.uniform(66, 80) : random.uniform(88, 118)), 129, 127};
  switch (light) {
    case Light::day:
      scene.zenith = {142, 158, 104}, scene.horizon = {208, 137, 122}, scene.cloud = {232, 128, 128};
      scene.clouds = static_cast<float>(random.uniform(0.1, 0.6));
      break;
    case Light::overcast:
      scene.zenith = {170, 131, 126}, scene.horizon = {200, 130, 127}, scene.cloud = {148, 131, 127};
      scene.clouds = 0.9F, scene.brightness = 0.82F, scene.sight = 900;
      break;
    case Light::dusk:
      scene.zenith = {84, 147, 122}, scene.horizon = {168, 112, 152}, scene.cloud = {120, 128, 142};
      scene.clouds = 0.5F, scene.brightness = 0.55F, scene.headlights = true, scene.grain = 1.6F;
      break;
    case Light::night:
      scene.zenith = {22, 131, 127}, scene.horizon = {34, 128, 130}, scene.cloud = {30, 129, 129};
      scene.clouds = 0.4F, scene.brightness = 0.2F, scene.headlights = true, scene.grain = 2.4F;
      break;
  }
  return scene;
}

double between(uint32_t dice, int shift, double low, double high) {
  return low + (high - low) * ((dice >> shift) & 255) * (1.0 / 255);
}

}  // namespace

World::World(const WorldOptions& options) : options_(options) {
  Random random(options.seed * 4);
  const auto kind = static_cast<RoadKind>(random.integer(0, 2));
  const double draw = random.uniform();
  const Light light =
      draw < 0.5 ? Light::day : (draw < 0.7 ? Light::overcast : (draw < 0.85 ? Light::dusk : Light::night));
  const bool wet = random.uniform() < (light == Light::overcast ? 0.5 : 0.1);
  const RoadKind road = options.road.value_or(kind);
  const double share = random.uniform();
  switch (road) {
    case RoadKind::highway: cruise_ = 25 + 6 * share; break;
    case RoadKind::rural: cruise_ = 15 + 7 * share; break;
    case RoadKind::city: cruise_ = 9 + 5 * share; break;
    case RoadKind::winding: cruise_ = 12 + 5 * share; break;
  }
  const double lateral = random.uniform(1.2, 1.9) + (road == RoadKind::winding ? 0.6 : 0);  // m/s2 in the tightest bend
  const double tightest = std::min(0.012, lateral / (cruise_ * cruise_));
  scene_ = make_scene(options.light.value_or(light), options.wet.value_or(wet), random);
  calibration_ = {random.uniform(-0.008, 0.008), random.uniform(-0.035, 0.035), random.uniform(-0.03, 0.03)};
  origin_ = {random.uniform(0.2, 0.9), random.uniform(-2.2, 2.2), random.uniform(5, 400)};
  const double until = options.seconds + kFuture;
  road_.emplace(options.seed, road, options.keep_left, -100, 1.15 * cruise_ * until + 1000, tightest);
  TrafficOptions traffic;
  traffic.seconds = until;
  traffic.cruise = cruise_;
  traffic.leads = traffic.oncoming = options.traffic;
  traffic.stops = road == RoadKind::city;
  traffic_.emplace(options.seed, *road_, traffic);
}

World::PathPoint World::path(double s) const {
  const RoadPoint point = road_->at(s);
  const Step side = traffic_->lateral(s);
  const SinCos heading = sin_cos(point.heading);
  const double along = 1 - point.curvature * side.value;
  const Vector3 by_s = {along * heading.cos, along * heading.sin, -point.slope};
  const Vector3 by_d = {-heading.sin, heading.cos, 0};
  const Vector3 travel = by_s + side.slope * by_d;
  const double stretch = length(travel);
  const Vector3 x = (1 / stretch) * travel;
  Vector3 z = cross(by_s, by_d);
  z = (1 / length(z)) * z;
  const Vector3 y = cross(z, x);
  return {{point.north + side.value * by_d[0], point.east + side.value * by_d[1], -point.height - kDeviceHeight},
          {x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]},
          stretch};
}

Pose World::pose(double time) const {
  const CarMotion motion = traffic_->ego(time);
  const PathPoint here = path(motion.s);
  Pose pose{here.position, here.ned_from_calib, motion.s, motion.d, motion.speed, motion.acceleration};
  // The rotation per metre along the path: the antisymmetric part of R' dR/ds.
  constexpr double kReach = 0.05;
  const Matrix3 before = path(motion.s - kReach).ned_from_calib, after = path(motion.s + kReach).ned_from_calib;
  Matrix3 change{};
  for (size_t i = 0; i < 9; ++i) change[i] = (after[i] - before[i]) / (2 * kReach);
  const Matrix3 turn = multiply(transpose(here.ned_from_calib), change);
  const Vector3 a_metre = (1 / here.stretch) * Vector3{turn[7], turn[2], turn[3]};
  pose.rate = motion.speed * a_metre;
  pose.curvature = a_metre[2];
  return pose;
}

// One cell of land: a few metres along one side of the road.
void World::prop_at(int64_t cell, int hand, std::vector<Prop>& out) const {
  constexpr double kCell = 7;
  const auto seed = static_cast<uint32_t>(options_.seed);
  const uint32_t dice = hash(static_cast<uint32_t>(cell), static_cast<uint32_t>(hand) + 77, seed);
  const uint32_t more = hash(dice, seed, 5);
  const double sign = hand == 0 ? -1 : 1;
  const double edge = hand == 0 ? road_->left_edge() : road_->right_edge();
  const double s = (static_cast<double>(cell) + between(dice, 0, 0, 0.6)) * kCell;
  const double pick = between(dice, 8, 0, 1), far = between(dice, 16, 0, 1);
  const bool city = road_->kind() == RoadKind::city;
  if (city && cell % 2 == 0) {
    const double width = between(more, 0, 9, 13.5), height = between(more, 8, 5, 17);
    out.push_back({PropKind::building, s, edge + sign * between(more, 16, 8, 15), height, width, more});
  }
  if (cell % (city ? 5 : 6) == 0 && (city || road_->kind() == RoadKind::highway)) {
    out.push_back({PropKind::lamp, static_cast<double>(cell) * kCell, edge + sign * 1.6, 8.5, 0.18, dice});
  } else if (cell % 4 == 0 && !city) {
    out.push_back({PropKind::post, static_cast<double>(cell) * kCell, edge + sign * 0.8, 1.0, 0.12, dice});
  } else if (dice % 23 == 0) {
    out.push_back({PropKind::sign, s, edge + sign * 1.4, 2.7, 0.75, more});
  }
  // A guard rail over some hundred metres, then none.
  if (road_->kind() == RoadKind::highway &&
      hash(static_cast<uint32_t>(cell / 24), static_cast<uint32_t>(hand), seed) % 3 != 0) {
    out.push_back({PropKind::rail, static_cast<double>(cell) * kCell, edge + sign * 1.2, 0.78, kCell, dice});
  }
  // Woods come and go along the road.
  const double wood = city ? 0.25 : 0.5 + 0.45 * sin_cos(s * 0.011 + hand * 2.1 + seed % 97).sin;
  if (pick > wood) return;
  const double d = edge + sign * (city ? 3 + 3 * far : 5 + 38 * far * far);
  if (between(more, 16, 0, 1) < 0.2) {
    out.push_back({PropKind::bush, s, d, between(more, 0, 0.8, 2), between(more, 8, 1.2, 3), more});
  } else if (dice % 3 == 0 && !city) {
    out.push_back({PropKind::conifer, s, d, between(more, 0, 6, 14), between(more, 8, 2.6, 4.5), more});
  } else {
    out.push_back({PropKind::tree, s, d, between(more, 0, 5, 10), between(more, 8, 3.5, 6.5), more});
  }
}

std::vector<Prop> World::props(double from, double to) const {
  std::vector<Prop> out;
  const auto first = static_cast<int64_t>(std::floor(from / 7)), last = static_cast<int64_t>(std::floor(to / 7));
  for (int64_t cell = last; cell >= first; --cell) {
    for (int hand = 0; hand < 2; ++hand) prop_at(cell, hand, out);
  }
  return out;
}

}  // namespace sparkpilot::drive::synth
