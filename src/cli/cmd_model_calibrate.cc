// sparkpilot model calibrate: how large the activations of a model get, as a JSON file.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/with_file.h"
#include "bench/calibration.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "compare/route_samples.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewSamples = 8, kMostFrames = 1000;  // up to 2 MB each, in memory

struct CalibrateFlags {
  std::string file, out, route, method = "min-max";
  std::vector<std::string> samples;
  int64_t frames = 64;
  double percentile = 99.99;
  RunFlags run;
};

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

// What the network reads on frames of the route; empty after Ctrl-C.
std::optional<Samples> samples_of_frames(const Program& program, const CalibrateFlags& flags, Progress& bar) {
  const auto [models, role] = driving_model_of(flags.file);
  const StopOnInterrupt stop;
  const drive::Route route = drive::find_route(flags.route, {.data = program.settings["data"].value});
  drive::DriveOptions run;
  run.models = models;
  run.session.threads = chosen_threads(program).value_or(0);
  run.stop = &stop.requested();
  auto samples = compare::samples_of_route(route, run, flags.frames, [&](int64_t done, int64_t all) {
    bar.what("driving " + route.name);
    bar.at(static_cast<double>(done) / static_cast<double>(all));
  });
  if (stop.requested().load()) return {};
  return std::move(samples[role]);
}

int calibrate(const Program& program, const CalibrateFlags& flags) {
  CalibrateModelOptions options;
  options.ranges.method = calibration_method(flags.method);
  options.ranges.percentile = flags.percentile;
  options.dims = dims_of(flags.run);
  options.shapes = shapes_of(flags.run);
  if (flags.samples.empty() == flags.route.empty()) fail("expected one of --samples PATH and --route ROUTE");
  if (flags.frames < 1 || flags.frames > kMostFrames) fail("--frames {}: expected 1 to {}", flags.frames, kMostFrames);
  options.samples = named_paths(flags.samples, "--samples");
  options.threads = chosen_threads(program).value_or(0);
  Calibration calibration;
  {
    Progress bar(!program.json && !program.quiet, "calibrating");
    if (!flags.route.empty()) {
      options.given = samples_of_frames(program, flags, bar);
      if (!options.given) return kInterrupted;
    }
    with_file(flags.file, [&] {
      calibration = calibrate_model(flags.file, flags.out, options, [&](std::string_view what, double done) {
        bar.what(std::string(what));
        bar.at(done);
      });
    });
  }
  if (calibration.samples < kFewSamples && !program.quiet) {
    note(fmt::format("{} samples are few: activations of others may be larger, and saturate", calibration.samples));
  }
  if (program.json) {
    print_json({{"file", flags.out},
                {"model_fnv1a_64", calibration.model},
                {"samples", calibration.samples},
                {"tensors", calibration.largest.size()}});
  } else {
    print(fmt::format("{}  {} tensors, {} samples\n", flags.out, calibration.largest.size(), calibration.samples));
  }
  return kDone;
}

}  // namespace

void add_model_calibrate(Program& program, Command group) {
  const auto flags = std::make_shared<CalibrateFlags>();
  const Command command =
      add_command(program, group, "calibrate", "measure how large its activations get, for fp8",
                  "  sparkpilot model calibrate model.onnx --samples samples/ --out calibration.json\n"
                  "  sparkpilot run model.onnx --precision fp8 --calibration calibration.json\n"
                  "  sparkpilot model calibrate models/driving_policy.onnx --route route/ --out policy.json\n"
                  "  sparkpilot drive route/ --models models --precision fp8 --calibration policy.json --out out/fp8",
                  [&program, flags] { return calibrate(program, *flags); });
  command.add_option("file", flags->file, "ONNX model").required().type_name("FILE");
  add_list(command, "--samples", flags->samples, "[NAME=]PATH",
           "an input's samples: .npy or .npz files, or folders of them (repeatable)");
  command
      .add_option("--route", flags->route,
                  "instead: what it reads when the driving model in its folder drives the first segment of this route")
      .type_name("ROUTE");
  add_number(command, "--frames", flags->frames, "of --route: on so many frames, evenly over the segment");
  add_setting(program, command, "data");
  command.add_option("-o,--out", flags->out, "the file to write").required().type_name("FILE");
  add_choice(command, "--method", flags->method, {"min-max", "percentile", "entropy"}, "how ranges are chosen", "HOW");
  add_number(command, "--percentile", flags->percentile, "share of the values that --method percentile keeps", "P");
  add_size_flags(command, flags->run);
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
