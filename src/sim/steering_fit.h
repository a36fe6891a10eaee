// Delay, lag, friction and lateral acceleration at full torque of a drive: the steering of the simulator, driven by the
// recorded commands, fitted to the wheel's measured angle (docs/sim_fit.md).
#pragma once

#include <span>
#include <vector>

#include "sim/drive_grid.h"
#include "sim/least_squares.h"
#include "sim/vehicle.h"

namespace sparkpilot::sim {

// Steps begin to end - 1 of a stretch, in which openpilot steers.
struct SteeredRun {
  const DriveStretch* in;
  size_t begin, end;
};
// Those of 3 s or more.
std::vector<SteeredRun> steered_runs(const std::vector<DriveStretch>& stretches);

// The wheel under torque, as sim/steering-inl.h has it, in runs of a drive and in one model of the car.
class TorqueModel {
 public:
  // `offset`: rad that the wheel's measured angle is off. The stretches that the runs lie in must stay.
  TorqueModel(std::vector<SteeredRun> runs, const Vehicle& vehicle, double offset);

  // Of each residual: its block, and the side force per mass that the wheel's angle means, m/s^2: what torque is held
  // against.
  std::vector<int64_t> blocks() const;
  std::vector<double> forces() const;
  // Straight line of force over torque with a delay in s and no friction: the first guess of kFactor.
  double slope(double delay) const;
  // Residuals in m/s^2, for these numbers.
  void operator()(std::span<const double> numbers, std::vector<double>& out) const;

 private:
  // What a step's rest depends on besides the numbers.
  struct Step {
    double flexible, roll_wheel;  // rad of the wheel per m/s^2; rad
  };
  template <class See>
  void each(const See& see) const;
  double force(const SteeredRun& run, const std::vector<Step>& steps, size_t i) const;

  std::vector<SteeredRun> runs_;
  std::vector<std::vector<Step>> steps_;
  double offset_;
};

// What is fitted: s; s; m/s^2 at full torque; of full torque; m/s^2 without torque. Of a car that takes angles the
// first two, and then the offset of its angle in rad.
enum SteeringNumber { kDelay, kLag, kFactor, kFriction, kAccelOffset, kSteeringCount };
FitResult fit_torque(const TorqueModel& model, const FitOptions& options);
FitResult fit_angle(const std::vector<SteeredRun>& runs, const FitOptions& options);
// The numbers that fit_torque() gives from where it ended, with another model of the car.
std::vector<double> fit_torque_again(const TorqueModel& model, const FitResult& before);

}  // namespace sparkpilot::sim
