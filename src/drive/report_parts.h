// Parts of a run's page that several of its files need. Included only by the report's sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "drive/report.h"
#include "route/draw/page.h"

namespace sparkpilot::drive {

// Seconds since the run's first frame: the axis that all its plots share.
class DriveTimeAxis {
 public:
  explicit DriveTimeAxis(const std::vector<SegmentResult>& segments);

  double of(const FrameResult& frame) const { return frame.time - start_; }
  // The time of the frame of that number; empty if the run has no such frame.
  std::optional<double> of(uint32_t frame_id) const;
  // `plot` with the whole run on its time axis.
  Plot over_all(Plot plot) const;

 private:
  double start_ = 0, length_ = 0;
  std::unordered_map<uint32_t, double> time_of_;
};

void add_reference(Page& page, const ReferenceReport& report, const DriveTimeAxis& time);

}  // namespace sparkpilot::drive
