// One segment through the pipeline: decode and prepare (a thread a camera), infer (the caller's thread), write and draw
// (a thread).
#pragma once

#include <string>

#include "route/contract/model_message.h"
#include "drive/drive.h"
#include "drive/driver_model.h"
#include "route/log/timeline.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {

// What goes from one segment to the next.
struct Carry {
  std::optional<Vector3> calibration = {};
  std::optional<uint32_t> last_frame_id = {};
  double dropped = 0;  // frames lost lately, filtered over 10 s as openpilot does
  int64_t frames = 0;  // so far
  ModelPublisher publisher = {};

  // How many frames were lost before this one, the next of the road camera; the first of all counts as none.
  int64_t lost_before(uint32_t frame_id);
};

struct SegmentJob {
  const Segment* segment = nullptr;
  const Timeline* timeline = nullptr;
  const DriveOptions* options = nullptr;
  DrivingModel* model = nullptr;  // null: only what was recorded is drawn
  DriverModel* driver_model = nullptr;
  Shares shares;
  std::filesystem::path folder;  // where the results go; empty: the frames only move the model's state on
  std::string unfinished = {};   // the folder's segment.json until the segment is done
  int64_t first = 0;             // index of the first frame
  double route_start = 0;        // s of the device's clock at which the route began
  uint64_t first_eof = 0;        // ns, where the log has no index that says when the first frame was
  std::function<void(int64_t done)> progress = {};
};

// The segment has no video that can be driven; others may.
class CannotDrive : public Error {
 public:
  using Error::Error;
};

// The encode index of the road camera's video that is driven, fcamera.hevc or qcamera.ts; empty where the log has none.
const std::vector<IndexedFrame>& road_index(const Segment& segment, const Timeline& log, const DriveOptions& options);

// Throws CannotDrive, or fails (user) where the output cannot be written. The result's `complete` is false where it was
// stopped.
SegmentResult run_segment(const SegmentJob& job, Carry& carry);

}  // namespace sparkpilot::drive
