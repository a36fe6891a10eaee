// sparkpilot route synth: synthetic routes of which everything is known.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/synth_flags.h"
#include "cli/terminal.h"
#include "route/synth/synth.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct SynthFlags {
  drive::SynthOptions options;
  std::string out, road = "any", light = "any";
  bool wet = false, dry = false, no_wide = false, qcamera_only = false, no_video = false, no_rlog = false,
       no_traffic = false;
  int routes = 1;
};

drive::SynthOptions options_of(const SynthFlags& flags) {
  drive::SynthOptions options = flags.options;
  options.road = road_of(flags.road), options.light = light_of(flags.light);
  if (flags.no_video && flags.qcamera_only) fail("--no-video and --qcamera-only exclude each other");
  if (flags.wet && flags.dry) fail("--wet and --dry exclude each other");
  if (flags.wet || flags.dry) options.wet = flags.wet;
  options.wide = !flags.no_wide && !flags.qcamera_only && !flags.no_video;
  options.road_video = !flags.qcamera_only && !flags.no_video;
  options.qcamera = !flags.no_video;
  options.full_log = !flags.no_rlog;
  options.traffic = !flags.no_traffic;
  return options;
}

int64_t folder_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

int synth(const Program& program, const SynthFlags& flags) {
  expect_at_least("--routes", flags.routes, 1);
  expect_at_least("--first-segment", flags.options.first_segment, 0);
  if (flags.options.quality < 1 || flags.options.quality > 51)
    fail("--quality: expected 1 to 51, got {}", flags.options.quality);
  drive::SynthOptions options = options_of(flags);
  options.threads = chosen_threads(program).value_or(0);
  Json routes = Json::array();
  for (int i = 0; i < flags.routes; ++i, ++options.seed) {
    Progress progress(!program.quiet, fmt::format("seed {}", options.seed));
    const drive::SynthRoute route = drive::synth_route(flags.out, options, [&](double done) { progress.at(done); });
    Json segments = Json::array();
    for (const drive::SynthSegment& segment : route.segments) {
      const int64_t bytes = folder_bytes(segment.folder);
      segments.push_back({{"number", segment.number},
                          {"folder", segment.folder.string()},
                          {"frames", segment.frames},
                          {"bytes", bytes},
                          {"kept", segment.kept}});
      if (program.json) continue;
      print(fmt::format("{}  {} frames, {}{}\n", segment.folder.string(), segment.frames, human_bytes(bytes),
                        segment.kept ? " (was there)" : ""));
    }
    routes.push_back({{"name", route.name}, {"seed", options.seed}, {"frames", route.frames}, {"segments", segments}});
  }
  if (program.json) print_json({{"routes", routes}});
  return kDone;
}

}  // namespace

void add_route_synth(Program& program, Command route) {
  const auto flags = std::make_shared<SynthFlags>();
  drive::SynthOptions& options = flags->options;
  const Command command =
      add_command(program, route, "synth", "make routes in openpilot's format with known ground truth",
                  "  sparkpilot route synth --out routes --seconds 20 --seed 3\n"
                  "  sparkpilot route synth --out routes --device mici --road city --light night --routes 4\n"
                  "The logs' modelV2, cameraOdometry and liveLocationKalman are the ground truth.",
                  [&program, flags] { return synth(program, *flags); });
  command.add_option("--out", flags->out, "folder that gets the segments' folders").type_name("DIR").required();
  add_number(command, "--seconds", options.seconds, "length; a segment is a minute", "S");
  add_number(command, "--seed", options.seed, "the same seed, the same route");
  add_number(command, "--routes", flags->routes, "number of routes, with this seed and the following ones");
  add_choice(command, "--device", options.device, {"tici", "tizi", "mici", "neo"}, "whose cameras", "NAME");
  add_choice(command, "--road", flags->road, road_words(), "where it lies; any: highway, rural or city", "KIND");
  add_choice(command, "--light", flags->light, light_words(), "time of day and sky", "KIND");
  command.add_flag("--wet", flags->wet, "a wet road");
  command.add_flag("--dry", flags->dry, "a dry road");
  command.add_flag("--keep-left", options.keep_left, "traffic keeps left");
  command.add_flag("--no-traffic", flags->no_traffic, "no other cars on the road");
  command.add_flag("--no-wide", flags->no_wide, "no ecamera.hevc");
  command.add_flag("--qcamera-only", flags->qcamera_only, "only the small video: quick");
  command.add_flag("--no-video", flags->no_video, "logs only");
  command.add_flag("--no-rlog", flags->no_rlog, "only the decimated log");
  add_number(command, "--first-segment", options.first_segment, "the number of the first segment");
  add_number(command, "--quality", options.quality,
             "rate factor of the full videos, 1 to 51: smaller is better and larger");
  add_setting(program, command, "threads", "a number; 0 or auto: every processor");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
