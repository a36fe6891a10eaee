#include "sim/steering_fit.h"

#include <algorithm>
#include <cmath>

#include "sim/vehicle-inl.h"

namespace sparkpilot::sim {
namespace {

constexpr size_t kSettledSteps = static_cast<size_t>(kSettled / kStep);

double begin_of(const SteeredRun& run) {
  double sum = 0;
  for (size_t i = 0; i < 5; ++i) sum += run.in->wheel[run.begin + i];
  return sum / 5;
}

struct Start {
  double cost;
  std::vector<double> values;
};
// The best of a grid of starts, each fitted.
FitResult best_fit(std::vector<Start> starts, std::vector<FitParameter> parameters, const Residuals& residuals,
                   const std::vector<int64_t>& blocks, const FitOptions& options) {
  std::ranges::sort(starts, {}, &Start::cost);
  FitResult best;
  for (size_t i = 0; i < std::min<size_t>(starts.size(), 3); ++i) {
    for (size_t p = 0; p < parameters.size(); ++p) parameters[p].start = starts[i].values[p];
    FitResult fit = fit_least_squares(parameters, residuals, blocks, options);
    if (best.values.empty() || fit.cost < best.cost) best = std::move(fit);
  }
  return best;
}

std::vector<FitParameter> torque_parameters() {
  std::vector<FitParameter> parameters(kSteeringCount);
  parameters[kDelay] = {0.1, 0, 0.63, kStep};  // commands are noisy from step to step
  parameters[kLag] = {0.1, 0.005, 2, 1e-3};
  parameters[kFactor] = {2, 0.1, 20, 1e-3};
  parameters[kFriction] = {0.1, 0, 2, 1e-3};
  parameters[kAccelOffset] = {0, -3, 3, 1e-3};
  return parameters;
}

}  // namespace

std::vector<SteeredRun> steered_runs(const std::vector<DriveStretch>& stretches) {
  std::vector<SteeredRun> runs;
  for (const DriveStretch& s : stretches) {
    for (size_t i = 0; i < s.steered.size(); ++i) {
      if (!s.steered[i]) continue;
      const size_t begin = i;
      while (i < s.steered.size() && s.steered[i]) ++i;
      if (i - begin >= 3 * kSettledSteps) runs.push_back({&s, begin, i});
    }
  }
  return runs;
}

TorqueModel::TorqueModel(std::vector<SteeredRun> runs, const Vehicle& vehicle, double offset)
    : runs_(std::move(runs)), offset_(offset) {
  const auto car = scalar::car_constants(vehicle);
  for (const SteeredRun& run : runs_) {
    auto& steps = steps_.emplace_back();
    for (size_t i = run.begin; i < run.end; ++i) {
      const double u = std::max(run.in->speed[i], 5.0), per = car.wheel_angle / (u * u);
      steps.push_back({(1 - car.slip_factor * u * u) * per, kGravity * run.in->roll[i] * per});
    }
  }
}

template <class See>
void TorqueModel::each(const See& see) const {
  for (size_t r = 0; r < runs_.size(); ++r) {
    for (size_t i = runs_[r].begin + kSettledSteps; i < runs_[r].end; ++i) see(runs_[r], steps_[r], i);
  }
}

double TorqueModel::force(const SteeredRun& run, const std::vector<Step>& steps, size_t i) const {
  const Step& step = steps[i - run.begin];
  return (run.in->wheel[i] - offset_ + step.roll_wheel) / step.flexible;
}

std::vector<int64_t> TorqueModel::blocks() const {
  std::vector<int64_t> out;
  each([&](const SteeredRun& run, const auto&, size_t i) {
    out.push_back(block_of(*run.in, static_cast<double>(i) * kStep));
  });
  return out;
}

std::vector<double> TorqueModel::forces() const {
  std::vector<double> out;
  each([&](const SteeredRun& run, const auto& steps, size_t i) { out.push_back(force(run, steps, i)); });
  return out;
}

double TorqueModel::slope(double delay) const {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  each([&](const SteeredRun& run, const auto& steps, size_t i) {
    const double t = between(run.in->torque, static_cast<double>(i) - delay / kStep), f = force(run, steps, i);
    n += 1, x += t, y += f, xx += t * t, xy += t * f;
  });
  const double spread = xx - x * x / n;
  return spread > 0 ? std::clamp((xy - x * y / n) / spread, 0.3, 10.0) : 2;
}

void TorqueModel::operator()(std::span<const double> p, std::vector<double>& out) const {
  out.clear();
  const double gone = 1 - std::exp(-kStep / p[kLag]), delay = p[kDelay] / kStep;
  for (size_t r = 0; r < runs_.size(); ++r) {
    const SteeredRun& run = runs_[r];
    double wheel = begin_of(run) - offset_;
    for (size_t i = run.begin; i < run.end; ++i) {
      const Step& step = steps_[r][i - run.begin];
      if (i >= run.begin + kSettledSteps) out.push_back((wheel - (run.in->wheel[i] - offset_)) / step.flexible);
      const double torque = between(run.in->torque, static_cast<double>(i) - delay);
      const double rest = (p[kFactor] * torque - p[kAccelOffset]) * step.flexible - step.roll_wheel;
      const double band = p[kFactor] * p[kFriction] * step.flexible, difference = rest - wheel;
      wheel += gone * (difference - std::clamp(difference, -band, band));
    }
  }
}

FitResult fit_torque(const TorqueModel& model, const FitOptions& options) {
  const Residuals residuals = [&](std::span<const double> p, std::vector<double>& out) { model(p, out); };
  std::vector<Start> starts;
  for (double delay = 0; delay < 0.55; delay += 0.1) {
    const double slope = model.slope(delay + 0.1);
    for (const double lag : {0.05, 0.15, 0.4}) {
      for (const double friction : {0.02, 0.1, 0.25, 0.5}) {
        std::vector<double> values{delay, lag, slope, friction, 0};
        starts.push_back({fit_cost(values, residuals), values});
      }
    }
  }
  return best_fit(std::move(starts), torque_parameters(), residuals, model.blocks(), options);
}

std::vector<double> fit_torque_again(const TorqueModel& model, const FitResult& before) {
  std::vector<FitParameter> parameters = torque_parameters();
  for (size_t p = 0; p < parameters.size(); ++p) parameters[p].start = before.values[p];
  const Residuals residuals = [&](std::span<const double> p, std::vector<double>& out) { model(p, out); };
  return fit_least_squares(parameters, residuals, model.blocks(), {.most_iterations = 12, .resamples = 0}).values;
}

FitResult fit_angle(const std::vector<SteeredRun>& runs, const FitOptions& options) {
  std::vector<int64_t> blocks;
  for (const SteeredRun& run : runs) {
    for (size_t i = run.begin + kSettledSteps; i < run.end; ++i) {
      blocks.push_back(block_of(*run.in, static_cast<double>(i) * kStep));
    }
  }
  const Residuals residuals = [&](std::span<const double> p, std::vector<double>& out) {
    out.clear();
    const double gone = 1 - std::exp(-kStep / p[kLag]), delay = p[kDelay] / kStep;
    for (const SteeredRun& run : runs) {
      double wheel = begin_of(run);
      for (size_t i = run.begin; i < run.end; ++i) {
        if (i >= run.begin + kSettledSteps) out.push_back(wheel - run.in->wheel[i]);
        wheel += gone * (between(run.in->angle, static_cast<double>(i) - delay) + p[2] - wheel);
      }
    }
  };
  const std::vector<FitParameter> parameters = {{0.1, 0, 0.63, kStep}, {0.1, 0.002, 2, 1e-3}, {0, -0.5, 0.5, 1e-4}};
  std::vector<Start> starts;
  for (double delay = 0; delay < 0.55; delay += 0.1) {
    for (const double lag : {0.02, 0.1, 0.4}) {
      std::vector<double> values{delay, lag, 0};
      starts.push_back({fit_cost(values, residuals), values});
    }
  }
  return best_fit(std::move(starts), parameters, residuals, blocks, options);
}

}  // namespace sparkpilot::sim
