#include "drive/segment_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "drive/camera_stream.h"
#include "drive/segment_output.h"
#include "route/contract/temporal.h"
#include "route/log/driven_path.h"
#include "route/log/plan_error.h"
#include "route/video/reader.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr double kFrameMs = 50;
constexpr int64_t kSegmentFrames = 1200;  // one minute
constexpr double kSmoothSeconds = 0.3, kFrameSeconds = 0.05;
constexpr double kSteerExtra = 0.2;       // openpilot's allowance if no delay was learned
constexpr uint64_t kSyncNs = 25'000'000;  // frames of two cameras at most this far apart belong together
constexpr double kDropFilter = kFrameSeconds / (10 + kFrameSeconds);

// From the device type in the log, if known; else from the size of the pictures.
DeviceCameras cameras_of(const SegmentJob& job, const fs::path& video) {
  const Timeline& log = *job.timeline;
  std::optional<DeviceCameras> device;
  if (!log.device_type.empty() || !log.sensor.empty()) {
    device = device_cameras(log.device_type.empty() ? "unknown" : log.device_type,
                            log.sensor.empty() ? "unknown" : log.sensor);
  }
  if (!device) {
    const VideoReader pictures(video);
    const int width = pictures.width(), height = pictures.height();
    device = device_cameras(width, height);
    if (!device && job.options->focal_length) device = DeviceCameras{{width, height, 1}, {}, {}};
    if (!device) {
      fail(
          "{}: pictures of {}x{} from a device \"{}\" with sensor \"{}\": no camera of openpilot's devices; "
          "give it with --focal-length",
          video.string(), width, height, log.device_type, log.sensor);
    }
  }
  if (job.options->focal_length) device->road.focal_length = *job.options->focal_length;
  return *device;
}

bool from_qcamera(const Segment& segment, const DriveOptions& options) {
  return options.qcamera || segment.road_video.empty();
}

// Pairs the wide camera's frames with the road camera's.
class WideFrames {
 public:
  explicit WideFrames(CameraStream* stream) : stream_(stream) { advance(); }

  // The frame of the same moment, else the last one before it; null if there is none yet.
  const PreparedFrame* at(const IndexedFrame& road) {
    while (next_ && next_->mark.timestamp_sof <= road.timestamp_sof + kSyncNs) {
      if (current_) stream_->recycle(std::move(*current_));
      current_ = std::move(next_);
      advance();
    }
    const bool same = current_ && current_->mark.timestamp_sof + kSyncNs >= road.timestamp_sof;
    if (!same) ++missing_;
    return current_ ? &*current_ : nullptr;
  }
  int64_t missing() const { return missing_; }

 private:
  void advance() { next_ = stream_->next(); }

  CameraStream* stream_;
  std::optional<PreparedFrame> current_, next_;
  int64_t missing_ = 0;
};

class Run {
 public:
  Run(const SegmentJob& job, DriveState& state) : job_(job), state_(state) {
    result_.number = job.segment->number;
    result_.recorded_models = std::ssize(job.timeline->models);
    choose_road();
    if (job.model != nullptr && job.options->wide && !job.segment->wide_video.empty() && !from_qcamera_) open_wide();
    open_road();
    if (job.driver_model != nullptr && !job.folder.empty() && !job.segment->driver_video.empty()) open_driver();
  }

  SegmentResult go() {
    const int64_t start = now_ns();
    const ThreadScope threads(job_.shares.infer);
    SegmentOutput output(job_, road_camera_, frames_expected(), *road_, state_.publisher);
    std::optional<WideFrames> wide;
    if (wide_) wide.emplace(&*wide_);
    while (!stopped()) {
      std::optional<PreparedFrame> frame = road_->next();
      if (!frame) {
        result_.complete = true;
        break;
      }
      const PreparedFrame* beside = wide ? wide->at(frame->mark) : nullptr;
      output.put(step(std::move(*frame), beside));
      ++done_;
      if (job_.progress) job_.progress(done_);
      if (job_.options->limit > 0 && done_ >= job_.options->limit) {
        result_.complete = true;
        break;
      }
    }
    output.finish(result_);
    fit_to_drive(output.records());
    if (!job_.timeline->calibration.empty()) state_.calibration = std::prev(job_.timeline->calibration.end())->second;
    if (wide && wide->missing() > 0) say("{} frames without a wide camera frame of the same moment", wide->missing());
    tell(start);
    return std::move(result_);
  }

 private:
  const std::vector<IndexedFrame>& index() const { return road_index(*job_.segment, *job_.timeline, *job_.options); }

  int64_t frames_expected() const {
    const int64_t all = index().empty() ? kSegmentFrames : std::ssize(index());
    return job_.options->limit > 0 ? std::min(all, job_.options->limit) : all;
  }

  bool stopped() const { return job_.options->stop != nullptr && job_.options->stop->load(); }

  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    result_.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void choose_road() {
    const Segment& segment = *job_.segment;
    from_qcamera_ = from_qcamera(segment, *job_.options);
    road_file_ = from_qcamera_ ? segment.qcamera : segment.road_video;
    if (road_file_.empty()) fail("{}: no video of the road camera", segment.folder.string());
    if (from_qcamera_ && !job_.options->qcamera) say("no fcamera.hevc: driven from qcamera.ts");
    cameras_ = cameras_of(job_, road_file_);
  }

  StreamOptions stream_options() const {
    StreamOptions options;
    options.decode_threads = job_.shares.decode;
    options.first = job_.first;
    options.calibration = state_.calibration;
    if (job_.model != nullptr) options.sampling = job_.options->sampling.value_or(job_.model->contract().sampling);
    return options;
  }

  void open_road() {
    StreamOptions options = stream_options();
    // Without a wide camera openpilot feeds the road camera to both inputs; this also covers a wide camera that starts
    // later.
    options.road = options.wide = job_.model != nullptr;
    options.picture = dumping();
    if (job_.options->overlay && !job_.folder.empty()) options.canvas_width = job_.options->overlay_width;
    road_.emplace(road_file_, cameras_.road, index(), *job_.timeline, options, job_.first_eof);
    road_camera_ = cameras_.road.scaled(road_->width(), road_->height());
  }

  void open_wide() {
    if (cameras_.wide.width == 0)
      return say("the log's device has no wide camera, {} is left out", job_.segment->wide_video.string());
    StreamOptions options = stream_options();
    options.wide = true;
    options.picture = dumping();
    try {
      wide_.emplace(job_.segment->wide_video, cameras_.wide, job_.timeline->wide, *job_.timeline, options,
                    job_.first_eof);
    } catch (const Error& error) {
      say("{}; the road camera replaces the wide one", error.what());
    }
  }

  void open_driver() {
    if (cameras_.driver.width == 0)
      return say("the log's device has no driver camera, {} is left out", job_.segment->driver_video.string());
    StreamOptions options = stream_options();
    options.driver = true;
    try {
      driver_.emplace(job_.segment->driver_video, cameras_.driver, job_.timeline->driver, *job_.timeline, options,
                      job_.first_eof);
      next_driver_ = driver_->next();
    } catch (const Error& error) {
      say("{}; the driver is not monitored", error.what());
      driver_.reset();
    }
  }

  // Runs the driver camera's frames up to the moment of a road frame.
  void monitor_driver(const IndexedFrame& road, OutputFrame& out) {
    while (next_driver_ && next_driver_->mark.timestamp_sof <= road.timestamp_sof + kSyncNs) {
      DriverModel& model = *job_.driver_model;
      model.step(next_driver_->driver, next_driver_->rpy);
      out.driver.push_back({next_driver_->mark, model.outputs(), model.milliseconds(), {}});
      if (job_.options->raw) out.driver.back().raw.assign(model.raw().begin(), model.raw().end());
      driver_->recycle(std::move(*next_driver_));
      next_driver_ = driver_->next();
    }
  }

  OutputFrame step(PreparedFrame frame, const PreparedFrame* wide) {
    OutputFrame out;
    const IndexedFrame mark = frame.mark;
    const int64_t lost = state_.lost_before(mark.frame_id);
    result_.dropped += lost;
    out.frame_id_extra = wide ? wide->mark.frame_id : mark.frame_id;
    out.valid = frame.calibrated && lost == 0;
    out.frame_drop_percent = 100 * state_.dropped / (1 + state_.dropped);
    const double due = wait_until_due(mark);
    if (job_.model != nullptr) infer(frame, wide, lost, out);
    if (driver_) monitor_driver(mark, out);
    if (job_.options->realtime) out.late_ms = std::max(0.0, wall_ms() - due - kFrameMs);
    out.frame = std::move(frame);
    return out;
  }

  void infer(const PreparedFrame& frame, const PreparedFrame* wide, int64_t lost, OutputFrame& out) {
    const int64_t start = now_ns();
    FrameInputs inputs = inputs_at(frame.mark.timestamp_eof);
    inputs.road = frame.road;
    inputs.wide = wide ? std::span<const uint8_t>(wide->wide) : frame.wide;
    inputs.prepare_only = lost > 0 && job_.model->contract().era != 'D';
    if (job_.model->step(inputs)) {
      out.outputs = std::make_unique<ModelOutputs>(job_.model->outputs());
      out.action = job_.model->action();
      out.times = job_.model->times();
      if (job_.options->raw) out.raw.assign(job_.model->raw().begin(), job_.model->raw().end());
      if (dumping()) dump(frame, wide);
    }
    infer_ns_ += now_ns() - start;
  }

  FrameInputs inputs_at(uint64_t time) const {
    const Timeline& log = *job_.timeline;
    FrameInputs inputs;
    if (const CarSample* car = log.car.at(time)) inputs.v_ego = std::max(0.0F, car->v_ego);
    if (const LaneChangeSample* change = log.lane_change.at(time)) {
      inputs.desire = desire_of_lane_change(change->state, change->direction);
    }
    if (const bool* right = log.right_hand_drive.at(time)) inputs.right_hand_drive = *right;
    inputs.steer_delay = log.steer_actuator_delay.value_or(0) + kSteerExtra;
    const float* learned = log.lateral_delay.at(time);
    const double lateral = learned ? *learned : inputs.steer_delay;
    const char era = job_.model->contract().era;
    if (era == 'B') inputs.steer_delay = lateral;
    // Time from the frame until the model has answered; mid-2026 adds half the time until its next answer.
    const double late = era == 'D' ? 1.5 * kFrameSeconds : kFrameSeconds;
    inputs.action_times.lateral = lateral + late;
    inputs.action_times.longitudinal = log.longitudinal_actuator_delay.value_or(0) + kSmoothSeconds + late;
    return inputs;
  }

  bool dumping() const { return !job_.options->dump.empty() && !job_.folder.empty(); }

  // Dumps all inputs of this frame and the networks' outputs, so that other programs can check them.
  void dump(const PreparedFrame& frame, const PreparedFrame* wide) {
    const fs::path folder = job_.options->dump / job_.folder.filename() / fmt::format("{:05}", frame.mark.index);
    make_folders(folder);
    for (const auto& [network, name, value] : job_.model->inputs())
      save_npy(folder / fmt::format("{}.{}.npy", network, name), value);
    const std::span<const float> raw = job_.model->raw();
    save_npy(folder / "raw.npy", {DType::f32, Shape{std::ssize(raw)}, raw.data()});
    dump_picture(folder / "road.npy", frame.picture);
    if (wide) dump_picture(folder / "wide.npy", wide->picture);
  }

  // Y, U and V stacked: (height * 3 / 2, width).
  static void dump_picture(const fs::path& file, const YuvImage& picture) {
    save_npy(file, {DType::u8, Shape{picture.height() * 3 / 2, picture.width()}, picture.bytes().data()});
  }

  static double wall_ms() { return static_cast<double>(now_ns()) * 1e-6; }

  // With --realtime, waits until the camera would deliver the frame; returns that time.
  double wait_until_due(const IndexedFrame& mark) {
    if (!job_.options->realtime) return 0;
    if (!first_eof_) {
      first_eof_ = mark.timestamp_eof;
      started_ms_ = wall_ms();
    }
    const double due = started_ms_ + static_cast<double>(mark.timestamp_eof - *first_eof_) * 1e-6;
    const double ahead = due - wall_ms();
    if (ahead > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ahead));
    return due;
  }

  void fit_to_drive(const std::vector<ModelRecord>& ours) {
    if (job_.folder.empty()) return;
    const Timeline& log = *job_.timeline;
    std::optional<DrivenPath> path = DrivenPath::from(log);
    if (!path && !job_.segment->global_pose.empty()) {
      std::vector<uint64_t> times;
      for (const IndexedFrame& frame : log.road) times.push_back(frame.timestamp_eof);
      try {
        path = DrivenPath::from_global_pose(job_.segment->global_pose, times, state_.calibration);
      } catch (const Error& error) {
        say("{}", error.what());
      }
    }
    if (path) result_.driven_path = path->source();
    add_plan_errors(result_.frames, ours, log.models, log, path);
  }

  void tell(int64_t start) {
    const Timeline& log = *job_.timeline;
    add_camera("road", road_file_, *road_, result_.stages.decode_road_ms);
    if (wide_) add_camera("wide", job_.segment->wide_video, *wide_, result_.stages.decode_wide_ms);
    double driver_ms = 0;
    if (driver_) add_camera("driver", job_.segment->driver_video, *driver_, driver_ms);
    if (!log.damage.empty()) say("{}", log.damage);
    if (log.unreadable > 0) say("{} events of the log could not be read", log.unreadable);
    if (log.bad_calibrations > 0) say("{} calibrations of the log are not three finite numbers", log.bad_calibrations);
    if (log.calibration.empty() && !state_.calibration) say("no calibration in the log: zero angles were used");
    if (index().empty()) say("no encode index in the log: frames are numbered from 0, 50 ms apart");
    result_.stages.infer_ms = done_ ? static_cast<double>(infer_ns_) * 1e-6 / static_cast<double>(done_) : 0;
    result_.seconds = static_cast<double>(now_ns() - start) * 1e-9;
  }

  void add_camera(const std::string& name, const fs::path& file, CameraStream& stream, double& ms) {
    const StreamCounts counts = stream.counts();
    result_.cameras.push_back({name, file.filename().string(), stream.width(), stream.height(), counts.indexed,
                               counts.frames, counts.undecodable, counts.unknown_to_index});
    ms = counts.frames ? counts.busy_ms / static_cast<double>(counts.frames) : 0;
    if (!counts.damage.empty()) say("{}", counts.damage);
    if (counts.undecodable > 0) say("{}: {} frames could not be decoded", file.filename().string(), counts.undecodable);
    if (counts.unknown_to_index > 0) {
      say("{}: {} frames that the log's index does not know were left out", file.filename().string(),
          counts.unknown_to_index);
    }
    const int64_t short_of = counts.indexed - counts.frames - job_.first;
    if (result_.complete && job_.options->limit == 0 && counts.indexed > 0 && short_of > 0) {
      say("{}: {} frames fewer than the log's index names", file.filename().string(), short_of);
    }
  }

  const SegmentJob& job_;
  DriveState& state_;
  SegmentResult result_;
  bool from_qcamera_ = false;
  fs::path road_file_;
  DeviceCameras cameras_;
  Camera road_camera_;
  std::optional<CameraStream> road_, wide_, driver_;
  std::optional<PreparedFrame> next_driver_;
  int64_t done_ = 0, infer_ns_ = 0;
  std::optional<uint64_t> first_eof_;
  double started_ms_ = 0;
};

}  // namespace

const std::vector<IndexedFrame>& road_index(const Segment& segment, const Timeline& log, const DriveOptions& options) {
  return from_qcamera(segment, options) && !log.qroad.empty() ? log.qroad : log.road;
}

int64_t DriveState::lost_before(uint32_t frame_id) {
  const int64_t lost = last_frame_id && frame_id > *last_frame_id ? int64_t{frame_id} - *last_frame_id - 1 : 0;
  last_frame_id = frame_id;
  dropped += kDropFilter * (static_cast<double>(std::min<int64_t>(lost, 10)) - dropped);
  if (frames++ < 10) dropped = 0;
  return lost;
}

Shares share_threads(int threads, bool wide, bool overlay) {
  Shares shares;
  shares.decode = threads >= 12 ? 2 : 1;
  shares.encode = threads >= 8 ? 2 : 1;
  const int beside = shares.decode * (wide ? 2 : 1) + (overlay ? shares.encode : 0);
  shares.infer = std::max(1, threads - beside);
  return shares;
}

SegmentResult run_segment(const SegmentJob& job, DriveState& state) {
  std::optional<Run> run;
  try {
    run.emplace(job, state);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    throw CannotDrive(ErrorKind::user, error.what());
  }
  return run->go();
}

}  // namespace sparkpilot::drive
