#include "cli/route_frames.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "cli/interrupt.h"
#include "compare/route_samples.h"
#include "drive/driving_model.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostFrames = 1000;  // up to 2 MB each, in memory

// The driving model in the file's folder, and which of its networks the file is.
std::pair<drive::ModelFiles, std::string> driving_model_of(const fs::path& file) {
  const drive::ModelFiles models = drive::find_models(file.has_parent_path() ? file.parent_path() : fs::path("."));
  for (const auto& [role, path] : {std::pair("supercombo", models.supercombo), std::pair("vision", models.vision),
                                   std::pair("policy", models.policy)}) {
    std::error_code ignored;
    if (!path.empty() && fs::equivalent(path, file, ignored)) return {models, role};
  }
  fail("{}: is not a network of the driving model in its folder ({})", file.string(),
       models.supercombo.empty() ? models.vision.string() + " and " + models.policy.string()
                                 : models.supercombo.string());
}

}  // namespace

void add_frames_flags(Program& program, Command command, FramesFlags& flags) {
  const Option routes =
      add_list(command, "--route", flags.routes, "ROUTE",
               "instead: what it reads when the driving model in its folder drives the first segment of this route "
               "(repeatable)");
  add_number(command, "--frames", flags.frames, "of --route: N frames of all routes, evenly over the segments")
      .needs(routes);
  add_setting(program, command, "data");
}

std::optional<Samples> samples_on_frames(const Program& program, const fs::path& file, const FramesFlags& flags,
                                         Progress& bar) {
  const auto count = std::ssize(flags.routes);
  if (flags.frames < count || flags.frames > kMostFrames) {
    fail("--frames {}: expected {} to {}", flags.frames, count, kMostFrames);
  }
  const auto [models, role] = driving_model_of(file);
  const StopOnInterrupt stop;
  Samples out;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const drive::Route route =
        drive::find_route(flags.routes[static_cast<size_t>(i)], {.data = program.settings["data"].value});
    drive::DriveOptions run;
    run.models = models;
    run.session.threads = chosen_threads(program).value_or(0);
    run.stop = &stop.requested();
    const int64_t frames = flags.frames * (i + 1) / count - flags.frames * i / count;
    bar.what("driving " + route.name);
    auto driven = compare::samples_of_route(route, run, frames, [&](int64_t done, int64_t all) {
      bar.at((static_cast<double>(i) + static_cast<double>(done) / static_cast<double>(all)) /
             static_cast<double>(count));
    });
    if (stop.requested().load()) return {};
    Samples& samples = driven[role];
    for (auto& [input, tensors] : samples.inputs) std::ranges::move(tensors, std::back_inserter(out.inputs[input]));
    out.count += samples.count;
    if (samples.count > 0) out.groups.push_back(samples.count);
  }
  return out;
}

}  // namespace sparkpilot::cli
