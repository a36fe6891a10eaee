// sparkpilot drive: a recorded route through the driving models.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/folder_lock.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/compare_drives.h"
#include "cli/drive_demo.h"
#include "cli/drive_text.h"
#include "cli/driving_models.h"
#include "cli/interrupt.h"
#include "cli/processes.h"
#include "cli/terminal.h"
#include "drive/drive.h"
#include "drive/output_folder.h"
#include "drive/report.h"
#include "hw/cpu.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using drive::DriveOptions;

struct DriveFlags {
  std::string route, out, dump, sampling, reference, driver_monitoring;
  DrivingModelFlags model;
  std::vector<std::string> adapters, calibrations;
  FieldFlags fields;
  bool demo = false, from_log = false, realtime = false, resume = false, raw = false, no_overlay = false,
       no_wide = false, qcamera = false;
  int64_t overlay_width = 964, limit = 0;
  double focal_length = 0;
  RunFlags run;
};

drive::ModelFiles model_files(const Program& program, const DriveFlags& flags) {
  if (flags.from_log) {
    if (driving_model_ways(program, flags.model) > 0)
      fail("--from-log draws what was recorded, without a model: omit --models and similar flags");
    return {};
  }
  drive::ModelFiles files = chosen_driving_model(program, flags.model, "--from-log");
  if (!flags.driver_monitoring.empty()) files.driver_monitoring = flags.driver_monitoring;
  std::vector<ModelName::Part> adapters;
  for (const std::string& text : flags.adapters) adapters.push_back(parse_adapter_name(text));
  drive::add_adapters(files, adapters);
  return files;
}

DriveOptions drive_options(const Program& program, const DriveFlags& flags, const Comm& comm) {
  DriveOptions options;
  options.models = model_files(program, flags);
  options.session = session_options(program, flags.run);
  Calibrations calibrations(flags.calibrations);
  calibrations.give(options.models);
  expect_calibration_used(flags.run, !flags.calibrations.empty(), {options.session.passes.precision});
  calibrations.expect_used();
  if (comm.rank() > 0) options.session.say = nullptr;
  options.threads = chosen_threads(program).value_or(0);
  if (options.threads == 0) options.threads = threads_of_each(comm, comm.rank() == 0 && !program.quiet);
  options.out = flags.out;
  options.resume = flags.resume;
  options.overlay = !flags.no_overlay;
  options.overlay_width = static_cast<int>(flags.overlay_width);
  options.wide = !flags.no_wide;
  options.qcamera = flags.qcamera;
  options.realtime = flags.realtime;
  options.raw = flags.raw;
  options.dump = flags.dump;
  options.limit = flags.limit;
  options.keep_frames = false;
  if (flags.sampling == "bilinear") options.sampling = drive::Sampling::bilinear;
  if (flags.sampling == "nearest") options.sampling = drive::Sampling::nearest;
  if (flags.focal_length > 0) options.focal_length = flags.focal_length;
  options.rank = comm.rank();
  options.ranks = comm.size();
  return options;
}

// Whether a network ran on one device in some segments and on another in others, as after a fault and --resume.
bool on_several_devices(const std::vector<drive::SegmentResult>& segments) {
  const std::map<std::string, std::string>* first = nullptr;
  for (const drive::SegmentResult& segment : segments) {
    if (segment.devices.empty()) continue;
    if (first && *first != segment.devices) return true;
    first = &segment.devices;
  }
  return false;
}

bool stand_in(const drive::DrivingModel::NetworkInfo& network) {
  return network.checkpoint.starts_with("sparkpilot-zoo/");
}

// Fails (user) if a flag is given that has no effect, and why it has none.
void refuse_useless(const std::string& why, std::initializer_list<std::pair<bool, const char*>> useless) {
  for (const auto& [given, flag] : useless) {
    if (given) fail("{}: {} has no effect with it", why, flag);
  }
}

void check(const Program& program, const DriveFlags& flags) {
  if (flags.out.empty()) fail("--out DIR is expected: where the logs, videos and the summary go");
  expect_at_least("--limit", flags.limit, 0);
  if (flags.no_overlay) refuse_given(program, "--overlay-width", "the overlay, which --no-overlay leaves out");
  if (flags.overlay_width < 128 || flags.overlay_width > 8192)
    fail("--overlay-width {}: expected 128 to 8192", flags.overlay_width);
  if (flags.reference.empty() && (!flags.fields.tolerances.empty() || flags.fields.scale != 1)) {
    fail("--tolerances and --tolerance-scale are for --reference, which is not given");
  }
  if (flags.from_log) {
    refuse_useless("--from-log runs no model", {{flags.raw, "--raw"},
                                                {!flags.dump.empty(), "--dump"},
                                                {!flags.sampling.empty(), "--sampling"},
                                                {!flags.driver_monitoring.empty(), "--driver-monitoring"},
                                                {!flags.adapters.empty(), "--adapter"},
                                                {!flags.calibrations.empty(), "--calibration"},
                                                {flags.run.fp4_activations, "--fp4-activations"},
                                                {flags.reference == "recorded", "--reference recorded"}});
    for (const char* flag : {"--precision", "--device", "--tune", "--passes", "--memory-reserve", "--emulate"})
      refuse_given(program, flag, "models, and --from-log runs none");
  }
  if (!(flags.focal_length >= 0 && flags.focal_length < 1e5)) {
    fail("--focal-length {}: expected pixels, above 0 and below 100000", flags.focal_length);
  }
}

// Another drive, a log, or what the route's device recorded.
std::optional<compare::Drive> reference_of(const DriveFlags& flags, const drive::Route& route,
                                           const DriveOptions& options) {
  if (flags.reference.empty()) return {};
  try {
    if (flags.reference == "recorded") return compare::read_recorded(route, options.note);
    return compare::read_drive(flags.reference, options.note, {.route = &route});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    fail("--reference {}", error.what());
  }
}

// What the run says of each frame: its logs or, if it ran no model, the recorded models of the frames it drew.
compare::Drive result_of(const drive::Route& route, const DriveOptions& options, const drive::DriveResult& result) {
  const bool model = !options.models.vision.empty() || !options.models.supercombo.empty();
  if (model) return compare::read_drive(options.out, nullptr, {.run = result.run, .route = &route});
  compare::Drive out = compare::read_recorded(route, nullptr);
  out.name = options.out.string();
  std::set<uint32_t> drawn;
  for (const drive::SegmentResult& segment : result.segments) {
    for (const drive::FrameResult& frame : segment.frames) drawn.insert(frame.frame_id);
  }
  std::erase_if(out.models, [&](const drive::ModelRecord& record) { return !drawn.contains(record.frame_id); });
  return out;
}

// One process's part of a run, and the first process's report on all parts.
class DriveRun {
 public:
  DriveRun(const Program& program, const DriveFlags& flags, Comm& comm)
      : program_(program), flags_(flags), comm_(comm) {}

  // Checks what was given; the first process locks the output folder. Other processes write only after all have done
  // this.
  void prepare(const std::atomic<bool>& stop) {
    check(program_, flags_);
    route_ = drive::find_route(flags_.route, {.data = program_.settings["data"].value});
    options_ = drive_options(program_, flags_, comm_);
    options_.stop = &stop;
    check_output_folder(route_, options_);
    if (comm_.rank() == 0) out_.emplace(options_.out);
    const auto tell = [](const std::string& text) { note(text); };
    // Rank 0 alone reports what all ranks see; each rank reports on its own segments.
    if (!program_.quiet && comm_.rank() == 0) options_.note = tell;
    if (!options_.models.note.empty()) say(options_.models.note);
    if (out_ && !out_->held())
      say(options_.out.string() + ": its file system has no locks; two runs at once would mix their results");
    limits_.fields = tolerances_of({!flags_.reference.empty(), flags_.fields.tolerances, flags_.fields.scale});
    reference_ = reference_of(flags_, route_, options_);
    if (reference_ && !same_route(reference_->route, route_.name)) {
      fail("--reference {} is of route {}, this one is {}", flags_.reference, reference_->route, route_.name);
    }
    if (!flags_.driver_monitoring.empty() &&
        std::none_of(route_.segments.begin(), route_.segments.end(),
                     [](const drive::Segment& s) { return !s.driver_video.empty(); })) {
      say("no dcamera.hevc in the route: the driver monitoring network does not run");
    }
    if (!program_.quiet) options_.note = tell;
  }

  void drive() {
    Progress progress(!program_.quiet && comm_.rank() == 0, route_.name);
    options_.progress = [&](const drive::DriveProgress& p) {
      progress.what(fmt::format("{} {} of {}, {:.0f} a second, {} left", p.segment, p.frame, p.frames,
                                p.frames_per_second, human_time(p.seconds_left)));
      progress.at(static_cast<double>(p.frame) / static_cast<double>(std::max<int64_t>(p.frames, 1)));
    };
    report_.result = drive::drive_route(route_, options_);
  }

  // The first process chooses devices and kernels for all, so that results do not depend on which process drives a
  // segment. All must call it.
  void share_choices() {
    const bool tunes = options_.session.tune != Tune::off;
    if (comm_.size() == 1 || (!tunes && options_.session.device != "auto")) return;
    nlohmann::json kernels = nlohmann::json::array(), devices = nlohmann::json::array();
    comm_.together([&] {
      if (comm_.rank() > 0) return;
      const drive::NetworkChoices found = drive::choose_for_networks(route_, options_);
      for (const KernelDecision& choice : found.kernels) kernels.push_back({choice.node, choice.kernel});
      for (const auto& [role, device] : found.devices) devices.push_back({role, device});
    });
    const nlohmann::json shared =
        parse_json(comm_.share(json_text(nlohmann::json{{"kernels", kernels}, {"devices", devices}})));
    for (const nlohmann::json& one : shared["devices"])
      options_.models.devices[one.at(0).get<std::string>()] = one.at(1).get<std::string>();
    if (!tunes) return;
    options_.session.choices.clear();
    for (const nlohmann::json& choice : shared["kernels"])
      options_.session.choices.push_back({.node = choice.at(0), .kernel = choice.at(1)});
    options_.session.tune = Tune::off;
  }

  // A process with another model or setting, as by a configuration file of its machine, would make another run's
  // segments. All must call it.
  void expect_same_run() {
    if (comm_.size() == 1) return;
    std::string text;
    comm_.together([&] { text = drive::run_text(route_, options_); });
    comm_.expect_alike("model, route or setting", text);
  }

  bool stopped() const { return report_.result.stopped; }

  // Reports the segments of all processes; returns whether all are there and the outputs match the reference.
  bool report(bool stopped) {
    const bool model = !options_.models.vision.empty() || !options_.models.supercombo.empty();
    report_.result.segments = drive::collect_segments(route_, options_.out, report_.result.run);
    report_.result.stopped = stopped;
    if (!stopped) tell_what_is_missing();
    report_.route = route_.name;
    report_.out = flags_.out;
    report_.device = drive::settle_devices(report_.result);
    if (model) report_.precision = std::string(name(precision_on(report_.device, options_.session.passes.precision)));
    const CpuFeatures& cpu = cpu_features();
    report_.machine =
        fmt::format("{}, {} processors", cpu.model.empty() ? "unknown processor" : cpu.model, cpu.logical);
    report_.version = SPARKPILOT_VERSION;
    report_.processes = comm_.size();
    report_.realtime = flags_.realtime;
    report_.notes = route_.notes;
    if (on_several_devices(report_.result.segments))
      report_.notes.emplace_back("not all segments were driven on the same device");
    if (std::any_of(report_.result.networks.begin(), report_.result.networks.end(), stand_in)) {
      report_.notes.insert(report_.notes.begin(), "a stand-in model with random weights: its outputs mean nothing");
    }
    std::exception_ptr failed;  // the drive's own summary is written all the same
    try {
      if (reference_ && !stopped) compare_with_reference();
    } catch (const Error&) {
      failed = std::current_exception();
      page_.reset();
    }
    drive::write_report(report_);
    if (failed) std::rethrow_exception(failed);
    if (program_.json) print_json(drive::summary_json(report_));
    else print_drive(report_);
    if (page_ && !program_.json) {
      print("\n");
      print_comparison(*page_);
    }
    return !missing_ && (!report_.reference || report_.reference->same);
  }

 private:
  void say(const std::string& text) const {
    if (options_.note) options_.note(text);
  }

  // Each process writes its segments into what it knows as the folder, which may not be the first one's.
  void tell_what_is_missing() {
    std::vector<drive::SegmentResult>& segments = report_.result.segments;
    for (const drive::Segment& segment : route_.segments) {
      if (std::ranges::find(segments, segment.number, &drive::SegmentResult::number) != segments.end()) continue;
      drive::SegmentResult& missing = segments.emplace_back();
      missing.number = segment.number;
      missing.name = drive::segment_folder(route_, segment);
      missing.run = report_.result.run;
      missing.left_out = true;
      missing.notes = {fmt::format("its process left no result in {}", options_.out.string())};
      note(fmt::format("{}: {}", missing.name, missing.notes[0]));
      missing_ = true;
    }
    std::ranges::sort(segments, {}, &drive::SegmentResult::number);
  }

  // `compare REFERENCE OUT --fields --out OUT`, on the frames that this run was asked for.
  void compare_with_reference() {
    drives_ = {std::move(*reference_), result_of(route_, options_, report_.result)};
    drive::leave_out_unasked(route_, options_, drives_[1].models, drives_[0].models);
    if (flags_.reference == "recorded") {  // judged beside ours
      for (const drive::FrameResult& ours : drives_[1].frames) {
        std::ranges::copy(ours.recorded_errors, drives_[0].frames.emplace_back(ours).errors);
      }
    }
    page_ = compare_read(drives_, limits_);
    write_page(program_, *page_, {.folder = options_.out, .stop = options_.stop});
    const auto& fields = *page_->others[0].fields;
    report_.reference = {.name = drives_[0].name,
                         .same = page_->beyond.empty(),
                         .verdict = drive::verdict(fields),
                         .page = kComparisonPage,
                         .comparison = std::make_shared<const nlohmann::ordered_json>(to_json(*page_))};
  }

  const Program& program_;
  const DriveFlags& flags_;
  Comm& comm_;
  drive::Route route_;
  DriveOptions options_;
  std::optional<FolderLock> out_;  // held by the first process for all of them
  DriveLimits limits_;
  bool missing_ = false;  // a segment that a process drove is not in the folder
  std::optional<compare::Drive> reference_;
  std::vector<compare::Drive> drives_;           // the reference and this run
  std::optional<compare::ComparisonPage> page_;  // of these
  drive::DriveReport report_;
};

// The demo's route and model in the place of given ones; the first process makes the route.
void take_demo(const Program& program, DriveFlags& flags, bool first) {
  refuse_useless("--demo drives its own route with its own model",
                 {{!flags.route.empty(), "ROUTE"},
                  {program.settings["models"].origin == Origin::flag, "--models"},
                  {!flags.model.vision.empty(), "--vision"},
                  {!flags.model.policy.empty(), "--policy"},
                  {!flags.model.supercombo.empty(), "--supercombo"},
                  {program.settings["data"].origin == Origin::flag, "--data"},
                  {flags.from_log, "--from-log"},
                  {!flags.driver_monitoring.empty(), "--driver-monitoring"},
                  {flags.qcamera, "--qcamera"},
                  {flags.no_wide, "--no-wide"}});
  if (flags.out.empty()) flags.out = kDemoFolder;
  check(program, flags);
  flags.model.supercombo = demo_model();
  flags.route = demo_route(flags.out).string();
  if (!first) return;
  check_demo_folder(flags.out);
  make_demo_route(program, flags.out);
}

int run(Program& program, DriveFlags flags) {
  if (flags.run.passes == "list") return list_passes(program);
  program.comm = std::make_unique<Comm>();
  Comm& comm = *program.comm;
  if (flags.demo) comm.together([&] { take_demo(program, flags, comm.rank() == 0); });
  const StopOnInterrupt stop(comm.rank() == 0);
  DriveRun run(program, flags, comm);
  comm.together([&] { run.prepare(stop.requested()); });
  run.share_choices();
  run.expect_same_run();
  comm.together([&] { run.drive(); });
  const bool stopped = comm.max(run.stopped() ? 1 : 0) != 0;
  bool same = true;
  comm.together([&] {
    if (comm.rank() == 0) same = run.report(stopped);
  });
  return stopped ? kInterrupted : comm.max(same ? 0 : 1) == 0 ? kDone : kCheckFailed;
}

}  // namespace

void add_drive(Program& program, Command app) {
  const auto flags = std::make_shared<DriveFlags>();
  const Command command =
      add_command(program, app, "drive", "run a recorded route through the driving models",
                  "  sparkpilot drive 'a2a0ccea32023010|2023-07-27--13-01-19' --models models --out out/drive\n"
                  "  sparkpilot drive route/ --vision driving_vision.onnx --policy driving_policy.onnx --out out/drive "
                  "--precision bf16\n"
                  "  sparkpilot drive route/ --from-log --out out/recorded\n"
                  "  sparkpilot drive --demo\n"
                  "  sparkpilot drive route/ --models new --out out/new --reference out/drive\n"
                  "  mpirun -np 3 sparkpilot drive route/ --models models --out out/drive\n"
                  "Ctrl-C finishes the open files; --resume continues at the first unfinished segment.",
                  [&program, flags] { return run(program, *flags); });
  add_route_flags(program, command, flags->route);
  add_driving_model_flags(program, command, flags->model);
  command
      .add_option("--driver-monitoring", flags->driver_monitoring,
                  "driver monitoring network, for routes with dcamera.hevc; --models finds it")
      .type_name("FILE");
  add_adapter_flag(command, flags->adapters, "merge this adapter into the network that it was made for (repeatable)");
  command.add_flag(
      "--demo",
      [flags, command](int64_t) {
        flags->demo = true;
        command.require_no_options();
      },
      "make a synthetic road of 8 s and drive it with the small model that comes with the program; results go to "
      "sparkpilot-demo without --out");
  command.add_flag("--from-log", flags->from_log, "draw what openpilot recorded, without a model");
  command.add_option("-o,--out", flags->out, "where logs, videos and the summary go").type_name("DIR");
  command.add_flag("--resume", flags->resume, "keep the segments that are complete, drive the others");
  command.add_flag("--realtime", flags->realtime, "frames at 20 per second; late ones are counted");
  command.add_flag("--no-overlay", flags->no_overlay, "no overlay.mp4 and no pictures");
  add_number(command, "--overlay-width", flags->overlay_width, "pixels across the overlay");
  command.add_flag("--no-wide", flags->no_wide, "use the road camera instead of the wide one");
  command.add_flag("--qcamera", flags->qcamera, "drive qcamera.ts even if fcamera.hevc exists");
  add_choice(command, "--sampling", flags->sampling, {"bilinear", "nearest"},
             "sampling of frames, instead of the era's: bilinear or nearest", "HOW");
  add_number(command, "--focal-length", flags->focal_length,
             "focal length of the road camera in pixels, if the log does not tell", "PX");
  add_number(command, "--limit", flags->limit,
             "only the first N frames of each segment, in the state of a whole drive");
  command
      .add_option("--reference", flags->reference,
                  "compare with another run's folder or log, or with `recorded` (the log); exit code 4 if they differ")
      .type_name("PATH");
  add_tolerance_flags(command, flags->fields);
  command.add_flag("--raw", flags->raw, "keep the networks' outputs in modelV2.rawPredictions");
  command.add_option("--dump", flags->dump, "write every frame's inputs and outputs to DIR as .npy").type_name("DIR");
  add_engine_flags(program, command, flags->run);
  add_calibrations_flag(command, flags->calibrations);
  add_fp4_activations_flag(command, flags->run);
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
