// The end of the pipeline: a frame's outputs become messages in a log, a picture in a video, a row of results.
#pragma once

#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "drive/camera_stream.h"
#include "drive/segment_run.h"
#include "route/contract/driver_outputs.h"
#include "route/contract/model_message.h"

namespace sparkpilot::drive {

// The driver monitoring model's outputs for one frame.
struct DriverFrame {
  IndexedFrame mark;
  DriverOutputs outputs;
  double ms = 0;
  std::vector<float> raw;
};

struct OutputFrame {
  PreparedFrame frame;
  std::unique_ptr<ModelOutputs> outputs;  // null: no model ran on this frame
  Action action;
  StepTimes times;
  double late_ms = 0, frame_drop_percent = 0;
  uint32_t frame_id_extra = 0;
  bool valid = false;
  bool finite = true;      // the plan is
  bool first = false;      // the model had no earlier picture
  std::vector<float> raw;  // if rawPredictions is requested
  std::vector<DriverFrame> driver;
};

// Works in a separate thread. Only one thread may call put().
class SegmentOutput {
 public:
  // All arguments must outlive it; only its thread uses the lane's publisher until finish(). `frames`: the approximate
  // number of frames to come.
  SegmentOutput(const SegmentJob& job, const SegmentLane& lane, const Camera& camera, int64_t frames,
                CameraStream& road);
  ~SegmentOutput();

  void put(OutputFrame frame);
  // Waits for the last frame, commits the files and returns frames, pictures and counts. Rethrows the thread's
  // exception.
  void finish(SegmentResult& result);
  // The frames' outputs, by frame; call it after finish().
  const std::vector<ModelRecord>& records() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
