// Driving a recorded route: its frames through the models, and what comes out beside what happened.
//
// Each segment leaves a folder of its own, named as a route's segments are: rlog.zst (modelV2, cameraOdometry),
// overlay.mp4, segment.json, pictures of key frames. The run leaves summary.json and summary.html beside them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "drive/driving_model.h"
#include "route/log/route.h"
#include "drive/segment_result.h"
#include "sparkpilot/session.h"

namespace sparkpilot::drive {

struct DriveProgress {
  std::string segment;
  int64_t frame = 0, frames = 0;  // of this process's share of the route
  double frames_per_second = 0, seconds_left = 0;
};

struct DriveOptions {
  ModelFiles models = {};       // none: what openpilot recorded is drawn, without a model
  SessionOptions session = {};  // precision, device, passes; threads are shared out from `threads`
  int threads = 0;              // of everything together; 0: every processor this process may use
  std::filesystem::path out;    // of one run at a time: the caller sees to it (base/folder_lock.h)

  bool resume = false;  // segments that are complete already stay as they are
  bool overlay = true;
  int overlay_width = 964;
  bool wide = true;                         // false: the road camera stands in for the wide one
  bool qcamera = false;                     // drive qcamera.ts where the full video is there too
  std::optional<Sampling> sampling = {};    // instead of the era's own
  std::optional<double> focal_length = {};  // of the road camera at its full width, where the log does not tell
  bool realtime = false;                    // frames at 20 Hz of route time, late ones counted
  bool raw = false;                         // rawPredictions in modelV2
  std::filesystem::path dump = {};          // every frame's inputs and raw outputs as .npy
  int64_t limit = 0;                        // frames a segment; 0: all
  bool keep_frames = true;  // in the result; where not, memory does not grow with the route: they are in segment.json

  int rank = 0, ranks = 1;                  // of several processes: segments are dealt out in turn
  const std::atomic<bool>* stop = nullptr;  // once true, files are finished and the run ends
  std::function<void(const DriveProgress&)> progress = {};
  std::function<void(const std::string&)> note = {};
};

// Threads of each stage: a decoder, the networks, the encoder of the overlay.
struct Shares {
  int decode = 1, infer = 1, encode = 1;
};
// `threads` shared out: two cameras' decoders, drawing and encoding beside the networks.
Shares share_threads(int threads, bool wide, bool overlay);

struct DriveResult {
  std::vector<SegmentResult> segments;              // of this process, those resumed from included
  std::vector<DrivingModel::NetworkInfo> networks;  // none where only what was recorded was drawn
  std::string contract;                             // DrivingContract::describe()
  std::string run;                                  // SegmentResult::run of all its segments
  Shares shares;
  double seconds = 0;  // of this run, loading the models apart
  bool stopped = false;
};

// Fails (user) where the route has nothing to drive, a model is none, or a file cannot be written. A segment that
// cannot be driven (no video, no log) is left out with a note; when that holds for all, that is an error.
DriveResult drive_route(const Route& route, const DriveOptions& options);

// The folder of a segment's results beneath DriveOptions::out.
std::string segment_folder(const Route& route, const Segment& segment);

}  // namespace sparkpilot::drive
