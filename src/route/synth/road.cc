#include "route/synth/road.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sparkpilot::drive::synth {

Road::Road(uint64_t seed, RoadKind kind, bool keep_left, double first, double last, double most_curvature)
    : kind_(kind), side_(keep_left ? -1 : 1), first_(std::floor(first)) {
  lay_out(seed);
  bend(seed, last - first_, most_curvature);
}

void Road::lay_out(uint64_t seed) {
  Random random(seed * 4 + 1);
  const bool highway = kind_ == RoadKind::highway, city = kind_ == RoadKind::city;
  forward_ = static_cast<int>(highway ? random.integer(2, 3) : (city ? random.integer(1, 2) : 1));
  backward_ = highway && random.uniform() < 0.7 ? 0 : forward_;
  lane_width_ = highway ? random.uniform(3.55, 3.75) : random.uniform(3.2, 3.6);
  const double outer = highway ? random.uniform(1.8, 2.8) : random.uniform(0.3, 0.9);
  const double inner = random.uniform(0.7, 1.2);
  const double own = forward_ * lane_width_ + outer;
  const double other = backward_ > 0 ? backward_ * lane_width_ + outer : inner;
  edges_[0] = side_ > 0 ? -other : -own;
  edges_[1] = side_ > 0 ? own : other;
  for (int i = -backward_; i <= forward_; ++i) lines_.push_back(line(i));
  // Hills: no steeper than some hundredths, or a highway's crest would hide oncoming obstacles.
  const double steepness = highway ? 0.012 : 0.02;
  const double lengths[3] = {1300, 620, 310};
  for (int i = 0; i < 3; ++i) {
    const double number = 2 * kPi / (lengths[i] * random.uniform(0.8, 1.25));
    hills_[i] = {steepness * random.uniform(0.4, 1) / number / (i + 1), number, random.uniform(0, 2 * kPi)};
  }
  for (int hand = 0; hand < 2; ++hand) {
    bank_base_[hand] = random.uniform(-1, 4);
    for (Wave& wave : banks_[hand]) {
      wave = {random.uniform(1, 4), 2 * kPi / random.uniform(150, 500), random.uniform(0, 2 * kPi)};
    }
  }
}

// Straights and arcs in turn, joined by transitions in which the steering wheel turns at a constant rate.
void Road::bend(uint64_t seed, double length, double most_curvature) {
  Random random(seed * 4 + 2);
  const bool winding = kind_ == RoadKind::winding;
  const auto count = static_cast<size_t>(length) + 2;
  std::vector<double> curvature(count, 0.0);
  size_t at = 0;
  double from = 0;
  while (at < count) {
    const bool straight = random.uniform() < (winding ? 0.1 : 0.3);
    const double size = most_curvature * random.uniform(winding ? 0.4 : 0.15, 1);
    const double to = straight ? 0 : (random.uniform() < 0.5 ? -size : size);
    const double radius_length = std::sqrt(1 / most_curvature);
    const double transition = radius_length * random.uniform(2.5, 4.5),
                 hold = radius_length * random.uniform(2, winding ? 6 : 9);
    const auto steps = static_cast<size_t>(transition);
    for (size_t i = 0; i < steps && at < count; ++i, ++at) {
      curvature[at] = from + (to - from) * smooth_step(static_cast<double>(i) / static_cast<double>(steps)).value;
    }
    for (size_t i = 0; i < static_cast<size_t>(hold) && at < count; ++i, ++at) curvature[at] = to;
    from = to;
  }
  knots_.resize(count);
  knots_[0] = {0, 0, random.uniform(-kPi, kPi), curvature[0]};
  for (size_t i = 1; i < count; ++i) knots_[i] = along(knots_[i - 1], curvature[i] - curvature[i - 1], 1);
}

// The knot `u` metres on, with the curvature changing by `change` per metre: heading exactly, position by Gauss's
// three-point rule.
Road::Knot Road::along(const Knot& from, double change, double u) const {
  Knot to = from;
  const double nodes[3] = {0.5 - 0.3872983346207417, 0.5, 0.5 + 0.3872983346207417};
  const double weights[3] = {5.0 / 18, 8.0 / 18, 5.0 / 18};
  for (int i = 0; i < 3; ++i) {
    const double w = u * nodes[i];
    const SinCos direction = sin_cos(from.heading + w * (from.curvature + 0.5 * change * w));
    to.north += u * weights[i] * direction.cos;
    to.east += u * weights[i] * direction.sin;
  }
  to.heading += u * (from.curvature + 0.5 * change * u);
  to.curvature += change * u;
  return to;
}

RoadPoint Road::at(double s) const {
  const double place = clamped(s - first_, 0.0, static_cast<double>(knots_.size() - 2));
  const auto i = static_cast<size_t>(place);
  const Knot knot = along(knots_[i], knots_[i + 1].curvature - knots_[i].curvature, place - static_cast<double>(i));
  RoadPoint point{knot.north, knot.east, knot.heading, knot.curvature};
  for (const Wave& wave : hills_) {
    const SinCos angle = sin_cos(wave.number * s + wave.phase);
    point.height += wave.size * angle.sin;
    point.slope += wave.size * wave.number * angle.cos;
  }
  return point;
}

double Road::bank(double s, int hand) const {
  double bank = bank_base_[hand];
  for (const Wave& wave : banks_[hand]) bank += wave.size * sin_cos(wave.number * s + wave.phase).sin;
  return bank;
}

// The ground is flat across the road, then rises to the bank.
Vector3 Road::place(double s, double d) const {
  const RoadPoint point = at(s);
  const SinCos heading = sin_cos(point.heading);
  const double beyond = d < edges_[0] ? edges_[0] - d : d - edges_[1];
  const double x = clamped((beyond - 2) / 45, 0.0, 1.0),
               rise = x > 0 ? bank(s, d > 0 ? 1 : 0) * x * x * (3 - 2 * x) : 0;
  return {point.north - d * heading.sin, point.east + d * heading.cos, -point.height - rise};
}

// Lines are counted from the reference line towards the own side.
LaneLine Road::line(int index) const {
  LaneLine line{side_ * index * lane_width_, Paint::none, false};
  if (index < -backward_ || index > forward_) return line;
  if (index == 0) {
    line.paint = backward_ > 0 ? Paint::twin : Paint::solid;
    line.yellow = true;
  } else {
    line.paint = index == forward_ || index == -backward_ ? Paint::solid : Paint::dashed;
  }
  return line;
}

LaneLine Road::boundary(int lane, bool right, int step) const {
  const int outwards = lane + 1 + step, inwards = lane - step;
  return line(right == (side_ > 0) ? outwards : inwards);
}

}  // namespace sparkpilot::drive::synth
