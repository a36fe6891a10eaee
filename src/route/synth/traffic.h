// The cars on a road: the own car, and the others. Simulated once, in steps of 10 ms, by the intelligent driver model
// (Treiber, Hennecke, Helbing 2000) with limited jerk; after that everything is a function of time.
#pragma once

#include <cstdint>
#include <vector>

#include "route/synth/road.h"

namespace sparkpilot::drive::synth {

struct CarLook {
  double length = 4.6, width = 1.85, height = 1.48;
  uint8_t y = 120, u = 128, v = 128;  // its colour
  bool van = false;
};

// A car's motion: `s` of its rear, its speed along the road in m/s (negative: oncoming), and its acceleration.
struct CarMotion {
  double s = 0, d = 0, speed = 0, acceleration = 0;
};

struct LaneChange {
  int from = 0, to = 0;
  double decided = 0, begins = 0, ends = 0;  // seconds: the blinker is set, the car begins to move, it has arrived
  double s = 0, length = 0;                  // the stretch in which it moves
};

struct TrafficOptions {
  double seconds = 60;  // known from -1 to this
  double cruise = 20;   // metres per second
  bool leads = true;    // other cars on the own side
  bool oncoming = true;
  bool stops = false;  // the car ahead may come to a standstill
  bool lane_changes = true;
};

class Traffic {
 public:
  Traffic(uint64_t seed, const Road& road, const TrafficOptions& options);

  // The own car's reference point (below the camera). Times outside of the known range are limited to it.
  CarMotion ego(double time) const;
  // How far right of the reference line the own path runs, as a function of s.
  Step lateral(double s) const;
  // The length of the own path per metre of s, hills included.
  double stretch(double s) const;

  int cars() const { return static_cast<int>(cars_.size() + oncoming_.size()); }
  const CarLook& look(int car) const;
  bool oncoming(int car) const { return static_cast<size_t>(car) >= cars_.size(); }
  CarMotion car(int car, double time) const;
  const std::vector<LaneChange>& lane_changes() const { return changes_; }
  // The lane whose middle is nearest to the own car.
  int ego_lane(double time) const;
  double last_time() const;

 private:
  struct Sample {
    double s, speed;
  };
  struct Car {
    CarLook look;
    int lane = 0;
    bool scripted = false;  // the car ahead at the start; the others keep near the own car
    double target = 0, next_target = 0, phase = 0, acceleration = 0;
    std::vector<Sample> path;
  };
  struct Oncoming {
    CarLook look;
    double s = 0, d = 0, speed = 0;
  };
  void place_cars(uint64_t seed, const TrafficOptions& options);
  void simulate(uint64_t seed, const TrafficOptions& options);
  double wanted_speed(Car& car, double time, const Sample& ego, const TrafficOptions& options, class Turn& turn) const;
  double follow(double s, double d, double speed, double wanted, const Car* self, const Sample& ego) const;
  void consider_lane_change(double time, const Sample& ego, double& next, class Turn& turn);
  bool lane_free(int lane, const Sample& ego) const;
  static CarMotion sampled(const std::vector<Sample>& path, double time);

  const Road& road_;
  std::vector<Sample> ego_;
  std::vector<Car> cars_;
  std::vector<Oncoming> oncoming_;
  std::vector<LaneChange> changes_;
  int first_lane_ = 0;
  double wander_size_[2]{}, wander_number_[2]{}, wander_phase_[2]{};
};

}  // namespace sparkpilot::drive::synth
