#include "drive/segment_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "drive/segment_cameras.h"
#include "drive/segment_output.h"
#include "route/contract/temporal.h"
#include "route/log/driven_path.h"
#include "route/log/plan_error.h"
#include "route/log/segments.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr double kFrameMs = 50;
constexpr double kSmoothSeconds = 0.3, kFrameSeconds = 0.05;
constexpr double kSteerExtra = 0.2;  // openpilot's allowance if no delay was learned
constexpr double kDropFilter = kFrameSeconds / (10 + kFrameSeconds);

// Y, U and V stacked: (height * 3 / 2, width).
void dump_picture(const fs::path& file, const YuvImage& picture) {
  save_npy(file, {DType::u8, Shape{picture.height() * 3 / 2, picture.width()}, picture.bytes().data()});
}

// Dumps all inputs of a frame and the networks' outputs, so that other programs can check them.
void dump(const SegmentLane& lane, const PreparedFrame& frame, const PreparedFrame* wide) {
  const fs::path folder = lane.options->dump / lane.folder.filename() / fmt::format("{:05}", frame.mark.index);
  make_folders(folder);
  for (const auto& [network, name, value] : lane.model->inputs())
    save_npy(folder / fmt::format("{}.{}.npy", network, name), value);
  const std::span<const float> raw = lane.model->raw();
  save_npy(folder / "raw.npy", {DType::f32, Shape{std::ssize(raw)}, raw.data()});
  dump_picture(folder / "road.npy", frame.picture);
  if (wide) dump_picture(folder / "wide.npy", wide->picture);
}

// What a frame gives every lane.
struct Moment {
  const PreparedFrame& frame;
  const PreparedFrame* wide;
  int64_t lost;
};

// A lane at work.
struct Lane {
  Lane(const SegmentJob& j, const SegmentLane& l, SegmentCameras& cameras)
      : job(j), lane(l), output(j, l, cameras.road_camera(), cameras.expected(), cameras.road()) {}

  void infer(const Moment& now, OutputFrame& out) {
    const int64_t start = now_ns();
    const char era = lane.model->contract().era;
    FrameInputs inputs = frame_inputs(*job.timeline, now.frame.mark.timestamp_eof, era);
    inputs.road = now.frame.road;
    inputs.wide = now.wide ? std::span<const uint8_t>(now.wide->wide) : now.frame.wide;
    inputs.prepare_only = now.lost > 0 && era != 'D';
    inputs.unread = lane.unread && lane.unread(now.frame);
    const bool ran = lane.model->step(inputs);
    if (ran) {
      out.outputs = std::make_unique<ModelOutputs>(lane.model->outputs());
      out.action = lane.model->action();
      out.times = lane.model->times();
      out.first = !lane.model->has_earlier_picture();
      out.finite = std::ranges::all_of(out.outputs->plan.mean, [](float value) { return std::isfinite(value); });
      out.valid = out.valid && out.finite;
      plans += 1, wrong_plans += out.finite ? 0 : 1;
      if (lane.options->raw) out.raw.assign(lane.model->raw().begin(), lane.model->raw().end());
      if (!lane.folder.empty() && !lane.options->dump.empty()) dump(lane, now.frame, now.wide);
      if (lane.options->stepped) lane.options->stepped(*lane.model);
    }
    if (lane.seen) lane.seen(now.frame, inputs, ran);
    infer_ns += now_ns() - start;
  }

  void monitor(const PreparedFrame& driver, OutputFrame& out) const {
    if (lane.driver_model == nullptr) return;
    DriverModel& model = *lane.driver_model;
    model.step(driver.driver, driver.rpy);
    out.driver.push_back({driver.mark, model.outputs(), model.milliseconds(), {}});
    if (lane.options->raw) out.driver.back().raw.assign(model.raw().begin(), model.raw().end());
  }

  const SegmentJob& job;
  const SegmentLane& lane;
  SegmentOutput output;
  int64_t infer_ns = 0, plans = 0, wrong_plans = 0;
};

class SegmentRun {
 public:
  SegmentRun(const SegmentJob& job, DriveState& state)
      : job_(job), options_(*job.lanes[0].options), state_(state), cameras_(job, state.calibration) {}

  std::vector<SegmentResult> go() {
    const int64_t start = now_ns();
    const ThreadScope threads(job_.shares.infer);
    std::deque<Lane> lanes;
    for (const SegmentLane& lane : job_.lanes) lanes.emplace_back(job_, lane, cameras_);
    while (!stopped()) {
      std::optional<PreparedFrame> frame = cameras_.next();
      if (!frame) {
        complete_ = true;
        break;
      }
      step(lanes, std::move(*frame));
      ++done_;
      if (job_.progress) job_.progress(done_);
      if (options_.limit > 0 && done_ >= options_.limit) {
        complete_ = true;
        break;
      }
    }
    std::vector<SegmentResult> results;
    for (Lane& lane : lanes) {
      SegmentResult& result = results.emplace_back(begun());
      lane.output.finish(result);
      fit_to_drive(result, lane.output.records());
      if (lane.wrong_plans > 0) {
        result.notes.push_back(fmt::format(
            "the plan is not finite in {} of {}: these are not valid, nor judged where its path or heading is not",
            lane.wrong_plans, count_of(lane.plans, "frame")));
      }
      result.stages.infer_ms = done_ ? static_cast<double>(lane.infer_ns) * 1e-6 / static_cast<double>(done_) : 0;
    }
    tell(results, start);
    return results;
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  SegmentResult begun() const {
    SegmentResult result;
    result.number = job_.segment->number;
    result.recorded_models = std::ssize(job_.timeline->models);
    result.complete = complete_;
    result.dropped = dropped_;
    return result;
  }

  void step(std::deque<Lane>& lanes, PreparedFrame frame) {
    const IndexedFrame mark = frame.mark;
    const PreparedFrame* wide = cameras_.wide_at(mark);
    const int64_t lost = state_.lost_before(mark.frame_id);
    dropped_ += lost;
    std::vector<OutputFrame> outs(lanes.size());
    for (OutputFrame& out : outs) {
      out.frame_id_extra = wide ? wide->mark.frame_id : mark.frame_id;
      out.valid = frame.calibrated && lost == 0;
      out.frame_drop_percent = 100 * state_.dropped / (1 + state_.dropped);
    }
    const double due = wait_until_due(mark);
    // Every other frame in reverse, so that none always runs with what the one before it left in the caches.
    for (size_t i = 0; i < lanes.size() && lanes[0].lane.model != nullptr; ++i) {
      const size_t l = done_ % 2 == 0 ? i : lanes.size() - 1 - i;
      lanes[l].infer({frame, wide, lost}, outs[l]);
    }
    while (std::optional<PreparedFrame> driver = cameras_.driver_until(mark)) {
      for (size_t l = 0; l < lanes.size(); ++l) lanes[l].monitor(*driver, outs[l]);
      cameras_.recycle_driver(std::move(*driver));
    }
    const double late_ms = options_.realtime ? std::max(0.0, wall_ms() - due - kFrameMs) : 0;
    for (size_t l = 1; l < lanes.size(); ++l) {
      outs[l].frame.mark = mark;
      outs[l].frame.calibrated = frame.calibrated;
      outs[l].frame.rpy = frame.rpy;
    }
    outs[0].frame = std::move(frame);  // with the pictures
    for (size_t l = 0; l < lanes.size(); ++l) {
      outs[l].late_ms = late_ms;
      lanes[l].output.put(std::move(outs[l]));
    }
  }

  static double wall_ms() { return static_cast<double>(now_ns()) * 1e-6; }

  // With --realtime, waits until the camera would deliver the frame; returns that time.
  double wait_until_due(const IndexedFrame& mark) {
    if (!options_.realtime) return 0;
    if (!first_eof_) {
      first_eof_ = mark.timestamp_eof;
      started_ms_ = wall_ms();
    }
    const double due = started_ms_ + static_cast<double>(mark.timestamp_eof - *first_eof_) * 1e-6;
    const double ahead = due - wall_ms();
    if (ahead > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ahead));
    return due;
  }

  void fit_to_drive(SegmentResult& result, const std::vector<ModelRecord>& ours) const {
    if (job_.lanes[0].folder.empty()) return;
    const Timeline& log = *job_.timeline;
    std::optional<DrivenPath> path = DrivenPath::from(log);
    if (!path && !job_.segment->global_pose.empty()) {
      std::vector<uint64_t> times;
      for (const IndexedFrame& frame : log.road) times.push_back(frame.timestamp_eof);
      try {
        path = DrivenPath::from_global_pose(job_.segment->global_pose, times, state_.calibration);
      } catch (const Error& error) {
        result.notes.emplace_back(error.what());
      }
    }
    if (path) result.driven_path = path->source();
    add_plan_errors(result.frames, ours, log.models, log, path);
  }

  // What all lanes share: cameras, notes, times.
  void tell(std::vector<SegmentResult>& results, int64_t start) {
    const Timeline& log = *job_.timeline;
    if (!log.calibration.empty()) state_.calibration = std::prev(log.calibration.end())->second;
    SegmentResult shared;
    shared.complete = complete_;
    cameras_.finish(shared);
    const auto say = [&](const std::string& text) { shared.notes.push_back(text); };
    if (!log.damage.empty()) say(log.damage);
    if (log.unreadable > 0) say(fmt::format("{} events of the log could not be read", log.unreadable));
    if (log.bad_calibrations > 0)
      say(fmt::format("{} calibrations of the log are not three finite numbers", log.bad_calibrations));
    const std::string name = job_.segment->folder.filename().string();
    const bool numbered = segment_number(name) || split_segment_name(name);
    if (numbered && log.segment.value_or(0) > 0 && *log.segment != job_.segment->number) {
      say(fmt::format("by its log it is segment {}", *log.segment));
    }
    if (log.calibration.empty() && !state_.calibration) say("no calibration in the log: zero angles were used");
    for (SegmentResult& result : results) {
      result.cameras = shared.cameras;
      result.stages.decode_road_ms = shared.stages.decode_road_ms;
      result.stages.decode_wide_ms = shared.stages.decode_wide_ms;
      result.notes.insert(result.notes.end(), shared.notes.begin(), shared.notes.end());
      result.seconds = static_cast<double>(now_ns() - start) * 1e-9;
    }
  }

  const SegmentJob& job_;
  const DriveOptions& options_;
  DriveState& state_;
  SegmentCameras cameras_;
  bool complete_ = false;
  int64_t done_ = 0, dropped_ = 0;
  std::optional<uint64_t> first_eof_;
  double started_ms_ = 0;
};

}  // namespace

FrameInputs frame_inputs(const Timeline& log, uint64_t time, char era) {
  FrameInputs inputs;
  if (const CarSample* car = log.car.at(time)) inputs.v_ego = std::max(0.0F, car->v_ego);
  if (const LaneChangeSample* change = log.lane_change.at(time)) {
    inputs.desire = desire_of_lane_change(change->state, change->direction);
  }
  if (const bool* right = log.right_hand_drive.at(time)) inputs.right_hand_drive = *right;
  inputs.steer_delay = log.steer_actuator_delay.value_or(0) + kSteerExtra;
  const float* learned = log.lateral_delay.at(time);
  const double lateral = learned ? *learned : inputs.steer_delay;
  if (era == 'B') inputs.steer_delay = lateral;
  // Time from the frame until the model has answered; mid-2026 adds half the time until its next answer.
  const double late = era == 'D' ? 1.5 * kFrameSeconds : kFrameSeconds;
  inputs.action_times.lateral = lateral + late;
  inputs.action_times.longitudinal = log.longitudinal_actuator_delay.value_or(0) + kSmoothSeconds + late;
  return inputs;
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
  const int others = shares.decode * (wide ? 2 : 1) + (overlay ? shares.encode : 0);
  shares.infer = std::max(1, threads - others);
  return shares;
}

std::vector<SegmentResult> run_segment(const SegmentJob& job, DriveState& state) {
  std::optional<SegmentRun> run;
  try {
    run.emplace(job, state);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    throw CannotDrive(ErrorKind::user, error.what());
  }
  return run->go();
}

}  // namespace sparkpilot::drive
