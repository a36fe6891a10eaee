#include "drive/drive.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/parallel.h"
#include "drive/output_folder.h"
#include "drive/segment_run.h"
#include "drive/warm_up.h"
#include "passes/precision.h"
#include "route/log/recording.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr double kSegmentSeconds = 60;

// Hash of a file's bytes: distinguishes two models of the same name.
uint64_t fingerprint(const fs::path& path) {
  const InputFile file(path);
  Fnv hash;
  std::vector<std::byte> buffer(1 << 20);
  for (int64_t at = 0; at < file.size();) {
    const auto count = static_cast<size_t>(std::min<int64_t>(std::ssize(buffer), file.size() - at));
    file.read_at(at, {buffer.data(), count});
    hash.bytes(buffer.data(), count);
    at += static_cast<int64_t>(count);
  }
  return hash.value();
}

bool has_models(const ModelFiles& files) { return !files.supercombo.empty() || !files.vision.empty(); }

// Everything that affects the results; segments with the same text belong to the same run.
std::string run_text(const Route& route, const DriveOptions& options) {
  std::string text = fmt::format("route {}", route.name);
  for (const fs::path& file :
       {options.models.supercombo, options.models.vision, options.models.policy, options.models.driver_monitoring}) {
    if (!file.empty()) text += fmt::format(", {} {:016x}", file.filename().string(), fingerprint(file));
  }
  if (!has_models(options.models)) text += ", recorded models only";
  else text += fmt::format(", precision {}, device {}", name(options.session.passes.precision), options.session.device);
  if (options.sampling) text += *options.sampling == Sampling::nearest ? ", nearest" : ", bilinear";
  if (options.focal_length) text += fmt::format(", focal length {}", *options.focal_length);
  text += fmt::format("{}{}{}", options.wide ? "" : ", no wide camera", options.qcamera ? ", qcamera" : "",
                      options.raw ? ", raw" : "");
  text += options.overlay ? fmt::format(", overlay {}", options.overlay_width) : ", no overlay";
  if (options.limit > 0) text += fmt::format(", first {} frames", options.limit);
  return text;
}

Shares shares_of(const Route& route, const DriveOptions& options) {
  const bool wide = options.wide && std::any_of(route.segments.begin(), route.segments.end(),
                                                [](const Segment& s) { return !s.wide_video.empty(); });
  return share_threads(options.threads > 0 ? options.threads : available_processors(), wide, options.overlay);
}

class Driver {
 public:
  Driver(const Route& route, const DriveOptions& options) : route_(route), options_(options) {
    run_ = run_text(route, options);
    shares_ = shares_of(route, options);
    for (size_t i = 0; i < route.segments.size(); ++i) {
      if (static_cast<int>(i) % options.ranks == options.rank) mine_.push_back(i);
    }
    check_output_folder(route, options);
    take_what_is_done();
    result_.shares = shares_;
    result_.run = run_;
    if (has_models(options.models)) {
      SessionOptions session = options.session;
      session.threads = shares_.infer;
      model_.emplace(options.models, session);
      result_.networks = model_->networks();
      result_.contract = model_->contract().describe();
      if (!options.models.driver_monitoring.empty() && has_driver_video()) load_driver_model(session);
    }
  }

  DriveResult go() {
    remove_summary();
    std::vector<SegmentResult> left_out;
    const int64_t start = now_ns();
    for (const size_t i : mine_) {
      if (done_.contains(i)) {
        keep(std::move(done_.at(i)));
        driven_before_.reset();
        continue;
      }
      if (stopped()) break;
      try {
        drive(i);
      } catch (const CannotDrive& error) {
        left_out.push_back(nothing_of(i, error.what()));
        driven_before_.reset();
      }
    }
    result_.stopped = stopped();
    result_.seconds = static_cast<double>(now_ns() - start) * 1e-9;
    const bool alone = options_.ranks == 1 && result_.segments.empty() && !result_.stopped;
    if (alone && !left_out.empty()) fail("{}", left_out[0].notes[0]);
    for (SegmentResult& result : left_out) {
      note(fmt::format("{}: left out: {}", result.name, result.notes[0]));
      make_folders(options_.out / result.name);
      write_result(result, options_.out / result.name);
      result_.segments.push_back(std::move(result));
    }
    std::sort(result_.segments.begin(), result_.segments.end(),
              [](const SegmentResult& a, const SegmentResult& b) { return a.number < b.number; });
    return std::move(result_);
  }

 private:
  SegmentResult nothing_of(size_t i, const std::string& why) const {
    SegmentResult result;
    result.number = route_.segments[i].number;
    result.name = segment_folder(route_, route_.segments[i]);
    result.run = run_;
    result.log = route_.log(route_.segments[i]).string();
    result.left_out = true;
    result.notes.push_back(why);
    return result;
  }

  // The summary describes a run whose results this one overwrites.
  void remove_summary() const {
    std::error_code ignored;
    if (options_.rank > 0) return;
    for (const char* file : {"summary.json", "summary.html"}) fs::remove(options_.out / file, ignored);
  }

  bool has_driver_video() const {
    return std::any_of(mine_.begin(), mine_.end(), [&](size_t i) { return !route_.segments[i].driver_video.empty(); });
  }

  void load_driver_model(const SessionOptions& session) {
    driver_model_.emplace(options_.models.driver_monitoring, session);
    result_.networks.push_back(
        {driver_model_->network().file(), "driver monitoring", driver_model_->network().checkpoint()});
  }

  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  void note(const std::string& text) const {
    if (options_.note) options_.note(text);
  }
  fs::path folder_of(size_t i) const { return options_.out / segment_folder(route_, route_.segments[i]); }

  void take_what_is_done() {
    todo_ = std::ssize(mine_);
    if (!options_.resume) return;
    for (const size_t i : mine_) {
      const fs::path file = folder_of(i) / kResultFile;
      if (!fs::exists(file)) continue;
      SegmentResult result = segment_result_from(read_file(file), file);
      if (!result.complete) continue;
      if (result.run != run_) {
        fail("{}: was made by another run ({}), this one is: {}", file.string(), result.run, run_);
      }
      if (!options_.keep_frames) result.frames = std::vector<FrameResult>();
      done_.emplace(i, std::move(result));
      --todo_;
    }
  }

  void drive(size_t i) {
    const Segment& segment = route_.segments[i];
    const Timeline timeline = segment_timeline(route_, segment, {}, options_.note);
    SegmentJob job;
    job.options = &options_;
    job.model = model_ ? &*model_ : nullptr;
    job.shares = shares_;
    if (model_ && (driven_before_ != i - 1 || !follows(route_, i))) warm_up(route_, i, job, state_);
    if (stopped()) return;  // nothing has been written for this segment yet
    const double since = kSegmentSeconds * (segment.number - route_.segments.front().number);
    const auto& index = road_index(segment, timeline, options_);
    job.segment = &segment;
    job.timeline = &timeline;
    job.driver_model = driver_model_ ? &*driver_model_ : nullptr;
    job.folder = folder_of(i);
    job.route_start = index.empty() ? 0 : static_cast<double>(index.front().timestamp_eof) * 1e-9 - since;
    job.first_eof = static_cast<uint64_t>(since * 1e9);
    SegmentResult unfinished = nothing_of(i, "it was not finished");
    unfinished.left_out = false;
    job.unfinished = text_of(unfinished);
    const int64_t start = now_ns(), frames_before = frames_;
    job.progress = [&](int64_t done) { tell(segment, frames_before + done, start, done); };
    SegmentResult result = run_segment(job, state_);
    result.name = segment_folder(route_, segment);
    result.run = run_;
    result.log = route_.log(segment).string();
    write_result(result, job.folder);
    frames_ += std::ssize(result.frames);
    driven_before_ = i;
    keep(std::move(result));
  }

  void keep(SegmentResult result) {
    if (!options_.keep_frames) result.frames = std::vector<FrameResult>();
    result_.segments.push_back(std::move(result));
  }

  static std::string text_of(const SegmentResult& result) {
    return to_json(result).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

  static void write_result(const SegmentResult& result, const fs::path& folder) {
    AtomicFile file(folder / kResultFile);
    file.write(text_of(result));
    file.commit();
  }

  void tell(const Segment& segment, int64_t frame, int64_t start, int64_t done) {
    if (!options_.progress) return;
    const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
    DriveProgress progress{segment_folder(route_, segment), frame};
    const int64_t each = options_.limit > 0 ? options_.limit : 1200;
    progress.frames = std::max(frame, each * todo_);
    progress.frames_per_second = static_cast<double>(done) / std::max(seconds, 1e-6);
    progress.seconds_left = static_cast<double>(progress.frames - frame) / std::max(progress.frames_per_second, 1e-6);
    options_.progress(progress);
  }

  const Route& route_;
  const DriveOptions& options_;
  std::string run_;
  Shares shares_;
  std::vector<size_t> mine_;
  std::map<size_t, SegmentResult> done_;
  int64_t todo_ = 0, frames_ = 0;
  std::optional<DrivingModel> model_;
  std::optional<DriverModel> driver_model_;
  DriveState state_;
  std::optional<size_t> driven_before_;
  DriveResult result_;
};

}  // namespace

std::string segment_folder(const Route& route, const Segment& segment) {
  std::string log = route.name.substr(route.name.rfind('|') + 1);
  for (char& c : log) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  return fmt::format("{}--{}", log.empty() ? "route" : log, segment.number);
}

std::vector<KernelDecision> choose_kernels(const Route& route, const DriveOptions& options) {
  if (!has_models(options.models)) return {};
  SessionOptions session = options.session;
  session.threads = shares_of(route, options).infer;
  std::vector<KernelDecision> out = DrivingModel(options.models, session).choices();
  const bool driver = std::any_of(route.segments.begin(), route.segments.end(),
                                  [](const Segment& s) { return !s.driver_video.empty(); });
  if (options.models.driver_monitoring.empty() || !driver) return out;
  const auto more = DriverModel(options.models.driver_monitoring, session).network().session().choices();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

DriveResult drive_route(const Route& route, const DriveOptions& options) { return Driver(route, options).go(); }

}  // namespace sparkpilot::drive
