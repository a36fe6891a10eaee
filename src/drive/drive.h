// Drives a recorded route: runs the models on its frames and compares the results with what happened.
//
// Each segment gets a folder, named like a route's segments: rlog.zst (modelV2, cameraOdometry), overlay.mp4,
// segment.json, pictures of key frames. The run writes summary.json and summary.html next to them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drive/driving_model.h"
#include "drive/segment_result.h"
#include "route/log/route.h"
#include "sparkpilot/session.h"

namespace sparkpilot::drive {

struct DriveProgress {
  std::string segment;
  int64_t frame = 0, frames = 0;  // of this process's share of the route
  double frames_per_second = 0, seconds_left = 0;
};

struct DriveOptions {
  ModelFiles models = {};       // empty: only what openpilot recorded is drawn
  SessionOptions session = {};  // precision, device, passes; its threads, if 0, come from `threads`
  int threads = 0;              // of all stages together; 0: every processor this process may use
  std::filesystem::path out;    // one run at a time: the caller ensures this (base/folder_lock.h)

  bool resume = false;  // keep segments that are already complete
  bool overlay = true;
  int overlay_width = 964;
  bool wide = true;                         // false: the road camera replaces the wide one
  bool qcamera = false;                     // drive qcamera.ts even if the full video exists
  std::optional<Sampling> sampling = {};    // instead of the era's own
  std::optional<double> focal_length = {};  // of the road camera at full width, if the log does not tell
  bool realtime = false;                    // frames at 20 Hz of route time, late ones counted
  bool raw = false;                         // rawPredictions in modelV2
  std::filesystem::path dump = {};          // every frame's inputs and raw outputs as .npy
  int64_t limit = 0;                        // frames per segment; 0: all
  bool keep_frames = true;  // in the result; false: only in segment.json, so memory does not grow with the route

  int rank = 0, ranks = 1;                  // of several processes, which take turns with the segments
  const std::atomic<bool>* stop = nullptr;  // once true, files are finished and the run ends
  std::function<void(const DriveProgress&)> progress = {};
  std::function<void(const std::string&)> note = {};
  std::function<void(DrivingModel&)> stepped = {};  // after each frame on which the networks ran
};

// Threads of each stage: a decoder, the networks, the encoder of the overlay.
struct Shares {
  int decode = 1, infer = 1, encode = 1;
};
// Divides `threads` among two cameras' decoders, drawing and encoding, and the networks.
Shares share_threads(int threads, bool wide, bool overlay);

// Everything that affects the results: SegmentResult::run.
std::string run_text(const Route& route, const DriveOptions& options);

struct DriveResult {
  std::vector<SegmentResult> segments;              // of this process, including those kept by `resume`
  std::vector<DrivingModel::NetworkInfo> networks;  // none if only the recording was drawn
  std::string contract;                             // DrivingContract::describe()
  std::string run;                                  // SegmentResult::run of all its segments
  Shares shares;
  std::optional<int64_t> peak_memory_bytes;  // while this model was loaded and run once, minus what there was before
  double seconds = 0;                        // of this run, without loading the models
  bool stopped = false;
};

// What a run's networks take on this machine, for processes that are to share it: Session::choices() and, by role,
// Session::device().
struct NetworkChoices {
  std::vector<KernelDecision> kernels;
  std::map<std::string, std::string> devices;
};
// Loads the models and drops them again. Fails (user) if a file is not a model.
NetworkChoices choose_for_networks(const Route& route, const DriveOptions& options);

// Fails (user) if the route has nothing to drive, a model file is not a model, or a file cannot be written. A segment
// that cannot be driven (no video, no log) is left out with a note; if that holds for all, it is an error.
DriveResult drive_route(const Route& route, const DriveOptions& options);

// Several models on the same frames, each of which is decoded and prepared once: the same results as that many runs of
// drive_route(). Models, session, folder, dump and `stepped` are each run's own; everything else is the first one's.
// Only the first may have an overlay. Fails (internal) if there are several and one is to be resumed, or has no model,
// or if their pictures are sampled in different ways (DrivingContract::sampling).
std::vector<DriveResult> drive_side_by_side(const Route& route, std::span<const DriveOptions> runs);

// The folder of a segment's results inside DriveOptions::out.
std::string segment_folder(const Route& route, const Segment& segment);

}  // namespace sparkpilot::drive
