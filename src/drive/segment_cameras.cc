#include "drive/segment_cameras.h"

#include <algorithm>

#include "base/error.h"
#include "route/video/reader.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kSyncNs = 25'000'000;    // frames of two cameras at most this far apart belong together
constexpr uint64_t kStaleNs = 100'000'000;  // how old a wide camera's picture may be: one or two frames are missing

bool from_qcamera(const Segment& segment, const DriveOptions& options) {
  return options.qcamera || segment.road_video.empty();
}

}  // namespace

DeviceCameras cameras_of(const Timeline& log, const fs::path& video, std::optional<double> focal_length) {
  std::optional<DeviceCameras> device;
  if (!log.device_type.empty() || !log.sensor.empty()) {
    device = device_cameras(log.device_type.empty() ? "unknown" : log.device_type,
                            log.sensor.empty() ? "unknown" : log.sensor);
  }
  if (!device) {
    const VideoReader pictures(video);
    const int width = pictures.width(), height = pictures.height();
    device = device_cameras(width, height);
    if (!device && focal_length) device = DeviceCameras{{width, height, 1}, {}, {}};
    if (!device) {
      fail(
          "{}: pictures of {}x{} from a device \"{}\" with sensor \"{}\": no camera of openpilot's devices; "
          "give it with --focal-length",
          video.string(), width, height, log.device_type, log.sensor);
    }
  }
  if (focal_length) device->road.focal_length = *focal_length;
  return *device;
}

const std::vector<IndexedFrame>& road_index(const Segment& segment, const Timeline& log, const DriveOptions& options) {
  return from_qcamera(segment, options) && !log.qroad.empty() ? log.qroad : log.road;
}

SegmentCameras::SegmentCameras(const SegmentJob& job, const std::optional<Vector3>& calibration) : job_(job) {
  const Segment& segment = *job.segment;
  from_qcamera_ = from_qcamera(segment, options());
  road_file_ = from_qcamera_ ? segment.qcamera : segment.road_video;
  if (road_file_.empty()) fail("{}: no video of the road camera", segment.folder.string());
  if (from_qcamera_ && !options().qcamera) say("no fcamera.hevc: driven from qcamera.ts");
  cameras_ = cameras_of(*job.timeline, road_file_, options().focal_length);
  const StreamOptions stream = stream_options(calibration);
  if (!recorded_only() && options().wide && !segment.wide_video.empty() && !from_qcamera_) open_wide(stream);
  open_road(stream);
  const bool driver_model = std::any_of(job.lanes.begin(), job.lanes.end(),
                                        [](const SegmentLane& lane) { return lane.driver_model != nullptr; });
  if (driver_model && written() && !segment.driver_video.empty()) open_driver(stream);
}

const std::vector<IndexedFrame>& SegmentCameras::index() const {
  return road_index(*job_.segment, *job_.timeline, options());
}

uint64_t SegmentCameras::first_eof() const { return job_.timeline->first_moment.value_or(job_.first_eof); }

int64_t SegmentCameras::expected() const {
  const int64_t all = index().empty() ? kSegmentFrames : std::ssize(index());
  return options().limit > 0 ? std::min(all, options().limit) : all;
}

StreamOptions SegmentCameras::stream_options(const std::optional<Vector3>& calibration) const {
  StreamOptions stream;
  stream.decode_threads = job_.shares.decode;
  stream.first = job_.first;
  stream.first_id = job_.segment->first_frame_id();
  stream.calibration = calibration;
  if (!recorded_only()) {
    stream.sampling = options().sampling.value_or(job_.lanes[0].model->contract().sampling);
  }
  return stream;
}

void SegmentCameras::open_road(StreamOptions stream) {
  // Without a wide camera openpilot feeds the road camera to both inputs; this also covers a wide camera that starts
  // later.
  stream.road = stream.wide = !recorded_only();
  stream.picture = dumping();
  if (options().overlay && written()) stream.canvas_width = options().overlay_width;
  road_.emplace(road_file_, cameras_.road, index(), *job_.timeline, stream, first_eof());
  road_camera_ = cameras_.road.scaled(road_->width(), road_->height());
}

const std::vector<IndexedFrame>& SegmentCameras::moments(std::string_view camera,
                                                         const std::vector<IndexedFrame>& own) {
  if (!own.empty() || index().empty()) return own;
  say("no encode index of the {} camera in the log: its frames are taken for the road camera's of the same number",
      camera);
  return index();
}

void SegmentCameras::open_wide(StreamOptions stream) {
  if (cameras_.wide.width == 0)
    return say("the log's device has no wide camera, {} is left out", job_.segment->wide_video.string());
  stream.wide = true;
  stream.picture = dumping();
  try {
    wide_.emplace(job_.segment->wide_video, cameras_.wide, moments("wide", job_.timeline->wide), *job_.timeline, stream,
                  first_eof());
    wide_next_ = wide_->next();
  } catch (const Error& error) {
    say("{}; the road camera replaces the wide one", error.what());
    wide_.reset();
  }
}

void SegmentCameras::open_driver(StreamOptions stream) {
  if (cameras_.driver.width == 0)
    return say("the log's device has no driver camera, {} is left out", job_.segment->driver_video.string());
  stream.driver = true;
  try {
    driver_.emplace(job_.segment->driver_video, cameras_.driver, moments("driver", job_.timeline->driver),
                    *job_.timeline, stream, first_eof());
    driver_next_ = driver_->next();
  } catch (const Error& error) {
    say("{}; the driver is not monitored", error.what());
    driver_.reset();
  }
}

std::optional<PreparedFrame> SegmentCameras::next() { return road_->next(); }

const PreparedFrame* SegmentCameras::wide_at(const IndexedFrame& road) {
  if (!wide_) return nullptr;
  while (wide_next_ && wide_next_->mark.timestamp_sof <= road.timestamp_sof + kSyncNs) {
    if (wide_current_) wide_->recycle(std::move(*wide_current_));
    wide_current_ = std::move(wide_next_);
    wide_next_ = wide_->next();
  }
  const auto younger = [&](uint64_t ns) {
    return wide_current_ && wide_current_->mark.timestamp_sof + ns >= road.timestamp_sof;
  };
  if (!younger(kSyncNs)) ++wide_missing_;
  if (younger(kStaleNs)) return &*wide_current_;
  ++wide_replaced_;
  return nullptr;
}

std::optional<PreparedFrame> SegmentCameras::driver_until(const IndexedFrame& road) {
  if (!driver_next_ || driver_next_->mark.timestamp_sof > road.timestamp_sof + kSyncNs) return {};
  std::optional<PreparedFrame> frame = std::move(driver_next_);
  driver_next_ = driver_->next();
  return frame;
}

void SegmentCameras::finish(SegmentResult& result) {
  if (wide_missing_ > 0) {
    say("{} frames without a wide camera frame of the same moment; for {} of them the road camera replaced it",
        wide_missing_, wide_replaced_);
  }
  const Segment& segment = *job_.segment;
  const Timeline& log = *job_.timeline;
  add_camera({"road", road_file_, index(), *road_, false}, result.stages.decode_road_ms, result);
  if (wide_) {
    add_camera({"wide", segment.wide_video, log.wide, *wide_, wide_next_.has_value()}, result.stages.decode_wide_ms,
               result);
  }
  double driver_ms = 0;
  if (driver_)
    add_camera({"driver", segment.driver_video, log.driver, *driver_, driver_next_.has_value()}, driver_ms, result);
  if (index().empty()) {
    say("no encode index in the log: frames are numbered from {}, 50 ms apart{}", segment.first_frame_id(),
        log.first_moment ? ", from the log's first carState or roadCameraState on" : "");
  }
  result.notes.insert(result.notes.end(), notes_.begin(), notes_.end());
}

void SegmentCameras::add_camera(const Driven& camera, double& ms, SegmentResult& result) {
  const StreamCounts counts = camera.stream.counts();
  const std::string file = camera.file.filename().string();
  const int64_t indexed = std::ssize(camera.own);
  result.cameras.push_back({camera.name, file, camera.stream.width(), camera.stream.height(), indexed, counts.frames,
                            counts.undecodable, counts.unknown_to_index});
  ms = counts.frames ? counts.busy_ms / static_cast<double>(counts.frames) : 0;
  if (!counts.damage.empty()) say("{}", counts.damage);
  if (counts.undecodable > 0) say("{}: {} frames could not be decoded", file, counts.undecodable);
  if (counts.errors > 0) say("{}: the decoder found {} errors: pictures may be damaged", file, counts.errors);
  if (counts.unknown_to_index > 0) {
    say("{}: {} frames that the log's index does not know were left out", file, counts.unknown_to_index);
  }
  const int64_t short_of = indexed - counts.frames - job_.first;
  if (result.complete && counts.ended && !camera.left && options().limit == 0 && indexed > 0 && short_of > 0) {
    say("{}: {} frames fewer than the log's index names{}", file, short_of,
        counts.by_time > 0 ? fmt::format("; {} are placed by their times", counts.by_time)
                           : ", taken for the last ones");
  }
}

}  // namespace sparkpilot::drive
