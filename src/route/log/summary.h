// The contents of a route's logs: counts, times, cameras, calibration, and errors. One pass over each log.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "route/log/route.h"

namespace sparkpilot::drive {

struct SegmentSummary {
  int number = 0;
  std::filesystem::path log;          // the log that was read; empty: the segment has none
  int64_t events = 0, log_bytes = 0;  // bytes: unpacked
  // First to last event, except initData, whose time is the route's start in every segment.
  std::optional<uint64_t> first_ns, last_ns;
  int64_t damaged_events = 0;  // events with fields that could not be read
  std::string damage;          // why the log ended early or could not be read; empty if complete

  double seconds() const { return first_ns ? static_cast<double>(*last_ns - *first_ns) / 1e9 : 0; }
};

// The frames of a camera in the encode index of one segment.
struct CameraPart {
  int segment = 0;
  int64_t frames = 0;
  uint32_t first_frame = 0, last_frame = 0;  // frameId
  int64_t missing = 0;                       // missing frameIds, including those before its first frame
};

struct CameraSummary {
  std::string name;                  // "road", "wide", "driver", "qcamera"
  std::optional<int> width, height;  // of its pictures, if the log tells
  std::vector<CameraPart> parts;     // by segment
  std::vector<int> files;            // segments that have its video
};

struct CalibrationReading {
  std::array<float, 3> rpy{};  // radians
  std::string status;          // "calibrated"
  int percent = 0;
  uint64_t mono_time_ns = 0;
};

// A stream that should be steady and was silent for more than a second.
struct SilentGap {
  std::string kind;
  int segment = 0;  // in which it ended
  uint64_t from_ns = 0;
  double seconds = 0;
};

struct RouteSummary {
  std::string device, dongle, version, branch, commit, fingerprint, brand;  // empty: the log does not say
  std::optional<uint64_t> wall_time_ns;                                     // of the start, since 1970
  std::optional<uint64_t> first_ns;                                         // mono time of the route's first event
  std::vector<SegmentSummary> segments;
  std::vector<CameraSummary> cameras;
  int64_t calibrations = 0;
  std::optional<CalibrationReading> first_calibration, last_calibration;
  std::map<std::string, int64_t> kinds;  // events of each
  std::vector<SilentGap> gaps;           // the first hundred
  int64_t gap_count = 0;

  int64_t events() const;
  double seconds() const;  // the sum of what the segments recorded
};

// Reads the logs of the kind that the route asks for. `progress` receives the share done, 0 to 1. A damaged log is
// reported in its segment; if no log can be read at all, the first one's reason is the Error.
RouteSummary summarise(const Route& route, const std::function<void(double)>& progress = {});

}  // namespace sparkpilot::drive
