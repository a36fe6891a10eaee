// The log that a device would have written of a world: openpilot's events at openpilot's rates, all with true values.
//
// Frame `i` of the world was taken at i/20 s; its number is 1200 * first segment + i, and segment n holds the frames
// 1200 n to 1200 n + 1199. A frame's own events are in its segment even if they come a moment after its end.
#pragma once

#include <capnp/message.h>

#include <cstdint>
#include <functional>
#include <string>

#include "route/synth/world.h"

namespace sparkpilot::drive::synth {

inline constexpr int kFramesPerSegment = 1200, kFramesPerSecond = 20;
inline constexpr uint64_t kFirstMonoTime = 100'000'000'000;  // of the world's first frame, nanoseconds

struct LogOptions {
  std::string device_type = "tici", sensor = "ar0231";
  std::string dongle, log_id;
  int first_segment = 0;
  int64_t frames = 0;  // of the whole route
  bool road_video = true, wide = true, qcamera = true;
};

// The vehicle: values of `carParams`, and those from which its events are computed.
struct Vehicle {
  double mass = 1500, wheelbase = 2.7, centre_to_front = 1.08, steer_ratio = 15.4;
  double front_stiffness = 197000, rear_stiffness = 207800;  // N/rad
  double steer_delay = 0.2, accelerator_delay = 0.3;         // seconds
  // Degrees, positive to the left; openpilot's VehicleModel without roll.
  double steering_angle(double curvature, double speed) const;
};

// Calls `sink` for every event of one segment (numbered within the world, from 0) in the order of the full log;
// `decimated`: the event is in the qlog too, by openpilot's cereal/services.py.
using LogSink = std::function<void(capnp::MessageBuilder& message, bool decimated)>;
void segment_events(const World& world, const LogOptions& options, int segment, const LogSink& sink);

}  // namespace sparkpilot::drive::synth
