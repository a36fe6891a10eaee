#include "sim/metrics.h"

#include <algorithm>

namespace sparkpilot::sim {
namespace {

constexpr Metric kMetrics[] = {
    {"tracking_rmse", "m/s^2", true, "lateral acceleration against the road's curvature times speed squared, RMS"},
    {"tracking_max", "m/s^2", true, "the greatest such difference"},
    {"jerk_rms", "m/s^3", true, "change of lateral acceleration, RMS"},
    {"saturated", "share", true, "steps in which the lateral output is at its limit"},
    {"offset_max", "m", true, "greatest distance from the middle of the lane"},
    {"offset_end", "m", true, "distance from it at the end"},
    {"speed_rmse", "m/s", true, "speed against the speed asked for, RMS"},
    {"longitudinal_jerk_rms", "m/s^3", true, "change of acceleration over 50 ms, RMS"},
    {"deceleration_max", "m/s^2", true, "hardest braking"},
    {"gap_min", "m", false, "smallest gap to the car ahead"},
    {"time_to_collision_min", "s", false, "smallest gap per closing speed"},
    {"collisions", "share", true, "worlds in which the gap came to 0"},
    {"safety_margin_min", "m", false, "smallest gap beyond the safe one of responsibility-sensitive safety"},
    {"unsolved_plans", "", true, "plans of the planner mpc that ran into its limit of iterations"},
    {"infeasible_plans", "", true, "plans of the planner mpc that break a limit that cannot be kept"},
};

}  // namespace

std::span<const Metric> all_metrics() { return kMetrics; }

const Metric* find_metric(std::string_view name) {
  const auto found = std::ranges::find(kMetrics, name, &Metric::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

}  // namespace sparkpilot::sim
