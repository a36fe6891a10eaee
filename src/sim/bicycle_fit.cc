#include "sim/bicycle_fit.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/vehicle-inl.h"

namespace sparkpilot::sim {
namespace {

constexpr double kHardest = 3;  // m/s^2: above, tyres are no longer linear

// The yaw rate that the model gives at every step of the stretch.
void model_yaw(const scalar::CarConstants<double>& car, double offset, const DriveStretch& s,
               std::vector<double>& yaw) {
  yaw.resize(s.speed.size());
  const double u0 = s.speed[0];
  scalar::Motion<double> m{};
  m.yaw_rate = scalar::curvature_of(car, s.wheel[0] - offset, u0, s.roll[0]) * u0;
  for (size_t i = 0; i < yaw.size(); ++i) {
    yaw[i] = m.yaw_rate;
    const size_t next = std::min(i + 1, yaw.size() - 1);
    const double wheel = (s.wheel[i] + s.wheel[next]) / 2 - offset, u = (s.speed[i] + s.speed[next]) / 2;
    const scalar::Road<double> road{0, s.roll[i], 0, 0, 1};
    double turned = 0;
    scalar::lateral_rates<double, scalar::LinearTyres>(car, wheel, u, road, kStep, m, turned);
  }
}

// Whether a measured yaw rate enters: not at the beginning of a stretch, nor where tyres are no longer linear.
bool counts(const DriveStretch& s, const DriveStretch::Yaw& yaw) {
  return yaw.at >= kSettled && std::abs(yaw.rate) * between(s.speed, yaw.at / kStep) <= kHardest;
}

// How far the yaw rate's zero may be off, as a standard deviation: livePose and liveLocationKalman estimate it, others
// do not. At one speed it looks like an offset of the wheel's angle, so something must be known of it.
double bias_of(const std::string& yaw_source) {
  return yaw_source == "livePose" || yaw_source == "liveLocationKalman" ? 0.002 : 0.02;  // rad/s
}
constexpr double kYawNoise = 0.004;  // rad/s: the error of a measurement, with which that is compared

}  // namespace

Vehicle adjusted(const Vehicle& base, double steer_ratio, double stiffness) {
  Vehicle car = base;
  car.steer_ratio = steer_ratio;
  car.stiffness_front *= stiffness;
  car.stiffness_rear *= stiffness;
  return car;
}

FitResult fit_bicycle(const std::vector<DriveStretch>& stretches, const Vehicle& base, double offset,
                      const std::string& yaw_source, const FitOptions& options) {
  const FitParameter parameters[kBicycleCount] = {{base.steer_ratio, 3, 60, 1e-3},
                                                  {1, 0.1, 4, 1e-4},
                                                  {offset, -0.8, 0.8, 1e-4},
                                                  {0, -0.1, 0.1, 1e-5},
                                                  {0.02, -0.1, 0.2, 1e-3}};
  std::vector<int64_t> block;
  for (const DriveStretch& s : stretches) {
    for (const auto& yaw : s.yaw) {
      if (counts(s, yaw)) block.push_back(block_of(s, yaw.at));
    }
  }
  if (block.empty()) return {};
  // Every block carries its part of what is known of the bias, so that every draw of blocks has the whole.
  const std::set<int64_t> blocks(block.begin(), block.end());
  const double known = kYawNoise / bias_of(yaw_source) / std::sqrt(static_cast<double>(blocks.size()));
  block.insert(block.end(), blocks.begin(), blocks.end());
  std::vector<double> model;
  const Residuals residuals = [&](std::span<const double> p, std::vector<double>& out) {
    out.clear();
    const auto car = scalar::car_constants(adjusted(base, p[kRatio], p[kStiffness]));
    for (const DriveStretch& s : stretches) {
      model_yaw(car, p[kOffset], s, model);
      for (const auto& yaw : s.yaw) {
        if (counts(s, yaw)) out.push_back(between(model, (yaw.at - p[kLatency]) / kStep) + p[kBias] - yaw.rate);
      }
    }
    out.insert(out.end(), blocks.size(), known * p[kBias]);
  };
  return fit_least_squares(parameters, residuals, block, options);
}

}  // namespace sparkpilot::sim
