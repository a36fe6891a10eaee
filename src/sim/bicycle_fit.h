// Steer ratio and tyre stiffness of a drive: the linear bicycle, driven by the wheel's measured angle and the speed,
// fitted to the measured yaw rate (docs/sim_fit.md).
#pragma once

#include <string>
#include <vector>

#include "sim/drive_grid.h"
#include "sim/least_squares.h"
#include "sim/vehicle.h"

namespace sparkpilot::sim {

// What is fitted: the steer ratio; a factor of both axles' stiffness; rad that the wheel's angle is off; rad/s that the
// yaw rate is off; s that it comes late.
enum BicycleNumber { kRatio, kStiffness, kOffset, kBias, kLatency, kBicycleCount };

// `base` with another steer ratio and its stiffness times a factor.
Vehicle adjusted(const Vehicle& base, double steer_ratio, double stiffness);

// `offset`: where the search for the wheel's starts; `yaw_source`: as CarSignals has it. Without values if no yaw rate
// was measured.
FitResult fit_bicycle(const std::vector<DriveStretch>& stretches, const Vehicle& base, double offset,
                      const std::string& yaw_source, const FitOptions& options);

}  // namespace sparkpilot::sim
