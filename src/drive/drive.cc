#include "drive/drive.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "adapters/load_model.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/json.h"
#include "base/parallel.h"
#include "drive/output_folder.h"
#include "drive/segment_run.h"
#include "drive/warm_up.h"
#include "hw/memory.h"
#include "passes/precision.h"
#include "route/log/recording.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr double kSegmentSeconds = 60;

bool has_models(const ModelFiles& files) { return !files.supercombo.empty() || !files.vision.empty(); }

Shares shares_of(const Route& route, const DriveOptions& options) {
  const bool wide = options.wide && std::any_of(route.segments.begin(), route.segments.end(),
                                                [](const Segment& s) { return !s.wide_video.empty(); });
  return share_threads(options.threads > 0 ? options.threads : available_processors(), wide, options.overlay);
}

// The options with which the networks are compiled.
SessionOptions session_of(const DriveOptions& options, const Shares& shares) {
  SessionOptions session = options.session;
  if (session.threads == 0) session.threads = shares.infer;
  return session;
}

// So that the recording is found from any folder later; empty for none.
std::string absolute_path(const fs::path& file) { return file.empty() ? std::string() : fs::absolute(file).string(); }

// One of the models that are driven.
struct DrivenModel {
  explicit DrivenModel(DriveOptions o) : options(std::move(o)) {}

  DriveOptions options;
  std::string run;
  std::optional<DrivingModel> model = {};
  std::optional<DriverModel> driver_model = {};
  ModelPublisher publisher = {};
  std::map<size_t, SegmentResult> done = {};  // by an earlier run
  DriveResult result = {};

  std::filesystem::path folder_of(const Route& route, size_t i) const {
    return options.out / segment_folder(route, route.segments[i]);
  }
  void keep(SegmentResult segment) {
    if (!options.keep_frames) segment.frames = std::vector<FrameResult>();
    result.segments.push_back(std::move(segment));
  }
};

class RouteDrive {
 public:
  RouteDrive(const Route& route, std::span<const DriveOptions> runs) : route_(route), options_(runs[0]) {
    shares_ = shares_of(route, options_);
    for (size_t i = 0; i < route.segments.size(); ++i) {
      if (static_cast<int>(i) % options_.ranks == options_.rank) mine_.push_back(i);
    }
    for (const DriveOptions& run : runs) {
      DrivenModel& one = models_.emplace_back(run);
      if (runs.size() > 1 && (run.resume || !has_models(run.models))) {
        fail_internal("several runs side by side need models, and cannot be resumed");
      }
      if (models_.size() > 1) one.options.overlay = false;
      one.run = run_text(route, one.options);
      check_output_folder(route, one.options);
    }
    take_what_is_done();
    for (DrivenModel& one : models_) load(one);
  }

  std::vector<DriveResult> go() {
    remove_summaries();
    std::vector<std::pair<size_t, std::string>> left_out;
    const int64_t start = now_ns();
    for (const size_t i : mine_) {
      DrivenModel& first = models_[0];
      if (first.done.contains(i)) {
        first.keep(std::move(first.done.at(i)));
        driven_before_.reset();
        continue;
      }
      if (stopped()) break;
      try {
        drive(i);
      } catch (const CannotDrive& error) {
        left_out.emplace_back(i, error.what());
        driven_before_.reset();
      }
    }
    const bool stopped_early = stopped();
    if (options_.ranks == 1 && models_[0].result.segments.empty() && !stopped_early && !left_out.empty()) {
      fail("{}", left_out[0].second);
    }
    std::vector<DriveResult> results;
    for (DrivenModel& one : models_) {
      one.result.stopped = stopped_early;
      one.result.seconds = static_cast<double>(now_ns() - start) * 1e-9;
      for (const auto& [i, why] : left_out) leave_out(one, i, why, &one == &models_.front());
      std::sort(one.result.segments.begin(), one.result.segments.end(),
                [](const SegmentResult& a, const SegmentResult& b) { return a.number < b.number; });
      results.push_back(std::move(one.result));
    }
    return results;
  }

 private:
  // The folder's result until the segment is done.
  SegmentResult nothing_of(const DrivenModel& one, size_t i, const std::string& why) const {
    SegmentResult result;
    result.number = route_.segments[i].number;
    result.name = segment_folder(route_, route_.segments[i]);
    result.run = one.run;
    result.log = absolute_path(route_.log(route_.segments[i]));
    result.notes.push_back(why);
    return result;
  }

  void leave_out(DrivenModel& one, size_t i, const std::string& why, bool tell) const {
    SegmentResult result = nothing_of(one, i, why);
    result.left_out = true;
    if (tell) note(fmt::format("{}: left out: {}", result.name, why));
    make_folders(one.options.out / result.name);
    write_result(result, one.options.out / result.name);
    one.result.segments.push_back(std::move(result));
  }

  // They describe runs whose results this one overwrites.
  void remove_summaries() const {
    std::error_code ignored;
    if (options_.rank > 0) return;
    for (const DrivenModel& one : models_) {
      for (const char* file : {"summary.json", "summary.html", "compare.html"})
        fs::remove(one.options.out / file, ignored);
    }
  }

  bool has_driver_video() const {
    return std::any_of(mine_.begin(), mine_.end(), [&](size_t i) { return !route_.segments[i].driver_video.empty(); });
  }

  void load(DrivenModel& one) const {
    one.result.shares = shares_;
    one.result.run = one.run;
    const ModelFiles& files = one.options.models;
    if (!has_models(files)) return;
    const SessionOptions session = session_of(one.options, shares_);
    one.result.shares.infer = session.threads;
    const PeakMemory memory;
    one.model.emplace(files, session);
    one.result.peak_memory_bytes = memory.bytes();
    one.result.networks = one.model->networks();
    one.result.contract = one.model->contract().describe();
    const Sampling first = models_[0].model->contract().sampling;
    if (!options_.sampling && one.model->contract().sampling != first) {
      fail_internal("models side by side that sample their pictures in different ways");
    }
    if (files.driver_monitoring.empty() || !has_driver_video()) return;
    one.driver_model.emplace(files.driver_monitoring, files.options_for(kDriverMonitoring, session));
    Network& network = one.driver_model->network();
    one.result.networks.push_back(
        {network.file(), kDriverMonitoring, network.checkpoint(), network.session().device()});
  }

  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  void note(const std::string& text) const {
    if (options_.note) options_.note(text);
  }

  // What a complete segment's folder has no more; empty if it is whole.
  static std::string missing_of(const SegmentResult& result, const DrivenModel& one, const fs::path& folder) {
    std::map<std::string, int64_t> files = result.files;
    if (files.empty() && !result.left_out) {  // earlier versions did not keep them
      if (has_models(one.options.models)) files["rlog.zst"] = -1;
      if (one.options.overlay) files["overlay.mp4"] = -1;
    }
    const std::map<std::string, int64_t> there = files_in(folder);
    for (const auto& [name, bytes] : files) {
      const auto found = there.find(name);
      if (found == there.end()) return name + " is not there";
      if (bytes >= 0 && found->second != bytes)
        return fmt::format("{} has {} bytes, {} were written", name, found->second, bytes);
    }
    return {};
  }

  static std::map<std::string, int64_t> files_in(const fs::path& folder) {
    std::map<std::string, int64_t> files;
    for (const char* name : {"rlog.zst", "overlay.mp4"}) {
      std::error_code error;
      const auto size = static_cast<int64_t>(fs::file_size(folder / name, error));
      if (!error) files[name] = size;
    }
    return files;
  }

  void take_what_is_done() {
    todo_ = std::ssize(mine_);
    if (!options_.resume) return;
    DrivenModel& one = models_[0];
    for (const size_t i : mine_) {
      const fs::path file = one.folder_of(route_, i) / kResultFile;
      if (!fs::exists(file)) continue;
      SegmentResult result = segment_result_from(read_file(file), file);
      if (!result.complete) continue;
      if (result.run != one.run) {
        fail("{}: was made by another run ({}), this one is: {}", file.string(), result.run, one.run);
      }
      const fs::path log = route_.log(route_.segments[i]).filename(), was = fs::path(result.log).filename();
      if (log != was) {
        fail("{}: was made from the log \"{}\", this run reads \"{}\"", file.string(), was.string(), log.string());
      }
      if (const std::string missing = missing_of(result, one, file.parent_path()); !missing.empty()) {
        note(fmt::format("{}: {}: driven again", file.parent_path().string(), missing));
        continue;
      }
      if (!options_.keep_frames) result.frames = std::vector<FrameResult>();
      one.done.emplace(i, std::move(result));
      --todo_;
    }
  }

  void drive(size_t i) {
    const Segment& segment = route_.segments[i];
    const Timeline timeline = segment_timeline(route_, segment, {}, options_.note);
    SegmentJob job;
    for (DrivenModel& one : models_) {
      SegmentLane& lane = job.lanes.emplace_back();
      lane.options = &one.options;
      lane.model = one.model ? &*one.model : nullptr;
      lane.publisher = &one.publisher;
    }
    job.shares = shares_;
    if (models_[0].model && (driven_before_ != i - 1 || !follows(route_, i))) warm_up(route_, i, job, state_);
    if (stopped()) return;  // nothing has been written for this segment yet
    const double since = kSegmentSeconds * (segment.number - route_.segments.front().number);
    const auto& index = road_index(segment, timeline, options_);
    job.segment = &segment;
    job.timeline = &timeline;
    for (size_t m = 0; m < models_.size(); ++m) {
      DrivenModel& one = models_[m];
      job.lanes[m].driver_model = one.driver_model ? &*one.driver_model : nullptr;
      job.lanes[m].folder = one.folder_of(route_, i);
      job.lanes[m].unfinished = text_of(nothing_of(one, i, "it was not finished"));
    }
    const auto first = index.empty() ? timeline.first_moment : std::optional(index.front().timestamp_eof);
    job.route_start = first ? static_cast<double>(*first) * 1e-9 - since : 0;
    job.first_eof = static_cast<uint64_t>(since * 1e9);
    const int64_t start = now_ns(), frames_before = frames_;
    job.progress = [&](int64_t done) { tell(segment, frames_before + done, start, done); };
    std::vector<SegmentResult> results = run_segment(job, state_);
    frames_ += std::ssize(results[0].frames);
    if (options_.limit > 0 && std::ssize(results[0].frames) >= options_.limit) {
      driven_before_.reset();
      state_.last_frame_id.reset();  // what is behind the limit is not lost
    } else {
      driven_before_ = i;
    }
    for (size_t m = 0; m < models_.size(); ++m) {
      SegmentResult& result = results[m];
      result.name = segment_folder(route_, segment);
      result.run = models_[m].run;
      result.log = absolute_path(route_.log(segment));
      for (const auto& network : models_[m].result.networks) result.devices[network.role] = network.device;
      result.files = files_in(job.lanes[m].folder);
      write_result(result, job.lanes[m].folder);
      models_[m].keep(std::move(result));
    }
  }

  static std::string text_of(const SegmentResult& result) { return json_text(to_json(result)) + "\n"; }

  static void write_result(const SegmentResult& result, const fs::path& folder) {
    AtomicFile file(folder / kResultFile);
    file.write(text_of(result));
    file.commit();
  }

  void tell(const Segment& segment, int64_t frame, int64_t start, int64_t done) {
    if (!options_.progress) return;
    const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
    DriveProgress progress{segment_folder(route_, segment), frame};
    const int64_t each = options_.limit > 0 ? options_.limit : kSegmentFrames;
    progress.frames = std::max(frame, each * todo_);
    progress.frames_per_second = static_cast<double>(done) / std::max(seconds, 1e-6);
    progress.seconds_left = static_cast<double>(progress.frames - frame) / std::max(progress.frames_per_second, 1e-6);
    options_.progress(progress);
  }

  const Route& route_;
  const DriveOptions& options_;  // of the first
  std::deque<DrivenModel> models_;
  Shares shares_;
  std::vector<size_t> mine_;
  int64_t todo_ = 0, frames_ = 0;
  DriveState state_;
  std::optional<size_t> driven_before_;
};

}  // namespace

std::string run_text(const Route& route, const DriveOptions& options) {
  std::string text = fmt::format("route {}", route.name);
  for (const fs::path& file :
       {options.models.supercombo, options.models.vision, options.models.policy, options.models.driver_monitoring}) {
    if (file.empty()) continue;
    text += fmt::format(", {} {:016x}", parse_model_name(file).file.filename().string(), model_hash(file));
  }
  if (!has_models(options.models)) text += ", recorded models only";
  else text += fmt::format(", precision {}, device {}", name(options.session.passes.precision), options.session.device);
  for (const std::string& pass : options.session.passes.off) text += ", without " + pass;
  for (const auto& [role, largest] : options.models.largest) {
    Fnv hash;
    for (const auto& [value, magnitude] : largest) hash.text(fmt::format("{} {};", value, magnitude));
    text += fmt::format(", {} calibrated {:016x}", role, hash.value());
  }
  if (!options.models.rewritten_as.empty()) text += ", " + options.models.rewritten_as;
  if (options.sampling) text += *options.sampling == Sampling::nearest ? ", nearest" : ", bilinear";
  if (options.focal_length) text += fmt::format(", focal length {}", *options.focal_length);
  text += fmt::format("{}{}{}", options.wide ? "" : ", no wide camera", options.qcamera ? ", qcamera" : "",
                      options.raw ? ", raw" : "");
  text += options.overlay ? fmt::format(", overlay {}", options.overlay_width) : ", no overlay";
  if (options.limit > 0) text += fmt::format(", first {} frames", options.limit);
  return text;
}

std::string segment_folder(const Route& route, const Segment& segment) {
  std::string log = route.name.substr(route.name.rfind('|') + 1);
  for (char& c : log) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  return fmt::format("{}--{}", log.empty() ? "route" : log, segment.number);
}

NetworkChoices choose_for_networks(const Route& route, const DriveOptions& options) {
  if (!has_models(options.models)) return {};
  const SessionOptions session = session_of(options, shares_of(route, options));
  NetworkChoices out;
  {
    const DrivingModel model(options.models, session);
    out.kernels = model.choices();
    for (const auto& network : model.networks()) out.devices[network.role] = network.device;
  }
  const bool driver = std::any_of(route.segments.begin(), route.segments.end(),
                                  [](const Segment& s) { return !s.driver_video.empty(); });
  if (options.models.driver_monitoring.empty() || !driver) return out;
  DriverModel model(options.models.driver_monitoring, session);
  const std::vector<KernelDecision> more = model.network().session().choices();
  out.kernels.insert(out.kernels.end(), more.begin(), more.end());
  out.devices[kDriverMonitoring] = model.network().session().device();
  return out;
}

std::vector<DriveResult> drive_side_by_side(const Route& route, std::span<const DriveOptions> runs) {
  return RouteDrive(route, runs).go();
}

DriveResult drive_route(const Route& route, const DriveOptions& options) {
  return std::move(drive_side_by_side(route, {&options, 1})[0]);
}

}  // namespace sparkpilot::drive
