#include "route/log/driven_path.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sparkpilot::drive {
namespace {

constexpr double kMaxSpeed = 100;      // m/s
constexpr double kMotionWindow = 0.1;  // s on each side

double length(const Vector3& v) { return std::hypot(v[0], v[1], v[2]); }

Vector3 minus(const Vector3& a, const Vector3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

// a + (b - a) share
Vector3 mix(const Vector3& a, const Vector3& b, double share) {
  return {a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share};
}

bool finite(const DrivenPath::Pose& pose) {
  const Quaternion& q = pose.world_from_calibrated;
  return std::isfinite(pose.position[0]) && std::isfinite(pose.position[1]) && std::isfinite(pose.position[2]) &&
         std::isfinite(q.w) && std::isfinite(q.x) && std::isfinite(q.y) && std::isfinite(q.z);
}

bool any(const std::vector<Vector3>& list) {
  return std::any_of(list.begin(), list.end(), [](const Vector3& v) { return v != Vector3{}; });
}

// Whether the steps lie along the x axes of the inverse orientations rather than along those of the orientations.
bool inverted(const std::vector<DrivenPath::Pose>& poses) {
  double as_is = 0, inverse = 0;
  for (size_t i = 1; i < poses.size(); ++i) {
    const Vector3 step = minus(poses[i].position, poses[i - 1].position);
    if (!std::isfinite(length(step)) || length(step) > kMaxSpeed) continue;
    const Quaternion& q = poses[i].world_from_calibrated;
    as_is += std::abs(rotate(conjugate(q), step)[0]);
    inverse += std::abs(rotate(q, step)[0]);
  }
  return inverse > 1.1 * as_is;
}

// The seconds from pose i - 1 to pose i; 0 over a gap, after which a new piece begins.
double step_seconds(std::vector<DrivenPath::Pose>& poses, size_t i) {
  poses[i].piece = poses[i - 1].piece;
  const double dt = static_cast<double>(poses[i].time - poses[i - 1].time) * 1e-9;
  if (dt <= kMaxPoseGap) return dt;
  ++poses[i].piece;
  return 0;
}

// Integrates turn rates about the poses' own axes to orientations, by trapezoids.
void integrate_turns(const std::vector<Vector3>& turns, std::vector<DrivenPath::Pose>& poses) {
  for (size_t i = 1; i < poses.size(); ++i) {
    const double dt = step_seconds(poses, i);
    const Vector3 turn = mix(turns[i - 1], turns[i], 0.5);
    poses[i].world_from_calibrated =
        normalized(poses[i - 1].world_from_calibrated *
                   quaternion_from_rotation_vector({turn[0] * dt, turn[1] * dt, turn[2] * dt}));
  }
}

// Integrates velocities along the poses' own axes to positions, by trapezoids, starting at the first pose's.
void integrate(const std::vector<Vector3>& velocities, std::vector<DrivenPath::Pose>& poses) {
  for (size_t i = 1; i < poses.size(); ++i) {
    const double dt = step_seconds(poses, i);
    const Vector3 mean = mix(rotate(poses[i - 1].world_from_calibrated, velocities[i - 1]),
                             rotate(poses[i].world_from_calibrated, velocities[i]), 0.5);
    for (size_t k = 0; k < 3; ++k) poses[i].position[k] = poses[i - 1].position[k] + mean[k] * dt;
  }
}

}  // namespace

DrivenPath::DrivenPath(std::vector<Pose> poses, std::string source) : source_(std::move(source)) {
  std::erase_if(poses, [](const Pose& pose) { return !finite(pose); });
  std::stable_sort(poses.begin(), poses.end(), [](const Pose& a, const Pose& b) { return a.time < b.time; });
  for (Pose& pose : poses) {
    if (!poses_.empty() && poses_.back().time == pose.time) poses_.pop_back();
    poses_.push_back(pose);
  }
  seconds_.reserve(poses_.size());
  int breaks = 0;
  for (size_t i = 0; i < poses_.size(); ++i) {
    seconds_.push_back(since_start(poses_[i].time));
    if (i > 0) {
      const double dt = seconds_[i] - seconds_[i - 1];
      const double step = length(minus(poses_[i].position, poses_[i - 1].position));
      if (dt > kMaxPoseGap || step > kMaxSpeed * dt + 1) ++breaks;
    }
    poses_[i].piece += breaks;
  }
}

std::optional<DrivenPath> DrivenPath::from(const Timeline& timeline) {
  if (timeline.pose.size() >= 2) {
    DrivenPath path = from_pose(timeline.pose, timeline.calibration);
    if (timeline.pose_of_location) path.source_ = "liveLocationKalman";
    return path;
  }
  if (timeline.location.size() >= 2) return from_location(timeline.location);
  return {};
}

DrivenPath DrivenPath::from_location(const Samples<LocationSample>& samples) {
  Samples<LocationSample> sorted = samples;
  sorted.sort();
  std::vector<Pose> poses;
  std::vector<Vector3> velocities, turns;
  for (const auto& [time, sample] : sorted) {
    poses.push_back({time, sample.position_ecef, quaternion_from_euler(sample.orientation_ecef)});
    velocities.push_back(sample.velocity_calibrated);
    turns.push_back(sample.angular_velocity_calibrated);
  }
  if (inverted(poses)) {
    for (Pose& pose : poses) pose.world_from_calibrated = conjugate(pose.world_from_calibrated);
  }
  if (any(turns)) integrate_turns(turns, poses);
  if (any(velocities)) integrate(velocities, poses);
  return {std::move(poses), "liveLocationKalman"};
}

DrivenPath DrivenPath::from_pose(const Samples<PoseSample>& samples, const Samples<Vector3>& calibration) {
  Samples<PoseSample> sorted = samples;
  sorted.sort();
  std::vector<Pose> poses;
  std::vector<Vector3> velocities, turns;
  for (const auto& [time, sample] : sorted) {
    poses.push_back({time, {}, {}});
    velocities.push_back(sample.velocity_device);
    turns.push_back(sample.angular_velocity_device);
  }
  integrate_turns(turns, poses);
  integrate(velocities, poses);
  const Vector3 estimated = calibration.empty() ? calibration_from_motion(velocities).value_or(Vector3{}) : Vector3{};
  for (Pose& pose : poses) {
    const Vector3* rpy = calibration.at(pose.time);
    if (!rpy && !calibration.empty()) rpy = &calibration.begin()->second;
    pose.world_from_calibrated = pose.world_from_calibrated * quaternion_from_euler(rpy ? *rpy : estimated);
  }
  return {std::move(poses), "livePose"};
}

double DrivenPath::since_start(uint64_t time) const {
  const uint64_t start = poses_.empty() ? 0 : poses_.front().time;
  return time >= start ? static_cast<double>(time - start) * 1e-9 : -static_cast<double>(start - time) * 1e-9;
}

std::optional<DrivenPath::Pose> DrivenPath::at(double seconds) const {
  const auto after = std::lower_bound(seconds_.begin(), seconds_.end(), seconds);
  if (after == seconds_.end()) return {};
  const auto i = static_cast<size_t>(after - seconds_.begin());
  if (*after == seconds) return poses_[i];
  if (i == 0) return {};
  const Pose &a = poses_[i - 1], &b = poses_[i];
  if (a.piece != b.piece) return {};
  const double share = (seconds - seconds_[i - 1]) / (seconds_[i] - seconds_[i - 1]);
  return Pose{a.time, mix(a.position, b.position, share),
              slerp(a.world_from_calibrated, b.world_from_calibrated, share), a.piece};
}

std::optional<DrivenPath::Point> DrivenPath::ahead(uint64_t time, double seconds) const {
  if (!std::isfinite(seconds)) return {};
  const auto here = at(since_start(time)), there = at(since_start(time) + seconds);
  if (!here || !there || here->piece != there->piece) return {};
  const Quaternion here_from_world = conjugate(here->world_from_calibrated);
  return Point{rotate(here_from_world, minus(there->position, here->position)),
               euler_from_quaternion(here_from_world * there->world_from_calibrated)};
}

std::optional<DrivenPath::Motion> DrivenPath::motion(uint64_t time) const {
  const double middle = since_start(time);
  const auto here = at(middle);
  if (!here) return {};
  double begin = middle - kMotionWindow, end = middle + kMotionWindow;
  auto first = at(begin), last = at(end);
  if (!first || first->piece != here->piece) first = here, begin = middle;
  if (!last || last->piece != here->piece) last = here, end = middle;
  if (end <= begin) return {};
  const Quaternion turn = conjugate(first->world_from_calibrated) * last->world_from_calibrated;
  return Motion{length(minus(last->position, first->position)) / (end - begin),
                euler_from_quaternion(turn)[2] / (end - begin)};
}

std::optional<Vector3> calibration_from_motion(std::span<const Vector3> velocities) {
  constexpr double kMin = 5;  // m/s; openpilot calibrates above 15 mph, but a minute of town may not have that
  Vector3 sum{};
  for (const Vector3& v : velocities) {
    const double speed = length(v);
    if (!std::isfinite(speed) || speed < kMin || speed > kMaxSpeed) continue;
    for (size_t i = 0; i < 3; ++i) sum[i] += v[i] / speed;
  }
  if (sum[0] <= 0) return {};
  // x of the calibrated frame in the device's: (cos p cos y, cos p sin y, -sin p)
  return Vector3{0, std::asin(-sum[2] / length(sum)), std::atan2(sum[1], sum[0])};
}

}  // namespace sparkpilot::drive
