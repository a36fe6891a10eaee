// sparkpilot compare: models, precisions or thread counts on the same inputs.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/with_file.h"
#include "bench/samples.h"
#include "cli/command.h"
#include "cli/compare_drives.h"
#include "cli/compare_flags.h"
#include "cli/compare_report.h"
#include "cli/compare_route.h"
#include "cli/driving_models.h"
#include "cli/interrupt.h"
#include "cli/peer_flags.h"
#include "cli/route_frames.h"
#include "cli/terminal.h"
#include "cli/variants.h"
#include "compare/bisect.h"
#include "compare/models.h"
#include "compare/peer_run.h"
#include "compare/report.h"
#include "ir/dimensions.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using compare::Variant;
using Json = nlohmann::ordered_json;

struct CompareFlags {
  std::vector<std::string> files, inputs, calibrate, calibrations, adapters;
  CompareRouteFlags route;
  int64_t frames = 8;  // of the route, for model files
  FieldFlags fields;
  std::string precisions, threads, devices;
  RunFlags run;
  PeerFlags peers;
  int64_t rounds = 12, samples = 0;  // samples: 0: 1, or 8 for --bisect
  std::optional<double> max_relative_l2, max_abs, max_plan_error;
  bool no_time = false, no_layers = false, bisect = false;
};

// What the variants are combined of.
struct Lists {
  std::vector<std::string> devices, files, precisions, threads;
  std::vector<PeerName> peers;
};

// With --adapter a model is compared with itself after the merge.
std::vector<std::string> files_of(const CompareFlags& flags) {
  if (flags.adapters.empty()) return flags.files;
  if (flags.files.size() != 1) {
    fail("--adapter takes one model, these are {}; MODEL@ADAPTER names one with an adapter", flags.files.size());
  }
  return {flags.files[0], adapted(flags.files[0], flags.adapters)};
}

Lists lists_of(const Program& program, const CompareFlags& flags) {
  const std::vector<std::string> devices = devices_of(program, flags.devices);
  return {.devices = devices,
          .files = files_of(flags),
          .precisions = precisions_of(program, flags.precisions, devices),
          .threads = thread_counts_of(program, flags.threads),
          .peers = peers_of(program, flags.peers)};
}

// Every file on every device in every precision with every number of threads, by us or a peer, named by what differs.
std::vector<Variant> variants_of(const Program& program, const CompareFlags& flags, const Lists& lists,
                                 const std::optional<PeerName>& peer) {
  const std::vector<std::string> names = file_names(lists.files);
  std::vector<Variant> variants;
  for (size_t f = 0; f < lists.files.size(); ++f) {
    const std::string& file = lists.files[f];
    for (const std::string& precision : lists.precisions) {
      for (const std::string& count : lists.threads) {
        for (const std::string& device : lists.devices) {
          if (peer && device != lists.devices[0]) continue;  // a peer has its own
          Variant variant{.name = {}, .file = file, .session = session_options(program, flags.run), .peer = peer};
          const VariantPrecision chosen = variant_precision(program, precision, device);
          if (peer && chosen.int8) continue;  // peers run the file as it is
          set_device(program, variant.session, device);
          variant.session.passes.precision = chosen.precision;
          variant.int8 = chosen.int8;
          take_calibration(flags.run, file, variant.session);
          variant.session.threads = threads_of(count);
          variant.name = variant_name({{!lists.peers.empty(), peer ? peer->str() : "sparkpilot"},
                                       {lists.files.size() > 1, names[f]},
                                       {lists.precisions.size() > 1, precision},
                                       {lists.threads.size() > 1, threads_name(count)},
                                       {lists.devices.size() > 1 && !peer, device}});
          variants.push_back(std::move(variant));
        }
      }
    }
  }
  return variants;
}

std::vector<Variant> all_variants(const Program& program, const CompareFlags& flags) {
  const Lists lists = lists_of(program, flags);
  if (!lists.peers.empty() && !flags.run.outputs.empty()) {
    fail("--output: peers compute all outputs of a file; leave out --output or --peer");
  }
  std::vector<Variant> variants = variants_of(program, flags, lists, {});
  std::vector<Precision> precisions;
  for (const Variant& variant : variants) precisions.push_back(variant.session.passes.precision);
  expect_calibration_used(flags.run, !flags.run.calibration.empty(), precisions);
  // Of two files ours is the first, and the peer's the second.
  if (flags.bisect && variants.size() == 2 && lists.files.size() == 2 && lists.peers.size() == 1) {
    const std::vector<Variant> theirs = variants_of(program, flags, lists, lists.peers[0]);
    if (theirs.size() != 2) fail("--precision int8 is ours alone: leave it out, or --peer");
    return {variants[0], theirs[1]};
  }
  for (const PeerName& peer : lists.peers) {
    for (Variant& variant : variants_of(program, flags, lists, peer)) variants.push_back(std::move(variant));
  }
  if (variants.size() < 2) {
    fail(
        "nothing to compare {} with: give a second model, several precisions such as --precision fp32,fp16, or another "
        "engine such as --peer onnxruntime",
        flags.files[0]);
  }
  return variants;
}

// A size of --dim is for those of several models that leave a dimension of that name open.
void keep_own_dimensions(std::vector<Variant>& variants) {
  std::map<fs::path, std::set<std::string>> open;
  for (const Variant& variant : variants) open[variant.file];
  if (open.size() < 2 || variants[0].session.dims.empty()) return;
  std::set<std::string> anywhere;
  for (auto& [file, own] : open) {
    with_file(file, [&] { own = open_dimensions(load_model(file)); });
    anywhere.insert(own.begin(), own.end());
  }
  for (Variant& variant : variants) {
    std::erase_if(variant.session.dims, [&](const auto& dim) {
      return anywhere.contains(dim.first) && !open[variant.file].contains(dim.first);
    });
  }
}

// The first model's graph, with the sizes and outputs that the flags ask for.
Graph file_graph(const CompareFlags& flags, const Variant& variant) {
  Graph graph = load_model(variant.file);
  fix_dimensions(graph, variant.session.dims, variant.session.shapes);
  if (!flags.run.outputs.empty()) select_outputs(graph, flags.run.outputs);
  return graph;
}

// With --route: what the first model reads on frames of it. None without; empty after Ctrl-C.
std::optional<Samples> samples_on_route(const Program& program, const CompareFlags& flags) {
  if (flags.route.route.empty()) return Samples();
  Progress bar(!program.json && !program.quiet, "driving");
  return samples_on_frames(program, parse_model_name(flags.files[0]).file,
                           {.routes = {flags.route.route}, .frames = flags.frames}, bar);
}

int bisect(const Program& program, const CompareFlags& flags, std::vector<Variant> variants) {
  if (variants.size() != 2) fail("--bisect compares two, these are {}", variants.size());
  const bool peer = variants[1].peer.has_value();  // then that is what we are compared with
  const std::optional<Samples> on_route = samples_on_route(program, flags);
  if (!on_route) return kInterrupted;
  compare::Bisection found;
  {
    Progress bar(!program.json && !program.quiet, "searching");
    Samples samples, calibration;
    std::vector<std::string> notes;
    {
      Session first = compare::open_variant(variants[0], nullptr, &notes);
      for (Variant& variant : variants) {
        Precision& precision = variant.session.passes.precision;
        if (variant.peer) precision = precision_on(first.device(), precision);
      }
      const auto load = [&](const std::vector<std::string>& paths, const char* flag) {
        return load_samples(first, named_paths(paths, flag), flags.run.seed,
                            static_cast<size_t>(flags.samples > 0 ? flags.samples : 8));
      };
      samples = on_route->count > 0 ? *on_route : load(flags.inputs, "--input");
      calibration = flags.calibrate.empty() ? samples : load(flags.calibrate, "--calibrate");
    }
    for (Variant& variant : variants) {
      if (variant.int8)
        compare::quantize_variant(variant, calibration, [&](std::string_view, double done) { bar.at(done); });
    }
    if (!program.quiet) std::for_each(notes.begin(), notes.end(), note);
    compare::BisectOptions options;
    if (flags.max_relative_l2) options.max_relative_l2 = flags.max_relative_l2;
    else if (peer) options.max_relative_l2 = 1e-4;  // another engine always rounds differently
    if (peer) options.rounding = 1e-6;
    options.samples = samples.count;
    options.progress = [&](int run, int runs) { bar.at(static_cast<double>(run) / runs); };
    const auto side_of = [&](const Variant& variant) {
      if (!variant.peer) return compare::side_of(variant, samples);
      return compare::peer_side_of(variant, samples, available_processors(),
                                   peer_options(program, flags.peers, devices_of(program, flags.devices)[0]));
    };
    const Variant &ours = variants[peer ? 0 : 1], &theirs = variants[peer ? 1 : 0];
    const compare::Side expected = side_of(theirs), got = side_of(ours);
    found = compare::bisect(file_graph(flags, variants[0]), got, expected, options);
  }
  if (program.json) print_json(compare::to_json(found));
  else print(to_text(found, variants[peer ? 0 : 1].name, variants[peer ? 1 : 0].name));
  return found.fault ? kCheckFailed : kDone;
}

// What is beyond the limits, one line each.
std::vector<std::string> beyond(const CompareFlags& flags, const compare::ModelsComparison& comparison) {
  std::vector<std::string> lines;
  for (const compare::VariantResult& v : comparison.variants) {
    for (const compare::OutputDifference& output : v.outputs) {
      const auto check = [&](const char* what, double value, std::optional<double> limit) {
        if (limit && !(value <= *limit)) {
          lines.push_back(
              fmt::format("{}, {}: {} {:.3g}, allowed {:.3g}", v.variant.name, output.name, what, value, *limit));
        }
      };
      check("relative L2", output.difference.relative_l2, flags.max_relative_l2);
      check("largest difference", output.difference.max_abs, flags.max_abs);
    }
    if (!flags.max_relative_l2 && !flags.max_abs) continue;
    if (!v.not_run.empty()) lines.push_back(fmt::format("{}, not run: {}", v.variant.name, v.not_run));
    for (const std::string& missing : v.not_compared) lines.push_back(fmt::format("{}, {}", v.variant.name, missing));
  }
  return lines;
}

// NaN on both sides is no difference, and no agreement either.
void tell_of_what_is_not_finite(const compare::ModelsComparison& comparison) {
  std::set<std::string> told;
  for (const compare::VariantResult& v : comparison.variants) {
    for (const compare::OutputDifference& output : v.outputs) {
      const Difference& d = output.difference;
      if (d.both_alike == 0 || !told.insert(output.name).second) continue;
      note(fmt::format("output \"{}\": {} of {} numbers are NaN or infinite on both sides, which is no difference",
                       output.name, d.both_alike, d.elements));
    }
  }
}

int route(const Program& program, const CompareFlags& flags, const DriveLimits& limits) {
  CompareRouteFlags of_route = flags.route;
  of_route.precisions = flags.precisions;
  of_route.threads = flags.threads;
  of_route.devices = flags.devices;
  of_route.run = flags.run;
  of_route.calibrations = flags.calibrations;
  return compare_route(program, of_route, limits);
}

int compare_files(const Program& program, const CompareFlags& flags) {
  std::vector<Variant> variants = all_variants(program, flags);
  keep_own_dimensions(variants);
  const bool any_int8 = std::any_of(variants.begin(), variants.end(), [](const Variant& v) { return v.int8; });
  if (!flags.calibrate.empty() && !any_int8) fail("--calibrate is for --precision int8, which is not given");
  if (flags.bisect) return bisect(program, flags, variants);
  std::optional<Samples> on_route = samples_on_route(program, flags);
  if (!on_route) return kInterrupted;
  compare::ModelsOptions options;
  options.given = std::move(*on_route);
  options.inputs = named_paths(flags.inputs, "--input");
  options.calibration = named_paths(flags.calibrate, "--calibrate");
  options.seed = flags.run.seed;
  options.random = static_cast<size_t>(std::max<int64_t>(flags.samples, 1));
  options.time = !flags.no_time && !program.emulate;
  options.layers = !flags.no_layers;
  options.turns.rounds = flags.rounds;
  options.peers = peer_options(program, flags.peers, devices_of(program, flags.devices)[0]);
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
      tell_of_what_is_not_finite(comparison);
    }
    print_report(comparison);
  }
  if (!flags.route.out.empty()) {
    make_folders(flags.route.out);
    const fs::path page = fs::path(flags.route.out) / kComparisonPage;
    AtomicFile file(page);
    file.write(report_page(comparison, wrong));
    file.commit();
    if (!program.json) print(fmt::format("page: {}\n", page.string()));
  }
  for (const std::string& line : wrong) note(line);
  return wrong.empty() ? kDone : kCheckFailed;
}

CompareMode mode_of(const CompareFlags& flags) {
  const std::vector<std::string>& files = flags.files;
  if (!flags.route.route.empty() && (files.empty() || !flags.route.models.empty())) {
    if (!files.empty()) fail("{}: with --route and --models DIR no other models are driven", files[0]);
    return CompareMode::route;
  }
  if (files.empty()) fail("expected models or drives, or --route ROUTE with --models DIR");
  for (const std::string& file : files) {
    for (const fs::path& part : sparkpilot::files_of(parse_model_name(file))) {
      if (!fs::exists(part)) fail("{}: no such file or folder", part.string());
    }
  }
  const auto drives = std::count_if(files.begin(), files.end(), is_drive);
  if (drives == std::ssize(files)) return CompareMode::drives;
  if (drives > 0) fail("{}: some of these are drives, others are models", files[0]);
  return flags.bisect ? CompareMode::bisect : CompareMode::models;
}

int compare_all(const Program& program, const CompareFlags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  expect_at_least("--rounds", flags.rounds, 1);
  expect_at_least("--samples", flags.samples, 0);
  for (const auto& [flag, limit] : {std::pair("--max-relative-l2", flags.max_relative_l2),
                                    {"--max-abs", flags.max_abs},
                                    {"--max-plan-error", flags.max_plan_error}}) {
    if (limit && !(*limit >= 0)) fail("{}: expected 0 or more, got {}", flag, *limit);
  }
  const CompareMode mode = mode_of(flags);
  refuse_idle_flags(mode, given_flags(*program.at));
  if (mode == CompareMode::models || mode == CompareMode::bisect) {
    CompareFlags of_files = flags;
    if (flags.calibrations.size() > 1)
      fail("--calibration: of model files one is expected, got {}", flags.calibrations.size());
    if (!flags.calibrations.empty()) of_files.run.calibration = flags.calibrations[0];
    return compare_files(program, of_files);
  }
  const DriveLimits limits{.max_plan_error = flags.max_plan_error, .fields = tolerances_of(flags.fields)};
  if (mode == CompareMode::route) return route(program, flags, limits);
  return compare_drives(program, flags.files, limits, {.folder = flags.route.out, .video = flags.route.video});
}

}  // namespace

void add_compare(Program& program, Command app) {
  const auto flags = std::make_shared<CompareFlags>();
  const Command command =
      add_command(program, app, "compare", "models, precisions or finished drives: results and speed",
                  "  sparkpilot compare model.onnx --precision fp32,bf16,fp16\n"
                  "  sparkpilot compare old.onnx new.onnx --input samples/ --max-relative-l2 1e-3\n"
                  "  sparkpilot compare model.onnx --adapter out/adapter\n"
                  "  sparkpilot compare model.onnx@out/first model.onnx@out/second\n"
                  "  sparkpilot compare model.onnx --threads 1,2\n"
                  "  sparkpilot compare model.onnx --device cpu,cuda\n"
                  "  sparkpilot compare old.onnx new.onnx --bisect\n"
                  "  sparkpilot compare --route route/ --models models --precision fp32,bf16,int8\n"
                  "  sparkpilot compare --route route/ --models old --models new --out out/compared\n"
                  "  sparkpilot compare --route route/ --models models --threads 1,2\n"
                  "  sparkpilot compare model.onnx --peer onnxruntime,pytorch\n"
                  "  sparkpilot compare models/driving_vision.onnx --route route/ --peer onnxruntime\n"
                  "  sparkpilot compare out/old out/new --max-plan-error 0.1",
                  [&program, flags] { return compare_all(program, *flags); });
  add_list(command, "files", flags->files, "FILE",
           "ONNX models, or folders of `drive` or logs; the first is what the others are compared with");
  add_adapter_flag(command, flags->adapters,
                   "compare the model with itself after this adapter is merged into it (repeatable)");
  command
      .add_option(
          "--route", flags->route.route,
          "drive this route with openpilot's models, in turns on each frame; of model files: what the first one "
          "reads when the driving model in its folder drives it")
      .type_name("ROUTE");
  add_number(command, "--frames", flags->frames, "of --route and model files: N frames, evenly over the first segment");
  add_list(command, "--models", flags->route.models, "DIR",
           "of --route: folder with openpilot's models, or DIR@ADAPTER with an adapter merged (repeatable)");
  command
      .add_option("-o,--out", flags->route.out,
                  "write a page, compare.html; with --route and --models keep the drives, each in a folder in it")
      .type_name("DIR");
  command.add_flag("--video", flags->route.video,
                   "of drives, with --out: also a film with both paths on the same frames");
  add_number(command, "--limit", flags->route.limit,
             "of --route: only the first N frames of each segment, in the state of a whole drive");
  command.add_flag("--qcamera", flags->route.qcamera, "of --route: drive qcamera.ts even if fcamera.hevc exists");
  command.add_flag("--no-wide", flags->route.no_wide, "of --route: use the road camera instead of the wide one");
  add_setting(program, command, "data");
  command
      .add_option("--precision", flags->precisions,
                  "each model in these: auto, model, fp32, fp16, bf16, fp8, fp4, int8 (quantized first)")
      .type_name("LIST");
  command
      .add_option("--threads", flags->threads,
                  "each model with these numbers of threads; with --route decoders have theirs besides")
      .type_name("LIST");
  add_list(command, "--input", flags->inputs, "[NAME=]PATH",
           "an input's samples: .npy or .npz files, or folders of them (repeatable); the others are random");
  add_list(command, "--calibrate", flags->calibrate, "[NAME=]PATH",
           "samples to calibrate int8 on, like --input; without them those of --input, or 8 random ones");
  add_number(command, "--samples", flags->samples, "random samples if no input has any; 0: 1, or 8 for --bisect");
  add_number(command, "--max-relative-l2", flags->max_relative_l2,
             "exit with 4 if an output's relative L2 error is above this; --bisect: of any value, 1e-4 if not given",
             "E");
  add_number(command, "--max-abs", flags->max_abs, "exit with 4 if an output's largest difference is above this", "E");
  add_number(command, "--max-plan-error", flags->max_plan_error,
             "of drives: exit with 4 if the 99th percentile of the plans' distance is above this, at any horizon", "M");
  command.add_flag("--fields", flags->fields.fields,
                   "of drives: compare every field of the messages, too; exit with 4 if one is beyond its tolerance");
  add_tolerance_flags(command, flags->fields);
  command.add_flag("--bisect", flags->bisect, "find the first node whose result differs, of two; exit with 4 if any");
  add_peer_flags(command, flags->peers);
  command.add_flag("--emulate", program.emulate,
                   "compute precisions that this processor lacks, for accuracy only: nothing is timed");
  add_number(command, "--rounds", flags->rounds, "rounds of timing, in turns");
  command.add_flag("--no-time", flags->no_time, "compare results only");
  command.add_flag("--no-layers", flags->no_layers, "compare outputs only, not the values inside");
  add_calibrations_flag(command, flags->calibrations);
  add_fp4_activations_flag(command, flags->run);
  add_graph_flags(command, flags->run);
  add_device_list(program, command, flags->devices);
  add_setting(program, command, "tune");
  add_passes_flag(command, flags->run);
  add_setting(program, command, "verbose");
  add_number(command, "--seed", flags->run.seed, "seed of the random inputs");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
