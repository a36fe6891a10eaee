// sparkpilot model quantize: an 8-bit model, calibrated on samples, as a standard ONNX file.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/with_file.h"
#include "bench/quantize_model.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWorst = 5;  // activations shown

struct Flags {
  std::string file, out, method = "percentile";
  std::vector<std::string> calibrate, compare, exclude;
  double percentile = 99.99, max_error = 0;  // 0: none
  bool int8 = false, plain = false;
  RunFlags run;
};

Json json_errors(const std::vector<QuantizedError>& errors) {
  Json rows = Json::array();
  for (const QuantizedError& e : errors) {
    rows.push_back({{"name", e.name}, {"relative_l2", e.relative_l2}, {"worst_sample_relative_l2", e.worst}});
  }
  return rows;
}

void print_report(const Flags& flags, const QuantizedModel& model, std::optional<int64_t> bytes) {
  const auto share = [](double v) { return fmt::format("{:.3f} %", 100 * v); };
  Table table({"output", "relative L2", "worst sample"});
  for (const QuantizedError& e : model.outputs) table.add({e.name, share(e.relative_l2), share(e.worst)});
  print(table.str() + "\n");
  Table worst({"worst activation", "relative L2", "worst sample"});
  for (size_t i = 0; i < std::min(kWorst, model.tensors.size()); ++i) {
    worst.add({model.tensors[i].name, share(model.tensors[i].relative_l2), share(model.tensors[i].worst)});
  }
  print(worst.str() + "\n");
  if (!model.kept.empty()) {
    Table kept({"kept in floats", "cost alone"});
    for (const QuantizedError& e : model.kept) kept.add({e.name, share(e.relative_l2)});
    print(kept.str() + "\n");
  }
  print(fmt::format("{}  {}, opset {}; {} of {} convolutions and products in int8; {} samples, {} compared\n",
                    flags.out, bytes ? human_bytes(*bytes) : "-", model.opset, model.quantized, model.nodes,
                    model.samples, model.compared));
}

int quantize(const Program& program, const Flags& flags) {
  if (!flags.int8) fail("--int8 is missing: say which type to quantize to");
  QuantizeModelOptions options;
  options.calibration.method = flags.method == "entropy"      ? CalibrationMethod::entropy
                               : flags.method == "percentile" ? CalibrationMethod::percentile
                                                              : CalibrationMethod::min_max;
  options.calibration.percentile = flags.percentile;
  options.graph.exclude.insert(flags.exclude.begin(), flags.exclude.end());
  options.dims = dims_of(flags.run);
  options.shapes = shapes_of(flags.run);
  if (flags.max_error < 0) fail("--max-error {}: expected more than 0", flags.max_error);
  if (flags.max_error > 0) options.max_error = flags.max_error;
  options.samples = named_paths(flags.calibrate, "--calibrate");
  options.held_out = named_paths(flags.compare, "--compare");
  options.equalise = options.correct_biases = !flags.plain;
  options.threads = chosen_threads(program).value_or(0);
  QuantizedModel model;
  {
    Progress bar(!program.json && !program.quiet, "calibrating");
    with_file(flags.file, [&] {
      model = quantize_model(flags.file, flags.out, options, [&](std::string_view what, double done) {
        bar.what(std::string(what));
        bar.at(done);
      });
    });
  }
  const std::optional<int64_t> bytes = file_bytes(flags.out);
  if (!program.json) {
    print_report(flags, model, bytes);
    return kDone;
  }
  print_json({{"file", flags.out},
              {"file_bytes", bytes ? Json(*bytes) : Json()},
              {"opset", model.opset},
              {"method", flags.method},
              {"samples", model.samples},
              {"compared", model.compared},
              {"products", model.nodes},
              {"products_int8", model.quantized},
              {"kept_in_floats", json_errors(model.kept)},
              {"outputs", json_errors(model.outputs)},
              {"activations", json_errors(model.tensors)}});
  return kDone;
}

}  // namespace

void add_model_quantize(Program& program, Command group) {
  const auto flags = std::make_shared<Flags>();
  const Command command =
      add_command(program, group, "quantize", "write it in int8, calibrated on samples",
                  "  sparkpilot model quantize --int8 model.onnx model_int8.onnx --calibrate samples/\n"
                  "  sparkpilot model quantize --int8 model.onnx model_int8.onnx --calibrate img=imgs.npy "
                  "--calibrate calib=calib.npy --method entropy --exclude Gemm_99",
                  [&program, flags] { return quantize(program, *flags); });
  command.add_option("file", flags->file, "ONNX model").required().type_name("FILE");
  command.add_option("out", flags->out, "the file to write").required().type_name("OUT");
  command.add_flag("--int8", flags->int8, "activations u8, weights i8 with a scale per channel");
  add_list(command, "--calibrate", flags->calibrate, "[NAME=]PATH",
           "an input's samples: .npy or .npz files, or folders of them (repeatable)")
      .required();
  add_list(command, "--compare", flags->compare, "[NAME=]PATH",
           "other samples to measure the error on; without it, those of --calibrate");
  add_choice(command, "--method", flags->method, {"percentile", "min-max", "entropy"}, "how ranges are chosen", "HOW");
  add_number(command, "--percentile", flags->percentile, "share of the values that --method percentile keeps", "P");
  command.add_flag("--plain", flags->plain, "neither equalise channels nor correct biases: faster, less exact");
  add_list(command, "--exclude", flags->exclude, "NODE|OP", "nodes that stay in floats (repeatable)");
  add_number(command, "--max-error", flags->max_error,
             "largest relative L2 error of an output, such as 0.05: the worst nodes stay in floats", "E");
  add_size_flags(command, flags->run);
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
