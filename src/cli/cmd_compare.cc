// sparkpilot compare: models, precisions or thread counts on the same inputs.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "bench/samples.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/compare_drives.h"
#include "cli/terminal.h"
#include "cli/variants.h"
#include "compare/bisect.h"
#include "compare/models.h"
#include "compare/report.h"
#include "ir/dimensions.h"
#include "onnx/import.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using compare::Variant;
using Json = nlohmann::ordered_json;

struct Flags {
  std::vector<std::string> files, inputs;
  std::string precisions, threads;
  RunFlags run;
  int64_t rounds = 12, samples = 0;  // samples: 0: 1, or 8 for --bisect
  double max_relative_l2 = 0, max_abs = 0, max_plan_error = 0;
  bool no_time = false, no_layers = false, bisect = false;
};

// 0: found by trial.
int threads_of(const std::string& text) {
  if (text == "auto") return 0;
  const int64_t number = parse_number(text, "--threads");
  expect_at_least("--threads", number, 0);
  if (const std::string wrong = threads_refusal(text); !wrong.empty()) fail("--threads {}: {}", text, wrong);
  return number > 0 ? static_cast<int>(number) : available_processors();
}

// Every file in every precision with every number of threads, named by what differs.
std::vector<Variant> variants_of(const Program& program, const Flags& flags) {
  std::vector<std::string> precisions{program.settings["precision"].value}, threads{program.settings["threads"].value};
  if (precisions[0] == "auto") precisions[0] = "fp32";
  if (!flags.precisions.empty()) precisions = split_list(flags.precisions, "--precision");
  if (!flags.threads.empty()) threads = split_list(flags.threads, "--threads");
  const std::vector<std::string> names = file_names(flags.files);
  std::vector<Variant> variants;
  for (size_t f = 0; f < flags.files.size(); ++f) {
    const std::string& file = flags.files[f];
    for (const std::string& precision : precisions) {
      for (const std::string& count : threads) {
        Variant variant{.name = {}, .file = file, .session = session_options(program, flags.run)};
        variant.session.passes.precision = precision_of(program, precision);
        variant.session.threads = threads_of(count);
        std::vector<std::string> words;
        if (flags.files.size() > 1) words.push_back(names[f]);
        if (precisions.size() > 1) words.push_back(precision);
        if (threads.size() > 1) words.push_back(count == "1" ? "1 thread" : count + " threads");
        for (const std::string& word : words) variant.name += (variant.name.empty() ? "" : " ") + word;
        variants.push_back(std::move(variant));
      }
    }
  }
  if (variants.size() < 2) {
    fail("nothing to compare {} with: give a second model, or several precisions such as --precision fp32,fp16",
         flags.files[0]);
  }
  return variants;
}

std::string error(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

Table speed_table(const compare::ModelsComparison& comparison) {
  Table table({"model", "threads", "mean ms", "p50", "p99", "runs/s", "time", "90 %", "load ms", "memory"});
  for (const compare::VariantResult& v : comparison.variants) {
    const bool first = &v == comparison.variants.data();
    table.add({v.variant.name, std::to_string(v.threads), human_ms(v.ms.mean), human_ms(v.ms.p50), human_ms(v.ms.p99),
               fmt::format("{:.1f}", v.ms.mean > 0 ? 1e3 / v.ms.mean : 0),
               first ? "1" : fmt::format("{:.3f}", v.ratio.median),
               first ? "-" : fmt::format("{:.3f} to {:.3f}", v.ratio.low, v.ratio.high),
               fmt::format("{:.0f}", v.load_ms), v.peak_memory_bytes ? human_bytes(*v.peak_memory_bytes) : "-"});
  }
  return table;
}

Table output_table(const compare::ModelsComparison& comparison) {
  Table table({"model", "output", "elements", "largest", "relative L2", "worst sample", "cosine", "not finite"});
  for (size_t i = 1; i < comparison.variants.size(); ++i) {
    const compare::VariantResult& v = comparison.variants[i];
    for (const compare::OutputDifference& o : v.outputs) {
      table.add({v.variant.name, o.name == o.of ? o.name : fmt::format("{} ({})", o.name, o.of),
                 std::to_string(o.difference.elements), error(o.difference.max_abs), error(o.difference.relative_l2),
                 error(o.difference.worst_sample), fmt::format("{:.7f}", o.difference.cosine),
                 std::to_string(o.difference.not_finite)});
    }
  }
  return table;
}

void print_report(const compare::ModelsComparison& comparison) {
  if (comparison.variants[0].ms.count > 0) print(speed_table(comparison).str() + "\n");
  print(output_table(comparison).str());
  for (const compare::VariantResult& v : comparison.variants) {
    for (const std::string& text : v.not_compared) print(fmt::format("{}: not compared: {}\n", v.variant.name, text));
  }
  Table layers({"model", "value where it grows", "node", "largest", "relative L2"});
  bool any = false;
  for (const compare::VariantResult& v : comparison.variants) {
    for (const compare::LayerDifference& layer : compare::growing(v.layers)) {
      any = true;
      layers.add({v.variant.name, layer.value, layer.node, error(layer.difference.max_abs),
                  error(layer.difference.relative_l2)});
    }
  }
  if (any) print("\n" + layers.str());
  print(fmt::format("\nagainst {}, {}\n", comparison.variants[0].variant.name,
                    count_of(static_cast<int64_t>(comparison.samples), "sample")));
}

std::string to_text(const compare::Bisection& bisection, const std::string& ours, const std::string& theirs) {
  const std::string searched =
      fmt::format("{} of both, {} searched, sample {}", count_of(bisection.runs, "run"),
                  count_of(static_cast<int64_t>(bisection.values), "value"), bisection.sample + 1);
  if (!bisection.fault) {
    return fmt::format("{} and {}: no output differs by more than {:.3g} ({})\n", theirs, ours,
                       bisection.max_relative_l2, searched);
  }
  const compare::Fault& fault = *bisection.fault;
  std::string out = fmt::format("first difference between {} and {}: {}\n", theirs, ours, fault.nodes.front());
  out += fmt::format("  value        {}\n", fault.value);
  if (fault.difference.not_finite > 0) {
    out += fmt::format("  difference   NaN or infinity in {}\n", count_of(fault.difference.not_finite, "element"));
  } else {
    out += fmt::format("  difference   relative L2 {:.3g}, largest {:.3g} (allowed {:.3g})\n",
                       fault.difference.relative_l2, fault.difference.max_abs, bisection.max_relative_l2);
  }
  if (fault.nodes.size() > 1) {
    std::string others;
    for (size_t i = 1; i < fault.nodes.size(); ++i) others += (i > 1 ? ", " : "") + fault.nodes[i];
    out += fmt::format("  or in        {}\n               (computed together with it)\n", others);
  }
  if (fault.before) out += fmt::format("  the same in  {}\n", *fault.before);
  return out + fmt::format("  {}\n", searched);
}

// The first model's graph, with the sizes and outputs that the flags ask for.
Graph file_graph(const Flags& flags, const Variant& variant) {
  Graph graph = load_onnx(variant.file);
  fix_dimensions(graph, variant.session.dims, variant.session.shapes);
  if (!flags.run.outputs.empty()) select_outputs(graph, flags.run.outputs);
  return graph;
}

int bisect(const Program& program, const Flags& flags, const std::vector<Variant>& variants) {
  if (variants.size() != 2) fail("--bisect compares two, these are {}", variants.size());
  if (flags.max_abs > 0) fail("--bisect searches by --max-relative-l2: --max-abs has no effect with it");
  compare::Bisection found;
  {
    Progress bar(!program.json && !program.quiet, "searching");
    Samples samples;
    std::vector<std::string> notes;
    {
      Session first = compare::open_variant(variants[0], nullptr, &notes);
      samples = load_samples(first, named_paths(flags.inputs, "--input"), flags.run.seed,
                             static_cast<size_t>(flags.samples > 0 ? flags.samples : 8));
    }
    if (!program.quiet) std::for_each(notes.begin(), notes.end(), note);
    compare::BisectOptions options;
    if (flags.max_relative_l2 > 0) options.max_relative_l2 = flags.max_relative_l2;
    options.samples = samples.count;
    options.progress = [&](int run, int runs) { bar.at(static_cast<double>(run) / runs); };
    const compare::Side expected = compare::side_of(variants[0], samples), got = compare::side_of(variants[1], samples);
    found = compare::bisect(file_graph(flags, variants[0]), got, expected, options);
  }
  if (program.json) print_json(compare::to_json(found));
  else print(to_text(found, variants[1].name, variants[0].name));
  return found.fault ? kCheckFailed : kDone;
}

// What is beyond the limits, one line each.
std::vector<std::string> beyond(const Flags& flags, const compare::ModelsComparison& comparison) {
  std::vector<std::string> lines;
  for (const compare::VariantResult& v : comparison.variants) {
    for (const compare::OutputDifference& output : v.outputs) {
      const auto check = [&](const char* what, double value, double limit) {
        if (limit > 0 && !(value <= limit)) {
          lines.push_back(
              fmt::format("{}, {}: {} {:.3g}, allowed {:.3g}", v.variant.name, output.name, what, value, limit));
        }
      };
      check("relative L2", output.difference.relative_l2, flags.max_relative_l2);
      check("largest difference", output.difference.max_abs, flags.max_abs);
    }
    if (flags.max_relative_l2 == 0 && flags.max_abs == 0) continue;
    for (const std::string& missing : v.not_compared) lines.push_back(fmt::format("{}, {}", v.variant.name, missing));
  }
  return lines;
}

int compare_all(const Program& program, const Flags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  expect_at_least("--rounds", flags.rounds, 1);
  expect_at_least("--samples", flags.samples, 0);
  if (!(flags.max_relative_l2 >= 0)) fail("--max-relative-l2: expected 0 or more, got {}", flags.max_relative_l2);
  if (!(flags.max_abs >= 0)) fail("--max-abs: expected 0 or more, got {}", flags.max_abs);
  if (!(flags.max_plan_error >= 0)) fail("--max-plan-error: expected 0 or more, got {}", flags.max_plan_error);
  for (const std::string& file : flags.files) {
    if (!fs::exists(file)) fail("{}: no such file or folder", file);
  }
  const auto drives = std::count_if(flags.files.begin(), flags.files.end(), is_drive);
  if (drives > 0 && drives < std::ssize(flags.files))
    fail("{}: some of these are drives, others are models", flags.files[0]);
  if (drives > 0) {
    const std::pair<bool, const char*> for_models[] = {{flags.max_relative_l2 > 0, "--max-relative-l2"},
                                                       {flags.max_abs > 0, "--max-abs"},
                                                       {flags.bisect, "--bisect"},
                                                       {!flags.precisions.empty(), "--precision"},
                                                       {!flags.threads.empty(), "--threads"},
                                                       {!flags.inputs.empty(), "--input"}};
    for (const auto& [given, flag] : for_models) {
      if (given) fail("{} is for models, these are drives", flag);
    }
    return compare_drives(program, flags.files, flags.max_plan_error);
  }
  if (flags.max_plan_error > 0) fail("--max-plan-error is for drives, these are models");
  const std::vector<Variant> variants = variants_of(program, flags);
  if (flags.bisect) return bisect(program, flags, variants);
  compare::ModelsOptions options;
  options.inputs = named_paths(flags.inputs, "--input");
  options.seed = flags.run.seed;
  options.random = static_cast<size_t>(std::max<int64_t>(flags.samples, 1));
  options.time = !flags.no_time && !program.emulate;
  options.layers = !flags.no_layers;
  options.turns.rounds = flags.rounds;
  compare::ModelsComparison comparison;
  {
    Progress bar(!program.json && !program.quiet, "loading");
    options.progress = [&](std::string_view what, double done) {
      bar.what(std::string(what));
      bar.at(done);
    };
    comparison = compare::compare_models(variants, options);
  }
  const std::vector<std::string> wrong = beyond(flags, comparison);
  if (program.json) {
    Json document = compare::to_json(comparison);
    document["beyond_limits"] = wrong;
    print_json(document);
  } else {
    if (!program.quiet) {
      for (const std::string& text : comparison.notes) note(text);
      if (program.emulate) note("--emulate: for accuracy only, nothing was timed");
    }
    print_report(comparison);
  }
  for (const std::string& line : wrong) note(line);
  return wrong.empty() ? kDone : kCheckFailed;
}

}  // namespace

void add_compare(Program& program, Command app) {
  const auto flags = std::make_shared<Flags>();
  const Command command =
      add_command(program, app, "compare", "models, precisions or finished drives: results and speed",
                  "  sparkpilot compare model.onnx --precision fp32,bf16,fp16\n"
                  "  sparkpilot compare old.onnx new.onnx --input samples/ --max-relative-l2 1e-3\n"
                  "  sparkpilot compare model.onnx --threads 1,2\n"
                  "  sparkpilot compare old.onnx new.onnx --bisect\n"
                  "  sparkpilot compare out/old out/new --max-plan-error 0.1",
                  [&program, flags] { return compare_all(program, *flags); });
  add_list(command, "files", flags->files, "FILE",
           "ONNX models, or folders of `drive` or logs; the first is what the others are compared with")
      .required();
  command.add_option("--precision", flags->precisions, "each model in these: model, fp32, fp16, bf16")
      .type_name("LIST");
  command.add_option("--threads", flags->threads, "each model with these numbers of threads").type_name("LIST");
  add_list(command, "--input", flags->inputs, "[NAME=]PATH",
           "an input's samples: .npy or .npz files, or folders of them (repeatable); the others are random");
  add_number(command, "--samples", flags->samples, "random samples if no input has any; 0: 1, or 8 for --bisect");
  add_number(command, "--max-relative-l2", flags->max_relative_l2,
             "exit with 4 if an output's relative L2 error is above this; --bisect: of any value, 1e-4 if not given",
             "E");
  add_number(command, "--max-abs", flags->max_abs, "exit with 4 if an output's largest difference is above this", "E");
  add_number(command, "--max-plan-error", flags->max_plan_error,
             "of drives: exit with 4 if the 99th percentile of the plans' distance is above this, at any horizon", "M");
  command.add_flag("--bisect", flags->bisect, "find the first node whose result differs, of two; exit with 4 if any");
  command.add_flag("--emulate", program.emulate,
                   "compute precisions that this processor lacks, for accuracy only: nothing is timed");
  add_number(command, "--rounds", flags->rounds, "rounds of timing, in turns");
  command.add_flag("--no-time", flags->no_time, "compare results only");
  command.add_flag("--no-layers", flags->no_layers, "compare outputs only, not the values inside");
  add_graph_flags(command, flags->run);
  add_setting(program, command, "device", "auto or cpu");
  add_setting(program, command, "tune");
  add_passes_flag(command, flags->run);
  add_setting(program, command, "verbose");
  add_number(command, "--seed", flags->run.seed, "seed of the random inputs");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
