// sparkpilot model calibrate: how large the activations of a model get, as a JSON file.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/with_file.h"
#include "bench/calibration.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/route_frames.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

struct CalibrateFlags {
  std::string file, out, method = "min-max";
  std::vector<std::string> samples;
  FramesFlags frames;
  double percentile = 99.99;
  RunFlags run;
};

int calibrate(const Program& program, const CalibrateFlags& flags) {
  CalibrateModelOptions options;
  options.ranges.method = calibration_method(flags.method);
  options.ranges.percentile = flags.percentile;
  if (flags.method != "percentile") refuse_given(program, "--percentile", "--method percentile, which is not given");
  options.dims = dims_of(flags.run);
  options.shapes = shapes_of(flags.run);
  if (flags.samples.empty() == flags.frames.routes.empty()) fail("expected one of --samples PATH and --route ROUTE");
  options.samples = named_paths(flags.samples, "--samples");
  options.threads = chosen_threads(program).value_or(0);
  Calibration calibration;
  {
    Progress bar(!program.json && !program.quiet, "calibrating");
    if (!flags.frames.routes.empty()) {
      options.given = samples_on_frames(program, flags.file, flags.frames, bar);
      if (!options.given) return kInterrupted;
    }
    with_file(flags.file, [&] {
      calibration = calibrate_model(flags.file, flags.out, options, [&](std::string_view what, double done) {
        bar.what(std::string(what));
        bar.at(done);
      });
    });
  }
  if (calibration.samples < static_cast<int64_t>(kFewSamples) && !program.quiet) {
    note(fmt::format("few samples ({}): activations of others may be larger, and saturate", calibration.samples));
  }
  if (!calibration.left_out.empty() && !program.quiet) {
    note(fmt::format(
        "values that are the same number everywhere on these samples are left out, so what reads them is not "
        "rounded: {}",
        fmt::join(calibration.left_out, ", ")));
  }
  if (program.json) {
    print_json({{"file", flags.out},
                {"model_fnv1a_64", calibration.model},
                {"samples", calibration.samples},
                {"tensors", calibration.largest.size()},
                {"left_out", calibration.left_out}});
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
  add_frames_flags(program, command, flags->frames);
  command.add_option("-o,--out", flags->out, "the file to write").required().type_name("FILE");
  add_choice(command, "--method", flags->method, {"min-max", "percentile", "entropy"}, "how ranges are chosen", "HOW");
  add_number(command, "--percentile", flags->percentile, "share of the values that --method percentile keeps", "P");
  add_size_flags(command, flags->run);
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
