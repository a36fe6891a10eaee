// The part of `sparkpilot compare` that drives a route with several models, precisions or numbers of threads.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/compare_drives.h"

namespace sparkpilot::cli {

struct CompareRouteFlags {
  std::string route, out;
  std::string precisions, threads, devices;  // lists; empty: the setting's
  std::vector<std::string> models;           // folders; empty: the setting's
  std::vector<std::string> calibrations;     // files, of networks in any of the folders
  int64_t limit = 0;                         // frames per segment; 0: all
  bool qcamera = false, no_wide = false, video = false;
  RunFlags run = {};
};

// Drives the route once with every folder of models in every precision with every number of threads, and reports times
// and differences; returns the exit code. Without `out` the drives are removed at the end.
int compare_route(const Program& program, const CompareRouteFlags& flags, const DriveLimits& limits);

}  // namespace sparkpilot::cli
