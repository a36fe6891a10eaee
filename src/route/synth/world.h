// A generated drive: the road, the traffic, the light, the objects next to the road, and where the device is at any
// time. The same seed gives the same world, bit for bit, on every machine.
//
// The device sits kDeviceHeight above the own path, in the frame that openpilot calls calibrated: x in the direction of
// travel, y right, z down, perpendicular to the road. It is rotated against that frame by calibration(), like a real,
// imperfectly mounted device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "route/synth/geodesy.h"
#include "route/synth/road.h"
#include "route/synth/traffic.h"

namespace sparkpilot::drive::synth {

inline constexpr double kDeviceHeight = 1.22;  // metres
inline constexpr double kFuture = 11;          // known seconds after the last frame

enum class Light { day, overcast, dusk, night };

struct WorldOptions {
  uint64_t seed = 1;
  double seconds = 20;
  std::optional<RoadKind> road;  // empty: by the seed, as the next two
  std::optional<Light> light;
  std::optional<bool> wet;
  bool keep_left = false;
  bool traffic = true;
};

struct Pose {
  Vector3 position{};  // of the device: north, east, down of the route's origin
  Matrix3 ned_from_calib{};
  double s = 0, d = 0;  // on the road
  double speed = 0, acceleration = 0;
  Vector3 rate{};        // radians per second about the calibrated axes
  double curvature = 0;  // of the path, 1/m, positive to the right
};

struct Colour {
  float y = 128, u = 128, v = 128;
};

struct Scene {
  Light light = Light::day;
  bool wet = false;
  Colour zenith, horizon, cloud;
  float brightness = 1;  // of everything lit by the sky
  float clouds = 0;      // 0 to 1
  float sight = 2000;    // metres at which two thirds are haze
  bool headlights = false;
  float grain = 1;  // of the sensor, in steps of luma
  Colour grass, soil, asphalt;
  double sun = 0;  // heading of the sun
};

enum class PropKind : uint8_t { tree, conifer, bush, post, lamp, sign, building, rail };
// An object at (s, d); a rail and a building begin there.
struct Prop {
  PropKind kind = PropKind::tree;
  double s = 0, d = 0, height = 0, width = 0;
  uint32_t dice = 0;
};

class World {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const WorldOptions& options() const { return options_; }
  const Road& road() const { return *road_; }
  const Traffic& traffic() const { return *traffic_; }
  const Scene& scene() const { return scene_; }
  double cruise() const { return cruise_; }
  const Vector3& calibration() const { return calibration_; }  // roll, pitch, yaw: device_from_calib
  const Geodetic& origin() const { return origin_; }

  Pose pose(double time) const;
  // The objects next to the road between two places, those farthest along first.
  std::vector<Prop> props(double from, double to) const;

 private:
  struct PathPoint {
    Vector3 position;
    Matrix3 ned_from_calib;
    double stretch;
  };
  PathPoint path(double s) const;
  void prop_at(int64_t cell, int hand, std::vector<Prop>& out) const;

  WorldOptions options_;
  double cruise_ = 20;
  std::optional<Road> road_;
  std::optional<Traffic> traffic_;
  Scene scene_;
  Vector3 calibration_{};
  Geodetic origin_;
};

}  // namespace sparkpilot::drive::synth
