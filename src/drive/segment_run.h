// One segment through the pipeline: decode and prepare (a thread for each camera), infer (the caller's thread), write
// and draw (one thread).
#pragma once

#include <string>
#include <vector>

#include "drive/camera_stream.h"
#include "drive/drive.h"
#include "drive/driver_model.h"
#include "route/contract/model_message.h"
#include "route/log/timeline.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {

// State of the frames that one segment passes to the next.
struct DriveState {
  std::optional<Vector3> calibration = {};
  std::optional<uint32_t> last_frame_id = {};
  double dropped = 0;  // recently lost frames, filtered over 10 s as in openpilot
  int64_t frames = 0;  // so far

  // The number of frames lost before this one, the road camera's next; 0 for the very first.
  int64_t lost_before(uint32_t frame_id);
};

// One model on the segment's frames, and where its results go.
struct SegmentLane {
  const DriveOptions* options = nullptr;
  DrivingModel* model = nullptr;  // null: only the recording is drawn
  DriverModel* driver_model = nullptr;
  ModelPublisher* publisher = nullptr;  // used by the thread that writes, while the segment runs
  std::filesystem::path folder = {};    // for the results; empty: the frames only advance the model's state
  std::string unfinished = {};          // the folder's segment.json until the segment is done
  // Whether nothing will be read of a frame (FrameInputs::unread); empty: of none.
  std::function<bool(const PreparedFrame& frame)> unread = {};
  // After each frame that the model was given; `ran`: its networks ran (FrameInputs::prepare_only, unread).
  std::function<void(const PreparedFrame& frame, const FrameInputs& inputs, bool ran)> seen = {};
};

struct SegmentJob {
  const Segment* segment = nullptr;
  const Timeline* timeline = nullptr;
  // At least one. What the frames depend on is the first one's: cameras, sampling, limit, realtime, stop. All or none
  // have a model and a folder; only the first one may have an overlay.
  std::vector<SegmentLane> lanes;
  Shares shares;
  int64_t first = 0;       // index of the first frame
  double route_start = 0;  // s of the device's clock at which the route began
  uint64_t first_eof = 0;  // ns, if the log has neither an index nor Timeline::first_moment
  std::function<void(int64_t done)> progress = {};
};

// The segment cannot be driven; others may be.
class CannotDrive : public Error {
 public:
  using Error::Error;
};

// The encode index of the road camera's video that is driven, fcamera.hevc or qcamera.ts; empty if the log has none.
const std::vector<IndexedFrame>& road_index(const Segment& segment, const Timeline& log, const DriveOptions& options);

// What the log says of a frame that ended at `time` (ns of the device's clock), for a model of that era; no pictures.
FrameInputs frame_inputs(const Timeline& log, uint64_t time, char era);

// Throws CannotDrive, or fails (user) if the output cannot be written. A result for each lane, whose `complete` is
// false if it was stopped.
std::vector<SegmentResult> run_segment(const SegmentJob& job, DriveState& state);

}  // namespace sparkpilot::drive
