#include "train/dataset_build.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "drive/segment_run.h"
#include "drive/warm_up.h"
#include "route/synth/log.h"
#include "train/dataset_folder.h"
#include "train/dataset_labels.h"

namespace sparkpilot::train {
namespace {

template <typename T>
void append(drive::Samples<T>& to, const drive::Samples<T>& from) {
  for (const auto& [time, value] : from) to.add(time, value);
  to.sort();
}

void take_inputs(const drive::FrameInputs& inputs, Step& step) {
  step.desire = inputs.desire;
  step.right_hand_drive = inputs.right_hand_drive;
  step.speed = static_cast<float>(inputs.v_ego);
  step.steer_delay = static_cast<float>(inputs.steer_delay);
  step.lateral_time = static_cast<float>(inputs.action_times.lateral);
  step.longitudinal_time = static_cast<float>(inputs.action_times.longitudinal);
}

// Whether a teacher need run only on every context_stride-th frame: no sample reads what it would give on the others.
bool runs_on_strides(const DatasetInfo& info) {
  return info.teacher && info.contract.reads_strides() && info.every % info.contract.context_stride == 0;
}

class RouteBuilder {
 public:
  RouteBuilder(DatasetFolder& folder, const drive::Route& route) : folder_(folder), route_(route) {
    options_.wide = folder.options().wide;
    options_.limit = folder.options().limit;
    options_.focal_length = folder.options().focal_length;
    options_.stop = folder.options().stop;
    options_.overlay = false;
    options_.note = folder.options().note;
    const int threads = folder.options().threads;
    shares_ = drive::share_threads(threads > 0 ? threads : available_processors(), options_.wide, false);
  }

  void build(size_t i) {
    clip_ = folder_.clip_of(route_, i);
    if (!folder_.wants(clip_)) return;
    try {
      sparse_ = runs_on_strides(folder_.info());
      drive_segment(i);
      if (!sparse_ || !lost_) return;
      // The model's memory counts frames that it was given, so what a sample reads lies elsewhere behind a lost one.
      sparse_ = false;
      driven_before_.reset();
      drive_segment(i);
    } catch (const drive::CannotDrive& error) {
      folder_.writer().abandon();
      driven_before_.reset();
      folder_.result().cannot_drive.push_back(fmt::format("{}: {}", clip_.name, error.what()));
    }
  }

 private:
  // The memory goes with the model's state.
  void follow_state() {
    if (state_.frames < frames_seen_) {
      folder_.writer().reset();
      last_seen_.reset();
    }
    frames_seen_ = state_.frames;
  }

  drive::Timeline timeline_of(size_t i) const {
    return drive::segment_timeline(route_, route_.segments[i], {.models = false}, options_.note);
  }

  // A plan of this segment's last frames ends in the next one.
  std::optional<drive::DrivenPath> path_of(size_t i, const drive::Timeline& timeline) const {
    drive::Timeline both;
    both.pose = timeline.pose, both.location = timeline.location, both.calibration = timeline.calibration;
    both.pose_of_location = timeline.pose_of_location;
    if (i + 1 < route_.segments.size() && drive::follows(route_, i + 1)) {
      try {
        const drive::Timeline next = timeline_of(i + 1);
        append(both.pose, next.pose);
        append(both.location, next.location);
        append(both.calibration, next.calibration);
      } catch (const drive::CannotDrive&) {  // its own turn will tell
      }
    }
    if (auto path = drive::DrivenPath::from(both)) return path;
    const drive::Segment& segment = route_.segments[i];
    if (segment.global_pose.empty()) return {};
    std::vector<uint64_t> times;
    for (const drive::IndexedFrame& frame : timeline.road) times.push_back(frame.timestamp_eof);
    try {
      return drive::DrivenPath::from_global_pose(segment.global_pose, times, state_.calibration);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user) throw;
      folder_.note(fmt::format("{}; its samples have no driven path", error.what()));
      return {};
    }
  }

  void drive_segment(size_t i) {
    const drive::Timeline timeline = timeline_of(i);
    const std::optional<drive::DrivenPath> path = path_of(i, timeline);
    drive::SegmentJob job;
    job.segment = &route_.segments[i];
    job.timeline = &timeline;
    job.shares = shares_;
    drive::SegmentLane& lane = job.lanes.emplace_back();
    lane.options = &options_;
    lane.model = &folder_.model();
    lane.publisher = &publisher_;
    lane.seen = [&](const drive::PreparedFrame& frame, const drive::FrameInputs& inputs, bool ran) {
      follow_state();
      lost_ |= last_seen_ && frame.mark.frame_id != *last_seen_ + 1;
      last_seen_ = frame.mark.frame_id;
      see(frame, inputs, ran || inputs.unread, timeline, path);
    };
    lane.unread = [&](const drive::PreparedFrame& frame) {
      return sparse_ && frame.mark.frame_id % static_cast<uint32_t>(folder_.info().contract.context_stride) != 0;
    };
    begun_ = lost_ = false;
    if (driven_before_ != i - 1 || !drive::follows(route_, i)) {
      folder_.writer().reset();
      frames_seen_ = 0;
      last_seen_.reset();
      drive::warm_up(route_, i, job, state_);
      follow_state();  // a segment before this one may have been broken off
    }
    if (folder_.stopped()) return;
    driven_before_.reset();
    folder_.begin(clip_);
    begun_ = true;
    job.progress = [&](int64_t done) { folder_.tell(clip_, done); };
    const bool complete = drive::run_segment(job, state_)[0].complete;
    if (!complete || (sparse_ && lost_)) return folder_.writer().abandon();
    folder_.commit();
    driven_before_ = i;
  }

  std::string reason(const drive::PreparedFrame& frame, const drive::FrameInputs& inputs, bool ran,
                     const drive::Timeline& timeline) const {
    if (!ran) return "frames lost before it";
    if (const std::string why = refuse_calibration(frame); !why.empty()) return why;
    if (inputs.v_ego < folder_.options().min_speed) return "slow";
    const drive::CarSample* const car = timeline.car.at(frame.mark.timestamp_eof);
    return car && car->overridden && !folder_.options().keep_overridden ? "overridden" : "";
  }

  void see(const drive::PreparedFrame& frame, const drive::FrameInputs& inputs, bool ran,
           const drive::Timeline& timeline, const std::optional<drive::DrivenPath>& path) {
    const drive::ModelOutputs& outputs = folder_.model().outputs();
    Step step;
    step.frame_id = frame.mark.frame_id;
    step.time = static_cast<int64_t>(frame.mark.timestamp_eof);
    step.ran = ran;
    take_inputs(inputs, step);
    step.pictures = std::make_shared<std::vector<uint8_t>>(inputs.road.begin(), inputs.road.end());
    const auto wide = inputs.wide.empty() ? inputs.road : inputs.wide;
    step.pictures->insert(step.pictures->end(), wide.begin(), wide.end());
    if (ran && !inputs.unread) {
      step.features.assign(outputs.hidden_state.begin(), outputs.hidden_state.end());
      step.curvature = outputs.desired_curvature.value_or(folder_.model().action().curvature);
    }
    const bool due = begun_ && folder_.writer().is_due(step.frame_id);
    const std::string why = due ? reason(frame, inputs, ran, timeline) : "";
    if (!due || !why.empty()) return folder_.writer().add(std::move(step), nullptr, why);
    Targets targets;
    targets.teacher = folder_.outputs();
    if (path) take_driven(*path, frame.mark.timestamp_eof, targets);
    folder_.writer().add(std::move(step), &targets);
  }

  DatasetFolder& folder_;
  const drive::Route& route_;
  drive::DriveOptions options_;
  drive::Shares shares_;
  drive::DriveState state_;
  drive::ModelPublisher publisher_;
  std::optional<size_t> driven_before_;
  WantedClip clip_;
  bool begun_ = false;
  int64_t frames_seen_ = 0;
  bool sparse_ = false;  // the teacher runs on every context_stride-th frame
  bool lost_ = false;    // frames are missing in the segment
  std::optional<uint32_t> last_seen_;
};

// ---------------------------------------------------------------- synthetic roads
// Multiples of the golden ratio are even over any number of seeds, and over those of every kind of road that takes
// turns.
bool has_traffic(uint64_t seed, double share) {
  constexpr double kGolden = 0.6180339887498949;
  const double place = static_cast<double>(seed % (1ULL << 32U)) * kGolden;
  return place - std::floor(place) < share;
}

class SyntheticBuilder {
 public:
  SyntheticBuilder(DatasetFolder& folder, const SyntheticOptions& options, uint64_t route)
      : folder_(folder), after_(options.after), drive_(synth_options(options, route)) {}

  static drive::SynthOptions synth_options(const SyntheticOptions& options, uint64_t route) {
    drive::SynthOptions out;
    out.seed = options.seed + route, out.seconds = options.seconds;
    if (!options.roads.empty()) out.road = options.roads[route % options.roads.size()];
    out.light = options.light, out.wet = options.wet;
    out.keep_left = options.keep_left;
    out.traffic = has_traffic(out.seed, options.traffic);
    return out;
  }

  void build(const WantedClip& clip) {
    const int64_t frames = drive_.frames(), piece = 4 * int64_t{thread_count()};
    folder_.writer().reset();
    folder_.model().reset();
    folder_.begin(clip);
    for (int64_t begin = 0; begin < frames; begin += piece) {
      if (folder_.stopped()) return folder_.writer().abandon();
      draw(begin, std::min(frames, begin + piece));
      for (Drawn& one : drawn_) step(one);
      folder_.tell(clip, begin);
    }
    folder_.commit();
  }

 private:
  struct Drawn {
    int64_t frame = 0;
    drive::synth::FrameTruth truth;
    std::shared_ptr<std::vector<uint8_t>> pictures;
  };

  // Whether the teacher runs: of a frame whose features or pictures no sample reads, it need not.
  bool teacher_runs(int64_t frame) const {
    const DatasetInfo& info = folder_.info();
    return info.teacher && (!runs_on_strides(info) || frame % info.contract.context_stride == 0);
  }

  bool needs_pictures(int64_t frame) const {
    const int64_t partner_of = frame + folder_.info().contract.frame_gap;
    return teacher_runs(frame) || folder_.writer().is_due(frame) ||
           (partner_of < drive_.frames() && folder_.writer().is_due(partner_of));
  }

  // Frames next to one another on a thread each: what a frame begins with cannot be divided.
  void draw(int64_t begin, int64_t end) {
    drawn_.assign(static_cast<size_t>(end - begin), {});
    parallel_for(end - begin, 1, [&](int64_t first, int64_t last) {
      drive::YuvImage scratch;
      for (int64_t i = first; i < last; ++i) {
        Drawn& one = drawn_[static_cast<size_t>(i)];
        one.frame = begin + i;
        one.truth = truth_of(one.frame);
        if (!needs_pictures(one.frame)) continue;
        one.pictures = std::make_shared<std::vector<uint8_t>>(size_t{kCameras} * drive::kFrameBytes);
        for (const bool big : {false, true}) {
          drive_.draw_model_frame(one.frame, big, scratch,
                                  std::span(*one.pictures).subspan(big ? drive::kFrameBytes : 0, drive::kFrameBytes));
        }
      }
    });
  }

  // What a log of this car says; its vehicle's delays are those of every synthetic log.
  drive::FrameInputs inputs_of(const drive::synth::FrameTruth& truth, uint64_t time) const {
    drive::Timeline log;
    const drive::synth::Vehicle vehicle;
    log.steer_actuator_delay = vehicle.steer_delay;
    log.longitudinal_actuator_delay = vehicle.accelerator_delay;
    log.car.add(time, {.v_ego = static_cast<float>(truth.pose.speed)});
    log.lane_change.add(time, {static_cast<int>(truth.change), truth.change_direction == 0  ? 0
                                                               : truth.change_direction < 0 ? 1
                                                                                            : 2});
    log.right_hand_drive.add(time, drive_.world().options().keep_left);
    return drive::frame_inputs(log, time, folder_.info().contract.era);
  }

  drive::synth::FrameTruth truth_of(int64_t frame) const {
    const drive::FrameInputs typical = inputs_of({}, 0);
    return drive::synth::frame_truth(drive_.world(), static_cast<double>(frame) / drive::synth::kFramesPerSecond,
                                     typical.action_times.lateral, typical.action_times.longitudinal);
  }

  void step(Drawn& one) {
    const uint64_t time = drive::synth::kFirstMonoTime + static_cast<uint64_t>(one.frame) * 50'000'000;
    drive::FrameInputs inputs = inputs_of(one.truth, time);
    Step step;
    step.frame_id = one.frame;
    step.time = static_cast<int64_t>(time);
    take_inputs(inputs, step);
    step.pictures = one.pictures;
    step.curvature = static_cast<float>(one.truth.desired_curvature);
    inputs.unread = !teacher_runs(one.frame);
    if (!inputs.unread) {
      inputs.road = std::span(*one.pictures).first(drive::kFrameBytes);
      inputs.wide = std::span(*one.pictures).subspan(drive::kFrameBytes);
    }
    if (folder_.info().teacher && folder_.model().step(inputs)) {
      const drive::ModelOutputs& outputs = folder_.model().outputs();
      step.features.assign(outputs.hidden_state.begin(), outputs.hidden_state.end());
      step.curvature = outputs.desired_curvature.value_or(folder_.model().action().curvature);
    }
    if (!folder_.writer().is_due(one.frame)) return folder_.writer().add(std::move(step), nullptr);
    if (inputs.v_ego < folder_.options().min_speed) return folder_.writer().add(std::move(step), nullptr, "slow");
    if (static_cast<double>(one.frame) < after_ * drive::synth::kFramesPerSecond) {
      return folder_.writer().add(std::move(step), nullptr, "at the beginning");
    }
    Targets targets;
    if (folder_.info().teacher) targets.teacher = folder_.outputs();
    for (const DatasetNetwork& network : folder_.info().networks)
      targets.labels.push_back(label_output(network, one.truth));
    take_driven(one.truth, targets);
    folder_.writer().add(std::move(step), &targets);
  }

  DatasetFolder& folder_;
  double after_;
  drive::SynthDrive drive_;
  std::vector<Drawn> drawn_;
};

template <typename T>
std::string or_any(const std::optional<T>& choice) {
  return choice ? std::to_string(static_cast<int>(*choice)) : "any";
}

}  // namespace

BuildResult build_dataset(std::span<const drive::Route> routes, const BuildOptions& options) {
  if (!options.teacher) fail("recorded routes have no labels of their own: a teacher must run on them");
  std::string contents = "recorded";
  if (!options.wide) contents += ", no wide camera";
  if (options.keep_overridden) contents += ", overridden too";
  if (options.focal_length) contents += fmt::format(", focal length {}", *options.focal_length);
  DatasetFolder folder(options, Source::routes, contents);
  folder.plan(routes);
  for (const drive::Route& route : routes) {
    RouteBuilder builder(folder, route);
    for (size_t i = 0; i < route.segments.size() && !folder.stopped(); ++i) builder.build(i);
  }
  return folder.finish();
}

BuildResult build_synthetic_dataset(const SyntheticOptions& synthetic, const BuildOptions& options) {
  constexpr int64_t kMostRoutes = 1'000'000;
  if (synthetic.routes < 1 || synthetic.routes > kMostRoutes) {
    fail("{} synthetic routes: expected 1 to {}", synthetic.routes, kMostRoutes);
  }
  if (!(synthetic.seconds > 0 && synthetic.seconds <= 3600)) {
    fail("synthetic routes of {} seconds: expected above 0, to 3600", synthetic.seconds);
  }
  if (!(synthetic.after >= 0 && synthetic.after < synthetic.seconds)) {
    fail("samples after {} seconds of synthetic routes of {}: expected 0 or more, and less than these", synthetic.after,
         synthetic.seconds);
  }
  if (!(synthetic.traffic >= 0 && synthetic.traffic <= 1)) {
    fail("traffic on a share of {} of the synthetic routes: expected 0 to 1", synthetic.traffic);
  }
  const ThreadScope threads(options.threads);
  std::string kinds;  // by their numbers
  for (const drive::synth::RoadKind kind : synthetic.roads) {
    kinds += fmt::format("{}{}", kinds.empty() ? "" : " ", static_cast<int>(kind));
  }
  const std::string traffic = synthetic.traffic == 1   ? ""
                              : synthetic.traffic == 0 ? ", no traffic"
                                                       : fmt::format(", traffic {}", synthetic.traffic);
  DatasetFolder folder(
      options, Source::synthetic,
      fmt::format("synthetic, {} s, road {}, light {}, wet {}{}{}", synthetic.seconds, kinds.empty() ? "any" : kinds,
                  or_any(synthetic.light), or_any(synthetic.wet), synthetic.keep_left ? ", keep left" : "", traffic) +
          (synthetic.after > 0 ? fmt::format(", after {} s", synthetic.after) : ""));
  std::vector<WantedClip> clips;
  for (int64_t i = 0; i < synthetic.routes; ++i) {
    const uint64_t seed = synthetic.seed + static_cast<uint64_t>(i);
    const std::string name = fmt::format("synthetic-{:08}", seed);
    clips.push_back({name + "--0", name, std::llround(synthetic.seconds * drive::synth::kFramesPerSecond)});
  }
  folder.plan(clips);
  for (size_t i = 0; i < clips.size() && !folder.stopped(); ++i) {
    if (!folder.wants(clips[i])) continue;
    SyntheticBuilder(folder, synthetic, i).build(clips[i]);
  }
  return folder.finish();
}

}  // namespace sparkpilot::train
