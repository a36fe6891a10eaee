// Models on a recorded route: each frame is decoded and prepared once, and all run on it in turns. What each says is
// written as a drive, so that compare/driving.h compares them as it compares finished drives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.h"
#include "drive/drive.h"

namespace sparkpilot::compare {

struct RouteVariant {
  std::string name;  // in tables, and of its folder: "bf16"
  drive::ModelFiles models;
  SessionOptions session = {};  // its threads, if 0, are what `drive` gives the networks
  bool int8 = false;            // quantized first, calibrated on frames of the route as they are in fp32
};

struct RouteOptions {
  drive::DriveOptions drive = {};  // of all variants, except models, session, out and overlay
  std::filesystem::path out = {};  // each variant's drive is a folder in it
  int64_t calibration = 32;        // frames for int8, evenly over the first segment that has a video
  std::function<void(std::string_view what, double done)> progress = {};
};

struct RouteResult {
  std::string name;
  std::filesystem::path folder;  // of the drive
  std::string run;               // DriveResult::run
  std::string contract;          // DrivingContract::describe()
  int threads = 0;               // of the networks
  Statistics ms;                 // of the networks, per frame
  Ratio ratio;  // of their time to the first variant's, over rounds of 20 frames; no rounds if not run in turns with it
  std::optional<int64_t> peak_memory_bytes;  // of loading it and running it once
};

struct RouteComparison {
  std::vector<RouteResult> variants;  // in the order given
  std::vector<std::string> notes;     // what affects how the results may be read
  double seconds = 0;                 // of driving all, without loading
  bool stopped = false;               // by DriveOptions::stop: the results are incomplete
};

// The folder of a variant's drive.
std::filesystem::path folder_of(const std::filesystem::path& out, const std::string& variant);

// Models that sample their pictures in different ways cannot share prepared frames: they are driven one group after the
// other, with a note. Fails (user) if a file is not a driving model, the route has nothing to drive or a file cannot be
// written.
RouteComparison compare_on_route(const drive::Route& route, const std::vector<RouteVariant>& variants,
                                 const RouteOptions& options);

}  // namespace sparkpilot::compare
