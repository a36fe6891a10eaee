// sparkpilot model quantize: a model in int8, calibrated on samples, or with weights in 8 and 4 bits, as a standard
// ONNX file.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "adapters/load_model.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/with_file.h"
#include "bench/calibration.h"
#include "bench/quantize_model.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/route_frames.h"
#include "cli/terminal.h"
#include "compare/plan_distance.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWorst = 5;  // activations shown

struct QuantizeFlags {
  std::string file, out, method = "percentile";
  std::vector<std::string> calibrate, compare, exclude;
  std::string budget;  // bytes; empty: none
  std::string calibration;
  double percentile = 99.99;
  std::optional<double> max_error, target_error, target_plan_error;
  FramesFlags frames;
  bool int8 = false, fp8 = false, fp4 = false, plain = false;
  RunFlags run;
};

// Without a limit the flag is left out.
void expect_above_zero(const char* flag, const std::optional<double>& limit) {
  if (limit && !(*limit > 0 && std::isfinite(*limit))) fail("{} {}: expected more than 0, and finite", flag, *limit);
}

void tell_of_few(const Program& program, size_t samples, const char* why) {
  if (samples < kFewSamples && !program.quiet) note(fmt::format("few samples ({}): {}", samples, why));
}

Json json_errors(const std::vector<QuantizedError>& errors) {
  Json rows = Json::array();
  for (const QuantizedError& e : errors) {
    rows.push_back({{"name", e.name}, {"relative_l2", e.relative_l2}, {"worst_sample_relative_l2", e.worst}});
  }
  return rows;
}

void print_report(const QuantizeFlags& flags, const QuantizedModel& model, std::optional<int64_t> bytes) {
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

constexpr const char* kFormats[] = {"fp32", "fp8", "fp4"};
// What a layer's weights are in the file.
std::string format_of(const SmallLayer& layer) {
  if (layer.format != WeightFormat::f32) return kFormats[static_cast<size_t>(layer.format)];
  return layer.kept_as == DType::f16 ? "fp16" : layer.kept_as == DType::bf16 ? "bf16" : "fp32";
}

int64_t layers_that_round(const StoredModel& model) {
  return std::ranges::count_if(model.layers, [](const SmallLayer& layer) { return layer.rounds_input; });
}

// Whether errors were measured, on enough samples to tell how they vary.
bool tells_of_others(const StoredModel& model) { return model.error && model.samples >= kFewSamples; }

void print_report(const QuantizeFlags& flags, const StoredModel& model, std::optional<int64_t> bytes) {
  const auto share = [](double v) { return fmt::format("{:.3f} %", 100 * v); };
  Table table({"output", "relative L2", "worst sample"});
  for (const QuantizedError& e : model.outputs) table.add({e.name, share(e.relative_l2), share(e.worst)});
  print(table.str() + "\n");
  const auto cost_text = [&](double error) {
    return flags.target_plan_error ? fmt::format("{:.3f} m", error) : share(error);
  };
  std::vector<SmallLayer> measured;
  std::array<int, 3> counts{};
  for (const SmallLayer& layer : model.layers) {
    ++counts[static_cast<size_t>(layer.format)];
    if (!layer.alone.empty()) measured.push_back(layer);
  }
  const auto cost = [](const SmallLayer& layer) { return layer.alone.rbegin()->second; };
  std::ranges::stable_sort(measured, [&](const SmallLayer& a, const SmallLayer& b) { return cost(a) > cost(b); });
  if (!measured.empty()) {
    Table worst({"what costs most alone", "stored as", "fp8", "fp4"});
    for (size_t i = 0; i < std::min(kWorst, measured.size()); ++i) {
      const auto& alone = measured[i].alone;
      const auto at = [&](WeightFormat f) { return alone.contains(f) ? cost_text(alone.at(f)) : "-"; };
      worst.add({measured[i].name, format_of(measured[i]), at(WeightFormat::fp8), at(WeightFormat::fp4)});
    }
    print(worst.str() + "\n");
  }
  if (model.error) {
    print(fmt::format("at most {} on these samples", cost_text(*model.error)));
    if (tells_of_others(model)) {
      print(fmt::format(", likely at most {} on others of the same kind (they tell as much as {:.0f} independent ones)",
                        cost_text(model.likely_worst.error), model.likely_worst.independent));
    }
    print("\n");
  }
  const std::string rounded =
      flags.calibration.empty() ? "" : fmt::format(" ({} read activations in fp8)", layers_that_round(model));
  print(fmt::format(
      "{}  {}, opset {}; weights {} of {}: {} layers in fp4, {} in fp8{}, {} kept; {} samples, {} compared\n",
      flags.out, bytes ? human_bytes(*bytes) : "-", model.opset, human_bytes(model.bytes),
      human_bytes(model.kept_bytes), counts[2], counts[1], rounded, counts[0], model.samples, model.compared));
}

Json json_of(const QuantizeFlags& flags, const StoredModel& model, std::optional<int64_t> bytes) {
  Json layers = Json::array();
  const char* const unit = flags.target_plan_error ? "plan_error_m" : "relative_l2";
  for (const SmallLayer& layer : model.layers) {
    Json row{{"name", layer.name},
             {"format", format_of(layer)},
             {"activations", layer.rounds_input ? "fp8" : "fp32"},
             {"weight_bytes", layer.bytes},
             {"kept_bytes", layer.kept_bytes}};
    for (const auto& [format, error] : layer.alone) {
      row[fmt::format("alone_in_{}_{}", kFormats[static_cast<size_t>(format)], unit)] = error;
    }
    layers.push_back(std::move(row));
  }
  return {{"file", flags.out},
          {"file_bytes", bytes ? Json(*bytes) : Json()},
          {"opset", model.opset},
          {"weight_bytes", model.bytes},
          {"kept_weight_bytes", model.kept_bytes},
          {"samples", model.samples},
          {"compared", model.compared},
          {fmt::format("worst_sample_{}", unit), model.error ? Json(*model.error) : Json()},
          {fmt::format("likely_worst_{}", unit), tells_of_others(model) ? Json(model.likely_worst.error) : Json()},
          {"independent_samples", tells_of_others(model) ? Json(model.likely_worst.independent) : Json()},
          {"outputs", json_errors(model.outputs)},
          {"layers", std::move(layers)}};
}

// As where norms were folded into 16-bit weights, which 16 bits do not hold any more.
void tell_of_growth(const QuantizeFlags& flags, std::optional<int64_t> bytes) {
  int64_t before = 0;
  for (const std::filesystem::path& file : files_of(parse_model_name(flags.file)))
    before += file_bytes(file.string()).value_or(0);
  if (!bytes || *bytes <= before) return;
  note(
      fmt::format("{} is larger than {}: {}, not {}", flags.out, flags.file, human_bytes(*bytes), human_bytes(before)));
}

// Weights in 8 and 4 bits.
int store(const Program& program, const QuantizeFlags& flags) {
  if (flags.plain || flags.max_error) fail("--plain and --max-error are for --int8; for others --target-error");
  if (flags.method != QuantizeFlags().method || flags.percentile != QuantizeFlags().percentile) {
    fail("--method and --percentile are for --int8: weights keep their whole range");
  }
  StoreModelOptions options;
  options.precision = flags.fp4 ? Precision::fp4 : Precision::fp8;
  options.exclude.insert(flags.exclude.begin(), flags.exclude.end());
  options.dims = dims_of(flags.run);
  options.shapes = shapes_of(flags.run);
  options.target_error = flags.target_error;
  if (!flags.budget.empty()) options.budget = parse_bytes(flags.budget, "--budget");
  if (flags.target_error.has_value() + flags.target_plan_error.has_value() + !flags.budget.empty() > 1) {
    fail("--target-error, --target-plan-error and --budget: give one of them");
  }
  if (flags.target_plan_error) {
    options.target_error = flags.target_plan_error;
    options.error = compare::PlanDistance(flags.file);
    if (flags.calibrate.empty() && flags.frames.routes.empty()) {
      fail("--target-plan-error: a plan on random inputs means nothing; give frames with --route, or --calibrate");
    }
  }
  if (!flags.calibrate.empty() && !flags.frames.routes.empty()) fail("--calibrate and --route: give one of them");
  if (!flags.calibration.empty()) {
    if (flags.fp4) fail("--calibration is for --fp8: ONNX has no node that rounds activations to NVFP4");
    refuse_to_replace(flags.out, flags.calibration);
    options.largest = calibrated(flags.calibration, flags.file);
  }
  options.samples = named_paths(flags.calibrate, "--calibrate");
  options.held_out = named_paths(flags.compare, "--compare");
  options.threads = chosen_threads(program).value_or(0);
  StoredModel model;
  {
    Progress bar(!program.json && !program.quiet, "storing weights");
    if (!flags.frames.routes.empty()) {
      options.given = samples_on_frames(program, flags.file, flags.frames, bar);
      if (!options.given) return kInterrupted;
    }
    with_file(flags.file, [&] {
      model = store_model(flags.file, flags.out, options, [&](std::string_view what, double done) {
        bar.what(std::string(what));
        bar.at(done);
      });
    });
  }
  const auto stored =
      std::ranges::count_if(model.layers, [](const SmallLayer& l) { return l.format != WeightFormat::f32; });
  // With a budget there may have been nothing to do.
  if (stored > 0 || !options.budget) {
    tell_about_precision(program, options.precision, static_cast<int>(stored), model.not_finite);
  }
  if (!flags.calibration.empty() && layers_that_round(model) == 0 && !program.quiet) {
    note(fmt::format("no activations are rounded: {} has none of what layers in fp8 read", flags.calibration));
  }
  if (!options.samples.empty() || options.given) tell_of_few(program, model.samples, "errors on others may be larger");
  else if (!program.quiet) note("errors are those on random inputs: --calibrate gives real ones");
  for (const QuantizedError& e : model.outputs) {
    if (!program.quiet && !std::isfinite(e.relative_l2))
      note(fmt::format("output \"{}\" holds NaN on these samples: its error is infinite", e.name));
  }
  const std::optional<int64_t> bytes = file_bytes(flags.out);
  if (!program.quiet) tell_of_growth(flags, bytes);
  if (program.json) print_json(json_of(flags, model, bytes));
  else print_report(flags, model, bytes);
  return kDone;
}

int quantize(const Program& program, const QuantizeFlags& flags) {
  if (flags.int8 + flags.fp8 + flags.fp4 != 1) fail("say which type to quantize to: one of --int8, --fp8 and --fp4");
  expect_above_zero("--max-error", flags.max_error);
  expect_above_zero("--target-error", flags.target_error);
  expect_above_zero("--target-plan-error", flags.target_plan_error);
  for (const auto& [flag, error] :
       {std::pair("--max-error", flags.max_error), {"--target-error", flags.target_error}}) {
    if (error && *error > 1) fail("{} {}: expected a share of the output, at most 1 (0.02 is 2 %)", flag, *error);
  }
  if (!flags.int8) return store(program, flags);
  if (flags.target_plan_error || !flags.budget.empty()) {
    fail("--target-plan-error and --budget are for --fp8 and --fp4: in int8 every weight takes a byte");
  }
  if (!flags.calibration.empty()) fail("--calibration is for --fp8; int8 takes ranges from samples, --calibrate");
  if (flags.max_error && flags.target_error) fail("--max-error and --target-error: give one of them");
  if (!flags.frames.routes.empty()) fail("--route is for --fp8 and --fp4; int8 takes samples from files, --calibrate");
  if (flags.calibrate.empty()) fail("--calibrate is missing: int8 needs samples of the inputs");
  QuantizeModelOptions options;
  options.calibration.method = calibration_method(flags.method);
  options.calibration.percentile = flags.percentile;
  if (flags.method != "percentile") refuse_given(program, "--percentile", "--method percentile, which is not given");
  options.graph.exclude.insert(flags.exclude.begin(), flags.exclude.end());
  options.dims = dims_of(flags.run);
  options.shapes = shapes_of(flags.run);
  options.max_error = flags.max_error ? flags.max_error : flags.target_error;
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
  tell_of_few(program, model.samples, "activations of others may be larger, and saturate");
  const std::optional<int64_t> bytes = file_bytes(flags.out);
  if (!program.quiet) tell_of_growth(flags, bytes);
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
  const auto flags = std::make_shared<QuantizeFlags>();
  const Command command = add_command(
      program, group, "quantize", "write it in int8, or with weights in fp8 or fp4",
      "  sparkpilot model quantize --int8 model.onnx model_int8.onnx --calibrate samples/\n"
      "  sparkpilot model quantize --int8 model.onnx model_int8.onnx --calibrate img=imgs.npy "
      "--calibrate calib=calib.npy --method entropy --exclude Gemm_99\n"
      "  sparkpilot model quantize --fp8 model.onnx model_fp8.onnx\n"
      "  sparkpilot model quantize --fp8 model.onnx model_fp8.onnx --calibration calibration.json\n"
      "  sparkpilot model quantize --fp4 model.onnx model_fp4.onnx --calibrate samples/ --target-error 0.02\n"
      "  sparkpilot model quantize --fp8 models/driving_policy.onnx policy_fp8.onnx --route a/ --route b/ "
      "--target-plan-error 0.1",
      [&program, flags] { return quantize(program, *flags); });
  command.add_option("file", flags->file, "ONNX model").required().type_name("FILE");
  command.add_option("out", flags->out, "the file to write").required().type_name("OUT");
  command.add_flag("--int8", flags->int8, "activations u8, weights i8 with a scale per channel");
  command.add_flag("--fp8", flags->fp8, "weights in E4M3 with a scale per channel");
  command.add_flag("--fp4", flags->fp4, "weights of products in NVFP4, those of convolutions in E4M3 (experimental)");
  add_list(command, "--calibrate", flags->calibrate, "[NAME=]PATH",
           "an input's samples: .npy or .npz files, or folders of them (repeatable); --fp8 and --fp4 measure errors on "
           "them, or on random ones");
  add_list(command, "--compare", flags->compare, "[NAME=]PATH",
           "other samples to measure the error on; without it, those of --calibrate");
  add_choice(command, "--method", flags->method, {"percentile", "min-max", "entropy"}, "how ranges are chosen", "HOW");
  add_number(command, "--percentile", flags->percentile, "share of the values that --method percentile keeps", "P");
  command.add_flag("--plain", flags->plain, "neither equalise channels nor correct biases: faster, less exact");
  add_list(command, "--exclude", flags->exclude, "NODE|OP", "nodes that stay in floats (repeatable)");
  add_number(command, "--max-error", flags->max_error,
             "of --int8: largest relative L2 error of an output, such as 0.05: the worst nodes stay in floats", "E");
  add_number(
      command, "--target-error", flags->target_error,
      "of --fp8 and --fp4: largest relative L2 error of an output on any sample; the fewest bytes of weights that "
      "keep it. Of --int8 as --max-error",
      "E");
  add_number(command, "--target-plan-error", flags->target_plan_error,
             "the same for the plan's largest error at 1, 2, 4 or 6 s on any sample, in metres", "M");
  command
      .add_option("--budget", flags->budget,
                  "of --fp8 and --fp4: bytes of weights, such as 40M; the least error that keeps them")
      .type_name("SIZE");
  command
      .add_option("--calibration", flags->calibration,
                  "of --fp8: what `model calibrate` wrote; activations are rounded to E4M3 in the file, too")
      .type_name("FILE");
  add_frames_flags(program, command, flags->frames);
  add_size_flags(command, flags->run);
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
