// sparkpilot model calibrate: how large the activations of a model get, as a JSON file.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/with_file.h"
#include "bench/calibration.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

constexpr int64_t kFewSamples = 8;

struct Flags {
  std::string file, out, method = "min-max";
  std::vector<std::string> samples;
  double percentile = 99.99;
  RunFlags run;
};

int calibrate(const Program& program, const Flags& flags) {
  CalibrateModelOptions options;
  options.ranges.method = calibration_method(flags.method);
  options.ranges.percentile = flags.percentile;
  options.dims = dims_of(flags.run);
  options.shapes = shapes_of(flags.run);
  options.samples = named_paths(flags.samples, "--samples");
  options.threads = chosen_threads(program).value_or(0);
  Calibration calibration;
  {
    Progress bar(!program.json && !program.quiet, "calibrating");
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
  const auto flags = std::make_shared<Flags>();
  const Command command =
      add_command(program, group, "calibrate", "measure how large its activations get, for fp8",
                  "  sparkpilot model calibrate model.onnx --samples samples/ --out calibration.json\n"
                  "  sparkpilot run model.onnx --precision fp8 --calibration calibration.json",
                  [&program, flags] { return calibrate(program, *flags); });
  command.add_option("file", flags->file, "ONNX model").required().type_name("FILE");
  add_list(command, "--samples", flags->samples, "[NAME=]PATH",
           "an input's samples: .npy or .npz files, or folders of them (repeatable)")
      .required();
  command.add_option("-o,--out", flags->out, "the file to write").required().type_name("FILE");
  add_choice(command, "--method", flags->method, {"min-max", "percentile", "entropy"}, "how ranges are chosen", "HOW");
  add_number(command, "--percentile", flags->percentile, "share of the values that --method percentile keeps", "P");
  add_size_flags(command, flags->run);
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
