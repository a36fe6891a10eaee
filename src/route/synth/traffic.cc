#include "route/synth/traffic.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sparkpilot::drive::synth {

class Turn : public Random {
 public:
  using Random::Random;
};

namespace {

constexpr double kStep = 0.01, kBefore = 1;  // seconds; the simulation begins kBefore before the first frame
constexpr double kAccelerate = 1.3, kBrake = 1.8, kHeadway = 1.4, kStandGap = 4, kMaxBrake = 4;

CarLook random_look(Turn& turn) {
  struct Colour {
    uint8_t y, u, v;
  };
  static constexpr Colour kColours[] = {{205, 128, 128}, {60, 128, 128},  {135, 128, 128}, {90, 118, 170},
                                        {75, 152, 112},  {160, 130, 126}, {40, 130, 126},  {95, 112, 132}};
  const Colour colour = kColours[turn.integer(0, 7)];
  CarLook look;
  look.van = turn.uniform() < 0.3;
  look.length = look.van ? turn.uniform(4.8, 6) : turn.uniform(4.2, 4.9);
  look.width = look.van ? turn.uniform(1.9, 2.05) : turn.uniform(1.75, 1.9);
  look.height = look.van ? turn.uniform(1.75, 2.3) : turn.uniform(1.4, 1.6);
  look.y = colour.y, look.u = colour.u, look.v = colour.v;
  return look;
}

}  // namespace

Traffic::Traffic(uint64_t seed, const Road& road, const TrafficOptions& options) : road_(road) {
  place_cars(seed, options);
  simulate(seed, options);
}

void Traffic::place_cars(uint64_t seed, const TrafficOptions& options) {
  Turn turn(seed * 4 + 3);
  first_lane_ = static_cast<int>(turn.integer(0, road_.lanes() - 1));
  for (int i = 0; i < 2; ++i) {
    wander_size_[i] = turn.uniform(0.05, 0.16);
    wander_number_[i] = 2 * kPi / (options.cruise * turn.uniform(5, 16));
    wander_phase_[i] = turn.uniform(0, 2 * kPi);
  }
  for (int lane = 0; options.leads && lane < road_.lanes(); ++lane) {
    Car car;
    car.look = random_look(turn);
    car.lane = lane;
    car.scripted = lane == first_lane_;
    car.phase = turn.uniform(0, 2 * kPi);
    car.target = options.cruise * turn.uniform(0.75, 1);
    const double gap = car.scripted ? turn.uniform(1.2, 2.6) * options.cruise + 6 : turn.uniform(10, 45);
    car.path.push_back({gap, options.cruise * 0.95});
    const bool nobody = turn.uniform() < 0.15;
    if (!nobody) cars_.push_back(std::move(car));
  }
  for (int lane = 1; options.oncoming && lane <= road_.oncoming_lanes(); ++lane) {
    turn =
        Turn(seed * 4 + 3 + (uint64_t{1} << 62) * static_cast<uint64_t>(lane));  // a longer drive begins like a shorter
    const double speed = options.cruise * turn.uniform(0.85, 1.1), d = road_.lane_centre(-lane);
    const double reach = (speed + options.cruise) * options.seconds + 400;
    for (double s = turn.uniform(30, 150); s < reach; s += turn.uniform(60, 260)) {
      oncoming_.push_back({random_look(turn), s, d, -speed});
    }
  }
}

double Traffic::wanted_speed(Car& car, double time, const Sample& ego, const TrafficOptions& options,
                             Turn& turn) const {
  if (!car.scripted) {
    // Drifts back and forth around our own car, so that a car is always in view.
    const double offset = 22 + 40 * sin_cos(car.phase + 0.11 * time).sin;
    return std::max(0.0, ego.speed + 0.12 * (ego.s + offset - car.path.back().s));
  }
  if (time >= car.next_target) {
    const double draw = turn.uniform(), hold = turn.uniform(6, 18);
    car.target = options.cruise *
                 (options.stops && draw < 0.25 ? 0 : (draw < 0.55 ? turn.uniform(0.5, 0.8) : turn.uniform(0.85, 1.05)));
    car.next_target = time + (car.target == 0 ? hold * 0.7 : hold);
  }
  return car.path.back().s - ego.s > 110 ? std::min(car.target, 0.7 * options.cruise) : car.target;
}

// The driver model's acceleration for a car at (s, d): `self`, or our own car if that is null.
double Traffic::follow(double s, double d, double speed, double wanted, const Car* self, const Sample& ego) const {
  double gap = 1e9, other_speed = 0;
  // A car that changes lanes counts in both.
  const LaneChange* change =
      !changes_.empty() && ego.s < changes_.back().s + changes_.back().length ? &changes_.back() : nullptr;
  const double also = self == nullptr && change != nullptr ? road_.lane_centre(change->to) : d;
  const auto look_at = [&](double rear, double other_d, double v) {
    const bool in_way = std::fabs(other_d - d) < 1.9 || std::fabs(other_d - also) < 1.9;
    if (rear > s && rear - s < gap && in_way) gap = rear - s, other_speed = v;
  };
  for (const Car& car : cars_) {
    if (&car != self) look_at(car.path.back().s, road_.lane_centre(car.lane), car.path.back().speed);
  }
  if (self != nullptr) {
    look_at(ego.s - 2.5, lateral(ego.s).value, ego.speed);
    if (change != nullptr) look_at(ego.s - 2.5, road_.lane_centre(change->to), ego.speed);
  }
  const double front = self != nullptr ? self->look.length : 2.2;
  gap = std::max(0.5, gap - front);
  const double ratio = wanted > 0.1 ? speed / wanted : (speed > 0 ? 2 : 1);
  const double closing = speed * (speed - other_speed) / (2 * std::sqrt(kAccelerate * kBrake));
  const double want = kStandGap + std::max(0.0, speed * kHeadway + closing);
  const double free_road = ratio <= 1 ? 1 - ratio * ratio * ratio * ratio : std::max(-1.4, 1 - ratio);
  return clamped(kAccelerate * (free_road - (want / gap) * (want / gap)), -kMaxBrake, kAccelerate);
}

bool Traffic::lane_free(int lane, const Sample& ego) const {
  const double behind = 8 + 0.9 * ego.speed, before = 10 + 0.9 * ego.speed;
  return std::none_of(cars_.begin(), cars_.end(), [&](const Car& car) {
    return car.lane == lane && car.path.back().s > ego.s - behind && car.path.back().s < ego.s + before;
  });
}

void Traffic::consider_lane_change(double time, const Sample& ego, double& next, Turn& turn) {
  if (time < next || ego.speed < 7) return;
  if (!changes_.empty() && ego.s < changes_.back().s + changes_.back().length) return;  // one change at a time
  const int lane = changes_.empty() ? first_lane_ : changes_.back().to;
  const int to = lane + (turn.uniform() < 0.5 ? -1 : 1);
  next = time + 1;
  if (to < 0 || to >= road_.lanes() || !lane_free(to, ego)) return;
  const double ahead = 2.2 * ego.speed;
  changes_.push_back({lane, to, time, 1e9, 1e9, ego.s + ahead, std::max(30.0, ego.speed * turn.uniform(4, 5.5))});
  next = time + turn.uniform(14, 32);
}

void Traffic::simulate(uint64_t seed, const TrafficOptions& options) {
  Turn turn(seed * 4 + 4);
  ego_.push_back({0, options.cruise * turn.uniform(0.8, 1)});
  double acceleration = 0, next_change = options.lane_changes ? turn.uniform(2, 20) : 1e9;
  const auto steps = static_cast<int64_t>((options.seconds + kBefore) / kStep) + 1;
  const auto advance = [](Sample at, double& a, double want, double stretch) {
    a = clamped(want, a - 4 * kStep, a + 1.6 * kStep);
    const double speed = std::max(0.0, at.speed + a * kStep);
    if (speed == 0 && a < 0) a = 0;
    return Sample{at.s + 0.5 * (at.speed + speed) * kStep / stretch, speed};
  };
  for (int64_t i = 0; i < steps; ++i) {
    const double time = static_cast<double>(i) * kStep - kBefore;
    const Sample now = ego_.back();
    consider_lane_change(time, now, next_change, turn);
    for (LaneChange& change : changes_) {
      if (change.begins > 1e8 && now.s >= change.s) change.begins = time;
      if (change.ends > 1e8 && now.s >= change.s + change.length) change.ends = time;
    }
    const double want = follow(now.s, lateral(now.s).value, now.speed, options.cruise, nullptr, now);
    for (Car& car : cars_) {
      const Sample at = car.path.back();
      const double wanted = wanted_speed(car, time, now, options, turn);
      const double a = follow(at.s, road_.lane_centre(car.lane), at.speed, wanted, &car, now);
      car.path.push_back(advance(at, car.acceleration, a, 1));
    }
    ego_.push_back(advance(now, acceleration, want, stretch(now.s)));
  }
}

Step Traffic::lateral(double s) const {
  // The first change that is not over; the car is in its lane until the change begins.
  const auto change =
      std::partition_point(changes_.begin(), changes_.end(), [s](const LaneChange& c) { return c.s + c.length <= s; });
  const int lane = change != changes_.end() ? change->from : (changes_.empty() ? first_lane_ : changes_.back().to);
  Step out{road_.lane_centre(lane), 0, 0};
  if (change != changes_.end()) {
    const double by = road_.lane_centre(change->to) - road_.lane_centre(change->from);
    const Step step = smooth_step((s - change->s) / change->length);
    out.value += by * step.value;
    out.slope += by * step.slope / change->length;
    out.bend += by * step.bend / (change->length * change->length);
  }
  for (int i = 0; i < 2; ++i) {
    const double number = wander_number_[i];
    const SinCos angle = sin_cos(number * s + wander_phase_[i]);
    out.value += wander_size_[i] * angle.sin;
    out.slope += wander_size_[i] * number * angle.cos;
    out.bend -= wander_size_[i] * number * number * angle.sin;
  }
  return out;
}

double Traffic::stretch(double s) const {
  const RoadPoint point = road_.at(s);
  const Step side = lateral(s);
  const double along = 1 - point.curvature * side.value;
  return std::sqrt(along * along + side.slope * side.slope + point.slope * point.slope);
}

CarMotion Traffic::sampled(const std::vector<Sample>& path, double time) {
  const auto last = static_cast<int64_t>(path.size()) - 1;
  const double place = clamped((time + kBefore) / kStep, 0.0, static_cast<double>(last));
  const int64_t i = std::min(static_cast<int64_t>(place), last - 1);
  const double u = place - static_cast<double>(i);
  const Sample &a = path[static_cast<size_t>(i)], &b = path[static_cast<size_t>(i) + 1];
  // The speed is linear between samples; s follows from it, scaled to match both ends.
  const double mean = 0.5 * (a.speed + b.speed);
  const double share = mean > 0 ? u * (a.speed + 0.5 * u * (b.speed - a.speed)) / mean : u;
  CarMotion motion{a.s + (b.s - a.s) * share, 0, a.speed + u * (b.speed - a.speed), 0};
  // Over a fifth of a second: the acceleration that a sensor would measure.
  const int64_t from = std::max<int64_t>(0, i - 9), to = std::min(last, i + 10);
  motion.acceleration = (path[static_cast<size_t>(to)].speed - path[static_cast<size_t>(from)].speed) /
                        (static_cast<double>(to - from) * kStep);
  return motion;
}

CarMotion Traffic::ego(double time) const {
  CarMotion motion = sampled(ego_, time);
  motion.d = lateral(motion.s).value;
  return motion;
}

CarMotion Traffic::car(int car, double time) const {
  const auto index = static_cast<size_t>(car);
  if (index >= cars_.size()) {
    const Oncoming& other = oncoming_[index - cars_.size()];
    return {other.s + other.speed * time, other.d, other.speed, 0};
  }
  CarMotion motion = sampled(cars_[index].path, time);
  motion.d = road_.lane_centre(cars_[index].lane);
  return motion;
}

const CarLook& Traffic::look(int car) const {
  const auto index = static_cast<size_t>(car);
  return index < cars_.size() ? cars_[index].look : oncoming_[index - cars_.size()].look;
}

int Traffic::ego_lane(double time) const {
  const double lane = road_.side() * ego(time).d / road_.lane_width();
  return static_cast<int>(clamped(std::floor(lane), 0.0, road_.lanes() - 1.0));
}

double Traffic::last_time() const { return static_cast<double>(ego_.size() - 1) * kStep - kBefore; }

}  // namespace sparkpilot::drive::synth
