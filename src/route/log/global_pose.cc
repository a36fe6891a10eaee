// comma2k19's global_pose: NumPy files without an extension, one row per frame, written by an optimizer over GNSS,
// inertial sensors and video. Source: the data set's README, "Pose Format".
#include <cmath>

#include "base/error.h"
#include "route/log/driven_path.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace {

// `columns` 0: one-dimensional. `rows` below 0: any number.
Tensor load_rows(const std::filesystem::path& file, int64_t rows, int64_t columns) {
  const Tensor array = load_npy(file);
  const Shape& shape = array.shape();
  const bool right = shape.rank() == (columns ? 2 : 1) && (!columns || shape[1] == columns);
  if (!right || (rows >= 0 && shape[0] != rows) || !is_float(array.dtype()))
    fail("{}: expected floats of shape [{}{}], got {} {}", file.string(), rows < 0 ? "n" : std::to_string(rows),
         columns ? fmt::format(",{}", columns) : "", name(array.dtype()), shape.str());
  return convert(array, DType::f64);
}

std::vector<Vector3> rotated_back(std::span<const double> velocities, std::span<const double> orientations) {
  std::vector<Vector3> out;
  for (size_t i = 0; 3 * i < velocities.size(); ++i) {
    const double *q = &orientations[4 * i], *v = &velocities[3 * i];
    out.push_back(rotate(conjugate(normalized({q[0], q[1], q[2], q[3]})), {v[0], v[1], v[2]}));
  }
  return out;
}

}  // namespace

std::optional<Vector3> calibration_of_global_pose(const std::filesystem::path& folder) {
  const auto orientations = load_rows(folder / "frame_orientations", -1, 4);
  const auto velocities = load_rows(folder / "frame_velocities", orientations.shape()[0], 3);
  return calibration_from_motion(rotated_back(velocities.data<double>(), orientations.data<double>()));
}

DrivenPath DrivenPath::from_global_pose(const std::filesystem::path& folder, std::span<const uint64_t> times,
                                        const std::optional<Vector3>& calibration) {
  const Tensor clock = load_rows(folder / "frame_times", -1, 0);
  const int64_t rows = clock.shape()[0];
  const auto positions = load_rows(folder / "frame_positions", rows, 3);
  const auto orientations = load_rows(folder / "frame_orientations", rows, 4);  // rotation to ECEF from the device, as
                                                                                // stored
  const std::span<const double> p = positions.data<double>(), q = orientations.data<double>();
  const Vector3 rpy = calibration ? *calibration : calibration_of_global_pose(folder).value_or(Vector3{});
  std::vector<Pose> poses;
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    if (!times.empty() && i >= times.size()) break;
    const double seconds = clock.data<double>()[i];
    const Quaternion device{q[4 * i], q[4 * i + 1], q[4 * i + 2], q[4 * i + 3]};
    const double norm = std::hypot(std::hypot(device.w, device.x), std::hypot(device.y, device.z));
    if (times.empty() && !(seconds >= 0 && seconds < 1e10)) continue;
    if (!(std::abs(norm - 1) < 0.1)) continue;
    poses.push_back({times.empty() ? static_cast<uint64_t>(std::llround(seconds * 1e9)) : times[i],
                     {p[3 * i], p[3 * i + 1], p[3 * i + 2]},
                     normalized(device) * quaternion_from_euler(rpy)});
  }
  return {std::move(poses), "global_pose"};
}

}  // namespace sparkpilot::drive
