#include "train/dataset_folder.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "passes/precision.h"

namespace sparkpilot::train {
namespace fs = std::filesystem;
namespace {

SessionOptions session_of(const BuildOptions& options) {
  SessionOptions session = options.session;
  if (session.threads == 0) session.threads = options.threads > 0 ? options.threads : available_processors();
  if (!options.teacher) session.tune = Tune::off;  // the networks only say what they take and give
  return session;
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6); }

// openpilot's own limits of a calibration that it accepts, radians (selfdrive/locationd/calibrationd.py).
constexpr double kLowestPitch = -0.0907, kHighestPitch = 0.17, kLargestYaw = 0.0691;

bool plausible(const drive::Vector3& rpy) {
  return rpy[1] >= kLowestPitch && rpy[1] <= kHighestPitch && std::fabs(rpy[2]) <= kLargestYaw;
}

// Those that this command does not name, too.
int64_t bytes_of_clips(const fs::path& folder) {
  constexpr std::string_view kEnd = ".rows.safetensors";
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kEnd)) continue;
    for (const fs::path& file : {entry.path(), frames_file(folder, name.substr(0, name.size() - kEnd.size()))}) {
      std::error_code absent;
      if (const uintmax_t size = fs::file_size(file, absent); !absent) bytes += static_cast<int64_t>(size);
    }
  }
  return bytes;
}

void refuse_other_contents(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".")) continue;
    fail("{}: holds other files ({}) and no {}; name another folder", folder.string(), name, kDatasetFile);
  }
}

}  // namespace

std::string refuse_calibration(const drive::PreparedFrame& frame) {
  if (!frame.calibrated) return "no calibration";
  return plausible(frame.rpy) ? "" : "calibration out of range";
}

DatasetFolder::DatasetFolder(const BuildOptions& options, Source source, const std::string& contents)
    : options_(options),
      lock_(options.out),
      model_(options.driver() ? nullptr : std::make_unique<drive::DrivingModel>(options.models, session_of(options))),
      driver_model_(options.driver()
                        ? std::make_unique<drive::DriverModel>(options.models.driver_monitoring, session_of(options))
                        : nullptr),
      info_(model_ ? describe_model(*model_) : describe_model(*driver_model_)),
      writer_(info_) {
  if (options.every < 1) fail("every {} frames: expected 1 or more", options.every);
  if (!(options.validation >= 0 && options.validation < 1)) {
    fail("a share of {} of the routes for validation: expected 0 or more, below 1", options.validation);
  }
  info_.source = source;
  info_.teacher = options.teacher;
  if (!options.teacher) {  // any weights give this data
    for (DatasetNetwork& network : info_.networks) network.hash.clear();
  }
  info_.every = options.every;
  info_.options = contents;
  if (!options.driver()) info_.options += fmt::format(", samples from {} m/s", options.min_speed);
  if (options.limit > 0) info_.options += fmt::format(", first {} frames", options.limit);
  if (options.teacher)
    info_.options += fmt::format(", precision {}", sparkpilot::name(options.session.passes.precision));
  if (!fs::exists(options.out / kDatasetFile)) {
    refuse_other_contents(options.out);
    return;
  }
  const DatasetInfo before = load_dataset_info(options.out);
  if (before.id() != info_.id()) {
    const bool teacher = before.networks != info_.networks;
    const auto told = [](const DatasetInfo& of) {
      return fmt::format("{}, every {}, {} a teacher", of.options, count_of(of.every, "frame"),
                         of.teacher ? "with" : "without");
    };
    fail("{}: holds a data set of {} ({}), this one is {}; name another folder", options.out.string(),
         teacher ? "another model" : "other options",
         teacher ? before.networks[0].file + " " + before.networks[0].hash : told(before),
         teacher ? info_.networks[0].file + " " + info_.networks[0].hash : told(info_));
  }
  info_.routes = before.routes;
  bytes_ = bytes_of_clips(options.out);
}

// An upper bound: filters leave frames out.
int64_t DatasetFolder::estimate(int64_t frames) const {
  constexpr int64_t kRow = 11 * 8, kHeader = 4096;
  const int64_t samples = (frames + info_.every - 1) / info_.every, gap = info_.contract.frame_gap;
  // Partners of samples are samples themselves where the gap is a multiple of what lies between them.
  const int64_t pictures = gap % info_.every == 0 ? samples + gap / info_.every : std::min(frames + gap, 2 * samples);
  const bool driver = info_.of_driver();
  int64_t width = driver ? 0 : kPlanValues + drive::kPoints;
  for (const DatasetNetwork& network : info_.networks)
    width += network.width * (info_.teacher + (info_.source == Source::synthetic));
  const int64_t rows = frames + (info_.source == Source::routes && !driver ? kMemory : 0);
  return pictures * info_.cameras() * info_.picture().elements() + samples * width * 4 +
         rows * (kRow + (info_.teacher && !driver ? 4 * drive::kFeatures : 0)) + kHeader;
}

void DatasetFolder::plan(const std::vector<WantedClip>& clips) {
  for (const WantedClip& clip : clips) {
    if (info_.route(clip.route)) continue;
    const double before = std::floor(static_cast<double>(info_.routes.size()) * options_.validation + 1e-9);
    const double after = std::floor(static_cast<double>(info_.routes.size() + 1) * options_.validation + 1e-9);
    info_.routes.push_back({clip.route, after > before});
  }
  int64_t expected = 0, missing = 0, smallest = INT64_MAX;
  for (const WantedClip& clip : clips) {
    if (fs::exists(rows_file(options_.out, clip.name))) continue;
    const int64_t bytes = estimate(clip.frames);
    expected += bytes;
    smallest = std::min(smallest, bytes);
    all_frames_ += clip.frames;
    ++missing;
  }
  all_clips_ = std::ssize(clips);
  if (options_.max_bytes > 0 && missing > 0 && missing == all_clips_ && smallest > options_.max_bytes) {
    fail("--max-bytes {}: no clip fits, the smallest is planned with {} bytes", options_.max_bytes, smallest);
  }
  const auto space = fs::space(options_.out);
  const auto free = static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
  note(fmt::format("{}: at most {} more in {}, {} of the disk are free{}", options_.out.string(), megabytes(expected),
                   count_of(std::ssize(clips), "clip"), megabytes(free),
                   options_.max_bytes > 0 ? fmt::format("; limited to {}", megabytes(options_.max_bytes)) : ""));
  if (options_.max_bytes > 0) expected = std::min(expected, std::max<int64_t>(0, options_.max_bytes - bytes_));
  if (expected > free) {
    fail("{}: {} are needed, {} of the disk are free; fewer routes, a larger --every or --max-bytes help",
         options_.out.string(), megabytes(expected), megabytes(free));
  }
  const bool validates =
      std::any_of(info_.routes.begin(), info_.routes.end(), [](const auto& r) { return r.validation; });
  if (!validates && options_.validation > 0) {
    const auto routes = std::ssize(info_.routes);
    note(fmt::format("{} {} too few to take {:.0f} % for validation: none is{}", count_of(routes, "route"),
                     routes == 1 ? "is" : "are", 100 * options_.validation,
                     routes == 1 ? ""
                                 : fmt::format(" (--validation {} takes the last one)",
                                               std::ceil(1e4 / static_cast<double>(routes)) / 1e4)));
  }
  save_dataset_info(options_.out, info_);
  started_ = now_ns();
}

WantedClip DatasetFolder::clip_of(const drive::Route& route, size_t segment) const {
  return {drive::segment_folder(route, route.segments[segment]), route.name,
          options_.limit > 0 ? std::min(options_.limit, drive::kSegmentFrames) : drive::kSegmentFrames};
}

void DatasetFolder::plan(std::span<const drive::Route> routes) {
  std::vector<WantedClip> clips;
  for (const drive::Route& route : routes) {
    for (size_t i = 0; i < route.segments.size(); ++i) clips.push_back(clip_of(route, i));
  }
  plan(clips);
}

bool DatasetFolder::wants(const WantedClip& clip) {
  if (fs::exists(rows_file(options_.out, clip.name))) {
    const ClipReader reader(options_.out, clip.name, info_);
    if (reader.route() != clip.route) {
      fail("{}: is of route {}, the clip of that name of route {} cannot be added",
           rows_file(options_.out, clip.name).string(), reader.route(), clip.route);
    }
    ++result_.kept;
    result_.counts.bytes += reader.bytes();
    return false;
  }
  if (options_.max_bytes > 0 && bytes_ + estimate(clip.frames) > options_.max_bytes) {
    ++result_.not_begun;
    return false;
  }
  return true;
}

void DatasetFolder::commit() {
  const ClipCounts counts = writer_.commit();
  ClipCounts& all = result_.counts;
  all.frames += counts.frames, all.samples += counts.samples;
  all.pictures += counts.pictures, all.bytes += counts.bytes;
  for (const auto& [why, count] : counts.left_out) all.left_out[why] += count;
  frames_ += counts.frames, bytes_ += counts.bytes;
  ++result_.made;
}

void DatasetFolder::tell(const WantedClip& clip, int64_t frames) {
  if (!options_.progress) return;
  const double seconds = static_cast<double>(now_ns() - started_) * 1e-9;
  const auto done = static_cast<double>(frames_ + frames);
  options_.progress({clip.name, result_.made + result_.kept, all_clips_,
                     std::min(1.0, done / static_cast<double>(std::max<int64_t>(all_frames_, 1))),
                     done / std::max(seconds, 1e-6), result_.counts.bytes});
}

std::vector<std::vector<float>> DatasetFolder::outputs() const {
  std::vector<std::vector<float>> out;
  size_t at = 0;
  for (const DatasetNetwork& network : info_.networks) {
    const auto part = model_->raw().subspan(at, static_cast<size_t>(network.width));
    out.emplace_back(part.begin(), part.end());
    at += part.size();
  }
  return out;
}

BuildResult DatasetFolder::finish() {
  if (result_.not_begun > 0) {
    note(fmt::format("{} not made: --max-bytes is reached", count_of(result_.not_begun, "clip")));
  }
  result_.stopped = stopped();
  result_.seconds = static_cast<double>(now_ns() - started_) * 1e-9;
  result_.info = info_;
  if (result_.made + result_.kept + result_.not_begun == 0 && !result_.stopped && !result_.cannot_drive.empty()) {
    fail("{}", result_.cannot_drive[0]);
  }
  return std::move(result_);
}

}  // namespace sparkpilot::train
