// A car, in doubles: what the steps of sim/vehicle-inl.h are prepared from. Units are SI; angles in radians, of the
// road wheels or of the steering wheel as said.
#pragma once

#include <span>
#include <string_view>

namespace sparkpilot::sim {

inline constexpr double kGravity = 9.81;  // m/s^2
inline constexpr double kStep = 0.01;     // s: cars and controllers run at 100 Hz
inline constexpr double kDegrees = 57.29577951308232;

struct Vehicle {
  double mass = 1462;                                        // kg, with driver and load
  double inertia = 2500;                                     // kg m^2, about the vertical axis
  double wheelbase = 2.70;                                   // m
  double center_to_front = 1.08;                             // m, from the centre of gravity to the front axle
  double stiffness_front = 192150, stiffness_rear = 202500;  // N/rad, of both tyres of an axle
  double steer_ratio = 15.38;   // angle of the steering wheel per angle of the front wheels
  double steer_ratio_rear = 0;  // angle of the rear wheels per angle of the front wheels
  double drag = 0.00027;        // 1/m: rho c_d A / (2 m)
  double rolling = 0.12;        // m/s^2: rolling resistance
  double low_speed = 3;         // m/s: below it the slip of tyres is computed as if at it
};

// A car whose inertia and tyre stiffness are the Civic's in proportion to mass, wheelbase and centre of gravity, as
// opendbc has it for cars of which neither is known. `front`: center_to_front per wheelbase; `stiffness`: a factor, 1
// as the Civic's.
Vehicle scaled_vehicle(double mass, double wheelbase, double front, double steer_ratio, double stiffness);

// civic (Honda Civic of 2016 to 2018, openpilot's numbers), compact, sedan, sports, suv, truck.
struct Preset {
  std::string_view name;
  Vehicle vehicle;
};
std::span<const Preset> vehicle_presets();
bool is_preset(std::string_view name);
// Fails (user) on an unknown name, naming all.
const Vehicle& preset_vehicle(std::string_view name);

// Fails (user) with the number that no car has, or with which steps of 10 ms would be unstable.
void check_vehicle(const Vehicle& vehicle);

// The kinematic bicycle, or how tyres slip (sim/vehicle-inl.h).
enum class Tyres { none, linear, saturating };
// In the order of the enum.
inline constexpr const char* kTyresNames[] = {"kinematic", "linear", "saturating"};

}  // namespace sparkpilot::sim
