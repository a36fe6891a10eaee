#include "sim/drive_grid.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "sim/vehicle.h"

namespace sparkpilot::sim {
namespace {

constexpr double kLongestGap = 0.1;  // s

// Values at ascending times, between samples linear, outside as the first and the last.
template <class T, class Value>
class Sampler {
 public:
  Sampler(const drive::Samples<T>& samples, uint64_t origin, Value value) : value_(value), at_(samples.begin()) {
    origin_ = origin;
    begin_ = samples.begin();
    end_ = samples.end();
  }
  double operator()(double time) {
    if (begin_ == end_) return 0;
    while (at_ != end_ && seconds(*at_) < time) ++at_;
    if (at_ == begin_) return value_(at_->second);
    const auto before = std::prev(at_);
    if (at_ == end_) return value_(before->second);
    const double width = seconds(*at_) - seconds(*before), low = value_(before->second);
    return width <= 0 ? low : low + (value_(at_->second) - low) * (time - seconds(*before)) / width;
  }

 private:
  template <class Item>
  double seconds(const Item& item) const {
    return static_cast<double>(static_cast<int64_t>(item.first - origin_)) * 1e-9;
  }
  Value value_;
  uint64_t origin_ = 0;
  decltype(std::declval<const drive::Samples<T>&>().begin()) at_, begin_, end_;
};

double since(uint64_t time, uint64_t origin) { return static_cast<double>(static_cast<int64_t>(time - origin)) * 1e-9; }

}  // namespace

double motion_rate(const drive::CarSignals& signals) {
  std::vector<double> gaps;
  uint64_t last = 0;
  for (const auto& [time, motion] : signals.motion) {
    if (last != 0 && time > last) gaps.push_back(static_cast<double>(time - last) * 1e-9);
    last = time;
  }
  const double middle = median(gaps);
  return middle > 0 ? 1 / middle : 0;
}

std::vector<DriveStretch> drive_stretches(const drive::CarSignals& signals, double slowest, double shortest) {
  std::vector<DriveStretch> stretches;
  if (signals.motion.empty()) return stretches;
  const uint64_t origin = signals.motion.begin()->first;
  using drive::CommandSample, drive::MotionSample, drive::ParameterSample;
  Sampler speed(signals.motion, origin, [](const MotionSample& m) { return m.speed; });
  Sampler wheel(signals.motion, origin, [](const MotionSample& m) { return m.wheel; });
  Sampler roll(signals.parameters, origin, [](const ParameterSample& p) { return p.roll; });
  Sampler yaw_rate(signals.yaw_rate, origin, [](double rate) { return rate; });
  Sampler torque(signals.command, origin, [](const CommandSample& c) { return c.torque; });
  Sampler angle(signals.command, origin, [](const CommandSample& c) { return c.wheel; });
  auto yaw = signals.yaw_rate.begin();

  const auto add = [&](double begin, double end) {
    if (end - begin < shortest) return;
    DriveStretch s;
    s.begin = begin;
    const auto count = static_cast<int64_t>(std::floor((end - begin) / kStep)) + 1;
    for (int64_t i = 0; i < count; ++i) {
      const double t = begin + static_cast<double>(i) * kStep;
      s.speed.push_back(speed(t));
      s.wheel.push_back(wheel(t));
      s.roll.push_back(roll(t));
      s.yaw_rate.push_back(yaw_rate(t));
      s.torque.push_back(torque(t));
      s.angle.push_back(angle(t));
      // The latest message counts; half a step allows for the grid's rounding.
      const uint64_t now = origin + static_cast<uint64_t>((t + kStep / 2) * 1e9);
      const bool* const active = signals.active.at(now);
      const MotionSample* const motion = signals.motion.at(now);
      s.steered.push_back(active != nullptr && *active && motion != nullptr && !motion->steering_pressed);
    }
    for (; yaw != signals.yaw_rate.end() && since(yaw->first, origin) <= end; ++yaw) {
      const double at = since(yaw->first, origin) - begin;
      if (at >= 0) s.yaw.push_back({at, yaw->second});
    }
    stretches.push_back(std::move(s));
  };

  std::optional<double> begin;
  double last = 0;
  for (const auto& [time, motion] : signals.motion) {
    const double t = since(time, origin);
    const bool good = motion.usable && motion.speed >= slowest;
    if (begin && (!good || t - last > kLongestGap)) {
      add(*begin, last);
      begin.reset();
    }
    if (good && !begin) begin = t;
    last = t;
  }
  if (begin) add(*begin, last);
  return stretches;
}

int64_t block_of(const DriveStretch& stretch, double seconds) {
  return static_cast<int64_t>(std::floor((stretch.begin + seconds) / kBlockSeconds));
}

double between(const std::vector<double>& values, double position) {
  const double p = std::clamp(position, 0.0, static_cast<double>(values.size() - 1));
  const auto i = static_cast<size_t>(p);
  if (i + 1 >= values.size()) return values.back();
  return values[i] + (values[i + 1] - values[i]) * (p - static_cast<double>(i));
}

}  // namespace sparkpilot::sim
