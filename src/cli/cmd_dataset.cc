// sparkpilot dataset: samples for training, made of recorded or synthetic routes.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/driving_models.h"
#include "cli/interrupt.h"
#include "cli/synth_flags.h"
#include "cli/terminal.h"
#include "train/dataset.h"
#include "train/dataset_build.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BuildFlags {
  std::vector<std::string> routes;
  std::string road = "any", light = "any", sampling = "bilinear", max_bytes, out, driver_monitoring;
  int64_t synthetic = 0;
  double focal_length = 0;
  bool no_teacher = false, no_wide = false, wet = false, dry = false, no_traffic = false;
  train::BuildOptions options;
  train::SyntheticOptions roads;
  DrivingModelFlags model;
  RunFlags run;
};

// Flags of one source that have no effect on the other.
void check_source(const BuildFlags& flags) {
  const bool synthetic = flags.synthetic > 0;
  if (synthetic == !flags.routes.empty()) fail("expected either routes, or --synthetic N");
  const std::pair<bool, const char*> for_roads[] = {
      {flags.no_teacher, "--no-teacher"},
      {flags.road != "any", "--road"},
      {flags.light != "any", "--light"},
      {flags.wet, "--wet"},
      {flags.dry, "--dry"},
      {flags.no_traffic, "--no-traffic"},
      {flags.roads.traffic != 1, "--traffic"},
      {flags.roads.keep_left, "--keep-left"},
      {flags.roads.after != 0, "--after"},
      {flags.roads.seconds != train::SyntheticOptions().seconds, "--seconds"}};
  const std::pair<bool, const char*> for_routes[] = {{flags.options.keep_overridden, "--keep-overridden"},
                                                     {flags.options.limit != 0, "--limit"},
                                                     {flags.focal_length != 0, "--focal-length"},
                                                     {flags.no_wide, "--no-wide"}};
  for (const auto& [given, flag] : for_roads) {
    if (given && !synthetic) fail("{} is for --synthetic: it has no effect on recorded routes", flag);
  }
  for (const auto& [given, flag] : for_routes) {
    if (given && synthetic) fail("{} is for recorded routes: it has no effect with --synthetic", flag);
  }
  if (!(flags.focal_length >= 0 && flags.focal_length < 1e5)) {
    fail("--focal-length {}: expected pixels, above 0 and below 100000", flags.focal_length);
  }
  if (flags.wet && flags.dry) fail("--wet and --dry exclude each other");
  if (flags.no_traffic && flags.roads.traffic != 1) fail("--no-traffic and --traffic exclude each other");
}

// Of the driver camera's frames there is less to choose.
void check_driver(const Program& program, const BuildFlags& flags) {
  const std::vector<std::string> given = given_flags(*program.at);
  const auto is_given = [&](const char* flag) { return std::ranges::find(given, flag) != given.end(); };
  if (flags.driver_monitoring.empty()) {
    if (is_given("--sampling")) fail("--sampling is for --driver-monitoring: a driving model says how it samples");
    return;
  }
  expect_alone(program, flags.model, "--driver-monitoring");
  if (flags.synthetic > 0) fail("--driver-monitoring is for recorded routes: synthetic roads have no driver's camera");
  for (const char* flag : {"--min-speed", "--keep-overridden", "--no-wide", "--focal-length"}) {
    if (is_given(flag)) fail("{} is for driving models: it has no effect with --driver-monitoring", flag);
  }
}

train::SyntheticOptions synthetic_options(const BuildFlags& flags) {
  train::SyntheticOptions options = flags.roads;
  options.routes = flags.synthetic;
  options.seed = flags.run.seed;
  if (flags.no_traffic) options.traffic = 0;
  options.roads = roads_of(flags.road), options.light = light_of(flags.light);
  if (flags.wet || flags.dry) options.wet = flags.wet;
  return options;
}

Json split_json(const train::DatasetInfo& info) {
  Json routes = Json::array();
  for (const train::DatasetRoute& route : info.routes)
    routes.push_back({{"name", route.name}, {"split", route.validation ? "validation" : "train"}});
  return routes;
}

std::string text_of(const train::LeftOut& left_out) {
  std::string text;
  for (const auto& [why, count] : left_out) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, why);
  return text;
}

int report_build(const Program& program, const std::string& out, const train::BuildResult& result) {
  const train::ClipCounts& counts = result.counts;
  const double rate = static_cast<double>(counts.frames) / std::max(result.seconds, 1e-6);
  if (program.json) {
    print_json({{"folder", out},
                {"id", result.info.id()},
                {"clips_made", result.made},
                {"clips_kept", result.kept},
                {"clips_not_begun", result.not_begun},
                {"frames", counts.frames},
                {"samples", counts.samples},
                {"pictures", counts.pictures},
                {"left_out", counts.left_out},
                {"bytes", counts.bytes},
                {"seconds", result.seconds},
                {"frames_per_second", rate},
                {"cannot_drive", result.cannot_drive},
                {"routes", split_json(result.info)},
                {"stopped", result.stopped}});
  } else {
    print(fmt::format("{}: {} made, {} kept; {} of {}, {}\n", out, count_of(result.made, "clip"), result.kept,
                      count_of(counts.samples, "sample"), count_of(counts.frames, "frame"), human_bytes(counts.bytes)));
    if (!counts.left_out.empty()) print(fmt::format("left out: {}\n", text_of(counts.left_out)));
    for (const std::string& text : result.cannot_drive) print("left out: " + text + "\n");
    if (result.made > 0) print(fmt::format("{:.1f} frames a second, {:.1f} s\n", rate, result.seconds));
    if (result.stopped) print("stopped: the same command continues\n");
  }
  if (counts.samples == 0 && !result.stopped && !program.quiet)
    note("there are no samples: every frame was left out (--keep-overridden, --min-speed)");
  return result.stopped ? kInterrupted : kDone;
}

int dataset_build(const Program& program, const BuildFlags& flags) {
  if (flags.run.passes == "list") return list_passes(program);
  check_source(flags);
  if (flags.synthetic == 0) refuse_given(program, "--seed", "--synthetic: it has no effect on recorded routes");
  check_driver(program, flags);
  expect_at_least("--every", flags.options.every, 1);
  expect_at_least("--limit", flags.options.limit, 0);
  const StopOnInterrupt stop;
  train::BuildOptions options = flags.options;
  options.out = flags.out;
  if (flags.driver_monitoring.empty()) {
    options.models = chosen_driving_model(program, flags.model, "--driver-monitoring FILE");
    options.models.driver_monitoring.clear();
  } else {
    options.models.driver_monitoring = flags.driver_monitoring;
    if (flags.sampling == "nearest") options.sampling = drive::Sampling::nearest;
  }
  options.teacher = !flags.no_teacher;
  options.wide = !flags.no_wide;
  if (flags.focal_length > 0) options.focal_length = flags.focal_length;
  options.session = session_options(program, flags.run);
  // What a data set holds does not depend on the device that `auto` takes.
  if (program.settings["precision"].value == "auto") options.session.passes.precision = Precision::fp32;
  options.threads = chosen_threads(program).value_or(0);
  if (!flags.max_bytes.empty()) options.max_bytes = parse_bytes(flags.max_bytes, "--max-bytes");
  options.stop = &stop.requested();
  if (!program.quiet) options.note = [](const std::string& text) { note(text); };
  std::vector<drive::Route> routes;
  for (const std::string& name : flags.routes)
    routes.push_back(drive::find_route(name, {.data = program.settings["data"].value}));
  Progress progress(!program.quiet, options.out.string());
  options.progress = [&](const train::BuildProgress& p) {
    progress.what(fmt::format("{} {} of {}, {:.0f} frames a second, {}", p.clip, p.clips, p.all_clips,
                              p.frames_per_second, human_bytes(p.bytes)));
    progress.at(p.done);
  };
  const train::BuildResult result = flags.synthetic > 0
                                        ? train::build_synthetic_dataset(synthetic_options(flags), options)
                                    : options.driver() ? train::build_driver_dataset(routes, options)
                                                       : train::build_dataset(routes, options);
  return report_build(program, options.out.string(), result);
}

// --- info and check

Json fields_json(const train::Dataset& data) {
  Json fields = Json::array();
  for (const train::Field& field : data.fields()) {
    fields.push_back({{"name", field.name},
                      {"dtype", std::string(name(field.dtype))},
                      {"shape", std::vector<int64_t>(field.shape.begin(), field.shape.end())}});
  }
  return fields;
}

Json clips_json(const train::Dataset& data) {
  Json clips = Json::array();
  for (const train::Dataset::Clip& clip : data.clips()) {
    clips.push_back({{"name", clip.name},
                     {"route", clip.route},
                     {"split", clip.validation ? "validation" : "train"},
                     {"samples", clip.size},
                     {"rows", clip.rows},
                     {"pictures", clip.pictures},
                     {"left_out", clip.left_out},
                     {"bytes", clip.bytes}});
  }
  return clips;
}

Json networks_json(const train::DatasetInfo& info) {
  Json networks = Json::array();
  for (const train::DatasetNetwork& network : info.networks) {
    networks.push_back(
        {{"role", network.role}, {"file", network.file}, {"hash", network.hash}, {"width", network.width}});
  }
  return networks;
}

Json json_of(const train::Dataset& data) {
  const train::DatasetInfo& info = data.info();
  return {{"id", info.id()},
          {"fingerprint", data.fingerprint()},
          {"source", info.source == train::Source::routes ? "routes" : "synthetic"},
          {"teacher", info.teacher},
          {"contract", info.model()},
          {"every", info.every},
          {"options", info.options},
          {"networks", networks_json(info)},
          {"samples", data.size()},
          {"fields", fields_json(data)},
          {"clips", clips_json(data)}};
}

int64_t samples_of(const train::Dataset& data, bool validation) {
  int64_t count = 0;
  for (const train::Dataset::Clip& clip : data.clips()) count += clip.validation == validation ? clip.size : 0;
  return count;
}

void print_info(const std::string& folder, const train::Dataset& data) {
  const train::DatasetInfo& info = data.info();
  int64_t bytes = 0;
  for (const train::Dataset::Clip& clip : data.clips()) bytes += clip.bytes;
  print(fmt::format("{}: {} to train, {} to validate, {}, {}\n", folder, count_of(samples_of(data, false), "sample"),
                    samples_of(data, true), count_of(std::ssize(info.routes), "route"), human_bytes(bytes)));
  print(fmt::format("made of: {}; every {}\n", info.options, count_of(info.every, "frame")));
  print(fmt::format("model: {}\n", info.model()));
  for (const train::DatasetNetwork& network : info.networks)
    print(fmt::format("  {} {} {}\n", network.role, network.file, info.teacher ? network.hash : "(did not run)"));
  Table fields({"field", "type", "shape"});
  for (const train::Field& field : data.fields())
    fields.add({field.name, std::string(name(field.dtype)), field.shape.str()});
  print("\n" + fields.str() + "\n");
  Table clips({"clip", "split", "samples", "size", "left out"});
  for (const train::Dataset::Clip& clip : data.clips()) {
    clips.add({clip.name, clip.validation ? "validation" : "train", std::to_string(clip.size), human_bytes(clip.bytes),
               text_of(clip.left_out)});
  }
  print(clips.str());
}

int dataset_info(const Program& program, const std::string& folder) {
  const train::Dataset data(folder, {.may_be_empty = true});  // it says what was left out
  if (program.json) print_json(json_of(data));
  else print_info(folder, data);
  return kDone;
}

int dataset_check(const Program& program, const std::string& folder) {
  const train::Dataset data(folder);
  {
    Progress progress(!program.quiet, folder);
    data.check([&](double done) { progress.at(done); });
  }
  if (program.json)
    print_json({{"folder", folder}, {"clips", data.clips().size()}, {"samples", data.size()}, {"passed", true}});
  else
    print(fmt::format("{}: {}, {}: all as written\n", folder, count_of(std::ssize(data.clips()), "clip"),
                      count_of(data.size(), "sample")));
  return kDone;
}

void add_build(Program& program, Command group) {
  const auto flags = std::make_shared<BuildFlags>();
  train::BuildOptions& options = flags->options;
  const Command command = add_command(
      program, group, "build", "make samples of recorded routes and a teacher's answers, or of synthetic roads",
      "  sparkpilot dataset build route/ other_route/ --models teacher --out data\n"
      "  sparkpilot dataset build route/ --models teacher --out data --every 1 --max-bytes 20G\n"
      "  sparkpilot dataset build --synthetic 200 --models models --no-teacher --out roads\n"
      "  sparkpilot dataset build route/ --driver-monitoring dmonitoring_model.onnx --out driver\n"
      "Ctrl-C drops the clip at work; the same command continues. More routes can be added later.",
      [&program, flags] { return dataset_build(program, *flags); });
  add_list(command, "routes", flags->routes, "ROUTE", "routes, as in sparkpilot drive");
  add_setting(program, command, "data", "folder in which routes' names are looked up");
  add_number(command, "--synthetic", flags->synthetic, "draw N synthetic routes, with seeds from --seed on");
  add_driving_model_flags(program, command, flags->model);
  command
      .add_option("--driver-monitoring", flags->driver_monitoring,
                  "the driver camera's frames, with this model as their teacher")
      .type_name("FILE");
  add_choice(command, "--sampling", flags->sampling, {"bilinear", "nearest"},
             "of the driver's pictures: bilinear, or nearest as openpilot does since 2026", "HOW");
  command.add_flag("--no-teacher", flags->no_teacher,
                   "labels of the synthetic roads alone: the model only says which inputs and outputs there are");
  command.add_option("-o,--out", flags->out, "folder of the data set").type_name("DIR").required();
  add_number(command, "--every", options.every, "frames from one sample to the next");
  command.add_option("--max-bytes", flags->max_bytes, "begin no clip beyond this size of the data set, such as 20G")
      .type_name("SIZE");
  add_number(command, "--validation", options.validation, "share of the routes for validation", "SHARE");
  add_number(command, "--min-speed", options.min_speed, "slower frames are no samples", "M/S");
  command.add_flag("--keep-overridden", options.keep_overridden,
                   "samples where the driver steers, accelerates or brakes, too");
  command.add_flag("--no-wide", flags->no_wide, "use the road camera instead of the wide one");
  add_number(command, "--limit", options.limit, "only the first N frames of each segment");
  add_number(command, "--focal-length", flags->focal_length,
             "focal length of the road camera in pixels, if the log does not tell", "PX");
  add_number(command, "--seconds", flags->roads.seconds, "length of a synthetic route", "S");
  add_number(command, "--after", flags->roads.after,
             "seconds of a synthetic route before its first sample; the first 0.2 s have no earlier picture", "S");
  command
      .add_option("--road", flags->road,
                  "where synthetic routes lie: any (highway, rural or city), or one or several of highway, rural, city "
                  "and winding, which take turns")
      .type_name("KIND[,KIND...]");
  add_choice(command, "--light", flags->light, light_words(), "time of day and sky", "KIND");
  command.add_flag("--wet", flags->wet, "wet roads");
  command.add_flag("--dry", flags->dry, "dry roads");
  command.add_flag("--keep-left", flags->roads.keep_left, "traffic keeps left");
  command.add_flag("--no-traffic", flags->no_traffic, "no other cars");
  add_number(command, "--traffic", flags->roads.traffic, "share of the synthetic routes that have other cars", "SHARE");
  add_number(command, "--seed", flags->run.seed, "of the first synthetic route");
  add_engine_flags(program, command, flags->run);
  add_report_flags(program, command);
}

}  // namespace

void add_dataset(Program& program, Command app) {
  const Command group =
      app.add_group("dataset", "samples for training: made, described, checked, and what a model makes of them");
  group.footer(
      "Examples:\n  sparkpilot dataset build route/ --models teacher --out data\n"
      "  sparkpilot dataset info data\n  sparkpilot dataset check data");
  add_build(program, group);
  add_dataset_evaluate(program, group);
  const auto folder = std::make_shared<std::string>();
  const Command info_command =
      add_command(program, group, "info", "what a data set holds", "  sparkpilot dataset info data",
                  [&program, folder] { return dataset_info(program, *folder); });
  const Command check_command =
      add_command(program, group, "check", "read a whole data set and compare it with what was written",
                  "  sparkpilot dataset check data", [&program, folder] { return dataset_check(program, *folder); });
  for (const Command& command : {info_command, check_command}) {
    command.add_option("folder", *folder, "folder of the data set").type_name("DIR").required();
    add_report_flags(program, command);
  }
}

}  // namespace sparkpilot::cli
