#include "drive/warm_up.h"

#include <fmt/core.h>

#include <cmath>

#include "route/log/driven_path.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace {

// Frames to drive: 5 s of features and desires, 10 s of samples for the confidence ("looks"), and a few for the filters
// of the action; more if a look was lost.
constexpr int64_t kDriven = 230;
// The share of lost frames is filtered over 10 s: frames older than this weigh less than a billionth.
constexpr int64_t kCounted = 4800;

// comma2k19 without its log: the frames' times and speeds are stored with the poses.
void take_global_pose(const Segment& segment, Timeline& timeline) {
  const std::filesystem::path& folder = segment.global_pose;
  const Tensor times = convert(load_npy(folder / "frame_times"), DType::f64);
  const std::span<const double> seconds = times.data<double>();
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!(seconds[i] > 0 && seconds[i] < 1e9)) continue;
    const auto time = static_cast<uint64_t>(std::llround(seconds[i] * 1e9));
    const auto index = static_cast<uint32_t>(i);
    timeline.road.push_back({segment.first_frame_id() + index, index, time, time});
  }
  const DrivenPath path = DrivenPath::from_global_pose(folder);
  for (const IndexedFrame& frame : timeline.road) {
    const std::optional<DrivenPath::Motion> motion = path.motion(frame.timestamp_eof);
    if (motion) timeline.car.add(frame.timestamp_eof, {.v_ego = static_cast<float>(motion->speed)});
  }
}

// An earlier segment: how many of its frames a run drives, and from which one on the state needs them.
struct Before {
  const Segment* segment = nullptr;
  Timeline timeline;
  int64_t frames = 0, driven_from = 0;
};

int64_t frames_of(const Segment& segment, const Timeline& timeline, const DriveOptions& options) {
  const auto& index = road_index(segment, timeline, options);
  return index.empty() ? kSegmentFrames : std::ssize(index);
}

// The nearest first.
std::vector<Before> segments_before(const Route& route, size_t at, const DriveOptions& options) {
  std::vector<Before> out;
  for (int64_t frames = 0; frames < kCounted && follows(route, at); --at) {
    const Segment& segment = route.segments[at - 1];
    if (segment.road_video.empty() && segment.qcamera.empty()) break;
    Timeline timeline;
    try {
      timeline = segment_timeline(route, segment, {.models = false});
    } catch (const CannotDrive& error) {
      if (options.note) options.note(fmt::format("{}: cannot be used to prepare the segments after it", error.what()));
      break;
    }
    const int64_t here = frames_of(segment, timeline, options);
    out.push_back({&segment, std::move(timeline), here});
    frames += here;
  }
  return out;
}

// `before`: the nearest first. Chooses the frame from which each segment is driven; frames before it are only counted.
void choose_driven(std::vector<Before>& before, const DriveOptions& options) {
  int64_t frames = 0, looks = 0;
  for (Before& b : before) {
    const auto& index = road_index(*b.segment, b.timeline, options);
    const bool known = !index.empty();  // if not, the end of the video is unknown: drive it from its beginning
    b.driven_from = b.frames;
    while (b.driven_from > 0 && (frames < kDriven || looks < ModelPublisher::kLooks)) {
      const auto at = static_cast<size_t>(--b.driven_from);
      ++frames;
      // The frame after a lost one has no message.
      const bool look = !known || (index[at].frame_id % ModelPublisher::kFramesALook == 0 && at > 0 &&
                                   index[at - 1].frame_id + 1 == index[at].frame_id);
      looks += look;
    }
    if (!known && b.driven_from < b.frames) b.driven_from = 0;
  }
}

void reset(const SegmentJob& job, DriveState& state) {
  state = {};
  for (const SegmentLane& lane : job.lanes) {
    lane.model->reset();
    lane.publisher->reset();
  }
}

}  // namespace

Timeline segment_timeline(const Route& route, const Segment& segment, const TimelineOptions& options,
                          const std::function<void(const std::string&)>& note) {
  const std::filesystem::path& log = route.log(segment);
  try {
    Timeline timeline;
    if (!log.empty()) timeline = read_timeline(log, options);
    else if (!segment.global_pose.empty()) take_global_pose(segment, timeline);
    if (timeline.calibration.empty() && !segment.global_pose.empty()) {
      if (const auto rpy = calibration_of_global_pose(segment.global_pose)) timeline.calibration.add(0, *rpy);
    }
    if (note && log.empty()) {
      note(fmt::format("{}: no log: {}{}no recorded model", segment.folder.string(),
                       timeline.road.empty() ? "no times, no speed, " : "",
                       timeline.calibration.empty() ? "no calibration, " : ""));
    }
    return timeline;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    throw CannotDrive(ErrorKind::user, error.what());
  }
}

bool follows(const Route& route, size_t at) {
  return at > 0 && route.segments[at - 1].number + 1 == route.segments[at].number;
}

void warm_up(const Route& route, size_t at, const SegmentJob& job, DriveState& state) {
  reset(job, state);
  const DriveOptions& options = *job.lanes[0].options;
  std::vector<Before> before = segments_before(route, at, options);
  choose_driven(before, options);
  for (; !before.empty(); before.pop_back()) {
    const Before& b = before.back();
    const auto& index = road_index(*b.segment, b.timeline, options);
    const int64_t counted = index.empty() ? 0 : b.driven_from;
    for (int64_t i = 0; i < counted; ++i) state.lost_before(index[static_cast<size_t>(i)].frame_id);
    if (b.driven_from == b.frames) {
      if (!b.timeline.calibration.empty()) state.calibration = std::prev(b.timeline.calibration.end())->second;
      continue;
    }
    DriveOptions quiet = options;
    quiet.limit = 0;
    quiet.realtime = false;
    SegmentJob part = job;
    part.segment = b.segment;
    part.timeline = &b.timeline;
    for (SegmentLane& lane : part.lanes) lane.options = &quiet;
    part.first = index.empty() ? 0 : int64_t{index[static_cast<size_t>(counted)].index};
    try {
      run_segment(part, state);
    } catch (const CannotDrive& error) {
      if (quiet.note) quiet.note(fmt::format("{}: cannot be used to prepare the segments after it", error.what()));
      reset(job, state);
    }
  }
}

}  // namespace sparkpilot::drive
