// What a network of a driving model reads on frames of recorded routes, for `model calibrate`, `model quantize` and
// `compare`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/samples.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {

struct FramesFlags {
  std::vector<std::string> routes;
  int64_t frames = 64;
};

// --route, --frames, --data.
void add_frames_flags(Program& program, Command command, FramesFlags& flags);

// The inputs of the network `file` while the driving model in its folder drives the first segment of each route, on
// --frames frames in all. Empty after Ctrl-C. Fails (user) if the file is no network of that model, or nothing can be
// driven.
std::optional<Samples> samples_on_frames(const Program& program, const std::filesystem::path& file,
                                         const FramesFlags& flags, Progress& bar);

}  // namespace sparkpilot::cli
