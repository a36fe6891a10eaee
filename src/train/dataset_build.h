// Makes data sets: recorded routes through the drive pipeline with a teacher, or synthetic roads drawn at the model's
// own size (docs/dataset.md).
//
// A folder takes more routes later, with the same teacher and options; clips that are there are kept, so a stopped
// build continues where it was. One process at a time (base/folder_lock.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drive/drive.h"
#include "route/synth/synth.h"
#include "train/dataset_clip.h"

namespace sparkpilot::train {

struct BuildProgress {
  std::string clip;
  int64_t clips = 0, all_clips = 0;  // finished, of all
  double done = 0;                   // 0 to 1
  double frames_per_second = 0;      // so far, of this build
  int64_t bytes = 0;                 // of the data set
};

struct BuildOptions {
  std::filesystem::path out;
  // The teacher: a driving model, or a driver monitoring model and nothing else. Without `teacher` only what its inputs
  // and outputs are is read.
  drive::ModelFiles models = {};
  bool teacher = true;                      // false: the networks do not run, labels alone (synthetic roads only)
  SessionOptions session = {};              // its threads, if 0, come from `threads`
  int threads = 0;                          // 0: every processor this process may use
  int every = 4;                            // frames from one sample to the next; only their pictures are kept
  double validation = 0.1;                  // share of the routes for validation: every tenth
  double min_speed = 1;                     // m/s; slower frames are no samples
  bool keep_overridden = false;             // frames in which the driver steers, accelerates or brakes
  bool wide = true;                         // false: the road camera replaces the wide one
  std::optional<double> focal_length = {};  // as in drive::DriveOptions
  // Of the driver's pictures: no driver monitoring model says which one it takes (route/contract/frame.h).
  drive::Sampling sampling = drive::Sampling::bilinear;
  int64_t max_bytes = 0;                    // no clip is begun that would exceed this; 0: no limit
  int64_t limit = 0;                        // frames per segment; 0: all
  const std::atomic<bool>* stop = nullptr;  // once true, the clip at work is dropped and the build ends
  std::function<void(const BuildProgress&)> progress = {};
  std::function<void(const std::string&)> note = {};

  bool driver() const { return !models.driver_monitoring.empty(); }
};

struct SyntheticOptions {
  uint64_t seed = 1;  // of the first route; the next ones have the next seeds
  int64_t routes = 10;
  double seconds = 20;  // of each
  double after = 0;     // seconds at its beginning that are no samples: the first frames have no earlier picture
  std::vector<drive::synth::RoadKind> roads = {};  // route i has the (i mod size)th; empty: by the seed
  std::optional<drive::synth::Light> light = {};
  std::optional<bool> wet = {};
  bool keep_left = false;
  double traffic = 1;  // share of the routes that have other cars; a seed is always with or always without
};

struct BuildResult {
  DatasetInfo info;
  ClipCounts counts;  // of the clips that were made, bytes of the whole data set
  int64_t made = 0, kept = 0, not_begun = 0;
  std::vector<std::string> cannot_drive;  // segments, with the reason
  double seconds = 0;                     // without loading the model
  bool stopped = false;
};

// Both say through `note`, before they begin, how large the data set will be and how much of the disk is free. Fail
// (user) if the folder holds something else, or a data set of another teacher or other options; if another process
// writes there; if the disk cannot hold it, or `max_bytes` no clip of it; if nothing can be driven; if the teacher's
// output is not finite.
BuildResult build_dataset(std::span<const drive::Route> routes, const BuildOptions& options);
// Of the driver camera's frames, for a driver monitoring model. Speed and what the driver does leave no frame out.
BuildResult build_driver_dataset(std::span<const drive::Route> routes, const BuildOptions& options);
BuildResult build_synthetic_dataset(const SyntheticOptions& synthetic, const BuildOptions& options);

}  // namespace sparkpilot::train
