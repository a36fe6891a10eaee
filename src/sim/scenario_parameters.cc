#include <algorithm>
#include <cmath>

#include "sim/scenario.h"

namespace sparkpilot::sim {
namespace {

constexpr double kTurn = 6.283185307179586;

double square_of_speed(const WorldSpec& w) { return std::max(w.course.speed * w.course.speed, 1.0); }
// Seconds of a smooth ramp whose steepest slope is `slope`.
double ramp_of(double change, double slope) { return std::max(1.5 * std::fabs(change) / slope, 0.05); }

void mirror(WorldSpec& w, double value) {
  if (value >= 0) return;
  Course& c = w.course;
  for (double* number : {&c.wave, &c.turn, &c.turn2, &c.side, &c.start_offset, &c.roll, &c.roll_change})
    *number = -*number;
}

using W = WorldSpec;
const ScenarioParameter kParameters[] = {
    {"speed", "m/s", "of the car at the start, and what is asked for", [](W& w, double x) { w.course.speed = x; }},
    {"speed_to", "m/s", "asked for later", [](W& w, double x) { w.course.speed_change = x - w.course.speed; }},
    {"speed_at", "s", "when the speed asked for begins to change", [](W& w, double x) { w.course.change_at = x; }},
    {"speed_slope", "m/s^2", "steepest change of the speed asked for",
     [](W& w, double x) { w.course.change_ramp = ramp_of(w.course.speed_change, x); }},
    {"brake", "m/s^2", "most deceleration that the planner asks for", [](W& w, double x) { w.course.brake = x; }},

    {"curve", "m/s^2", "lateral acceleration of the curve at the speed of the start",
     [](W& w, double x) { w.course.turn = x / square_of_speed(w); }},
    {"radius", "m", "of the curve", [](W& w, double x) { w.course.turn = 1 / x; }},
    {"curve_at", "s", "when the curve begins", [](W& w, double x) { w.course.turn_at = x; }},
    {"curve_ramp", "s", "from straight to the whole curve", [](W& w, double x) { w.course.turn_ramp = x; }},
    {"back", "m/s^2", "lateral acceleration of the curve behind it, the other way",
     [](W& w, double x) { w.course.turn2 = -w.course.turn - x / square_of_speed(w); }},
    {"back_at", "s", "when the curve ends, and the one behind it begins",
     [](W& w, double x) {
       w.course.turn2_at = x;
       if (w.course.turn2 == 0) w.course.turn2 = -w.course.turn;
     }},
    {"back_ramp", "s", "from the curve to what is behind it", [](W& w, double x) { w.course.turn2_ramp = x; }},
    {"weave", "m/s^2", "amplitude of lateral acceleration on a winding road",
     [](W& w, double x) { w.course.wave = x / square_of_speed(w); }},
    {"weave_period", "s", "from one left curve to the next", [](W& w, double x) { w.course.frequency = kTurn / x; }},
    {"change_at", "s", "when the change of lane begins", [](W& w, double x) { w.course.wave_at = x; }},
    {"change_for", "s", "length of the change of lane",
     [](W& w, double x) { w.course.wave_for = x, w.course.frequency = kTurn / x; }},
    {"change_by", "m", "how far the lane lies aside: one sine of curvature leads there",
     [](W& w, double x) { w.course.wave = x * kTurn / (square_of_speed(w) * w.course.wave_for * w.course.wave_for); }},
    {"start_offset", "m", "of the car from the middle of its lane at the start",
     [](W& w, double x) { w.course.start_offset = x; }},

    {"roll", "rad", "of the road", [](W& w, double x) { w.course.roll = x; }},
    {"roll_to", "rad", "of the road later", [](W& w, double x) { w.course.roll_change = x - w.course.roll; }},
    {"roll_at", "s", "when the roll begins to change", [](W& w, double x) { w.course.roll_at = x; }},
    {"roll_ramp", "s", "length of that change", [](W& w, double x) { w.course.roll_ramp = x; }},
    {"grade", "sin", "of the slope, uphill", [](W& w, double x) { w.course.grade = x; }},
    {"grip", "", "of the tyres, 1 on a dry road", [](W& w, double x) { w.course.grip = x; }},
    {"ice_grip", "", "of the tyres on a patch of ice", [](W& w, double x) { w.course.ice_grip = x; }},
    {"ice_at", "s", "when the patch begins", [](W& w, double x) { w.course.ice_at = x; }},
    {"ice_for", "s", "length of the patch", [](W& w, double x) { w.course.ice_for = x; }},
    {"gust", "m/s^2", "of crosswind on the car", [](W& w, double x) { w.course.side = x; }},
    {"gust_at", "s", "when it begins", [](W& w, double x) { w.course.side_at = x; }},
    {"gust_for", "s", "its length", [](W& w, double x) { w.course.side_for = x; }},

    {"noise_angle", "deg", "standard deviation of the measured wheel angle", [](W& w, double x) { w.noise.angle = x; }},
    {"noise_speed", "m/s", "of the measured speed", [](W& w, double x) { w.noise.speed = x; }},
    {"noise_curvature", "1/m", "of the curvature asked for", [](W& w, double x) { w.noise.curvature = x; }},
    {"noise_accel", "m/s^2", "of the measured acceleration", [](W& w, double x) { w.noise.acceleration = x; }},

    {"steer_delay", "s", "from a steering command to the car's steering", [](W& w, double x) { w.steering.delay = x; }},
    {"steer_lag", "s", "of the car's steering, first order", [](W& w, double x) { w.steering.lag = x; }},
    {"steer_factor", "", "the car's lateral acceleration at full torque, of what the controller believes",
     [](W& w, double x) { w.steering.accel_factor = x * w.lateral.accel_factor; }},
    {"steer_friction", "", "friction of the car's steering, of full torque",
     [](W& w, double x) { w.steering.friction = x; }},
    {"drive_delay", "s", "from an acceleration command to the powertrain",
     [](W& w, double x) { w.powertrain.delay = x; }},
    {"drive_lag", "s", "of the powertrain, first order", [](W& w, double x) { w.powertrain.lag = x; }},
    {"drive_compensated", "", "share of drag and rolling resistance that the car itself makes up for",
     [](W& w, double x) { w.powertrain.compensated = x; }},

    {"lead_speed", "m/s", "of the car ahead", [](W& w, double x) { w.lead.speed = x, w.lead.there = true; }},
    {"lead_slower", "m/s", "than the car at the start, the car ahead",
     [](W& w, double x) { w.lead.speed = std::max(w.course.speed - x, 0.0), w.lead.there = true; }},
    {"lead_gap", "m", "to the car ahead when it comes", [](W& w, double x) { w.lead.gap = x; }},
    {"lead_headway", "s", "to the car ahead when it comes, at the speed of the start",
     [](W& w, double x) { w.lead.gap = x * w.course.speed; }},
    {"lead_to", "m/s", "speed of the car ahead later", [](W& w, double x) { w.lead.change = x - w.lead.speed; }},
    {"lead_at", "s", "when its speed begins to change", [](W& w, double x) { w.lead.change_at = x; }},
    {"lead_slope", "m/s^2", "its hardest braking or acceleration then",
     [](W& w, double x) { w.lead.change_ramp = ramp_of(w.lead.change, x); }},
    {"lead_then", "m/s", "its speed in the end",
     [](W& w, double x) { w.lead.change2 = x - w.lead.speed - w.lead.change; }},
    {"lead_then_at", "s", "when that change begins", [](W& w, double x) { w.lead.change2_at = x; }},
    {"lead_then_slope", "m/s^2", "its hardest braking or acceleration then",
     [](W& w, double x) { w.lead.change2_ramp = ramp_of(w.lead.change2, x); }},
    {"lead_wave", "m/s", "amplitude of its speed in stop and go", [](W& w, double x) { w.lead.wave = x; }},
    {"lead_wave_period", "s", "of stop and go", [](W& w, double x) { w.lead.frequency = kTurn / x; }},
    {"lead_from", "s", "when it cuts in", [](W& w, double x) { w.lead.from = x; }},
    {"lead_until", "s", "when it leaves the lane", [](W& w, double x) { w.lead.to = x; }},

    {"direction", "", "below 0: mirrored, left for right", mirror},
};

}  // namespace

std::span<const ScenarioParameter> scenario_parameters() { return kParameters; }

}  // namespace sparkpilot::sim
