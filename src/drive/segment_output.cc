#include "drive/segment_output.h"

#include <capnp/message.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/file.h"
#include "drive/overlay_frame.h"
#include "drive/queue.h"
#include "route/log/recording.h"
#include "route/log/writer.h"
#include "route/video/jpeg.h"
#include "route/video/writer.h"

namespace sparkpilot::drive {
namespace {

constexpr size_t kDepth = 4;      // frames waiting to be written
constexpr int64_t kPictures = 4;  // key frames per segment
constexpr int kJpegQuality = 5;
constexpr int kQuantizer = 25;  // of the overlay's video: 42 dB compared with the drawn picture
// In a decimated log, a recorded model is shown for the frames after it for this long.
constexpr uint64_t kHoldNs = 2'000'000'000;

template <typename T>
T item(const std::vector<T>& list, size_t i) {
  return i < list.size() ? list[i] : T{};
}

}  // namespace

struct SegmentOutput::Impl {
  Impl(const SegmentJob& j, const SegmentLane& l, const Camera& camera, int64_t frames, CameraStream& stream)
      : job(j), lane(l), road(stream), frames_expected(frames), queue(kDepth) {
    const DriveOptions& options = *lane.options;
    if (!lane.folder.empty()) {
      make_folders(lane.folder);
      mark_unfinished();
      if (lane.model != nullptr) log.emplace(lane.folder / "rlog.zst");
      if (options.overlay) open_overlay(camera);
    }
    thread = std::thread([this] {
      try {
        while (std::optional<OutputFrame> frame = queue.take()) take(std::move(*frame));
      } catch (...) {
        queue.fail(std::current_exception());
      }
    });
  }

  ~Impl() {
    queue.stop();
    if (thread.joinable()) thread.join();
  }

  // Claims the folder and invalidates an earlier run's results in it.
  void mark_unfinished() const {
    AtomicFile file(lane.folder / kResultFile);
    file.write(lane.unfinished);
    file.commit();
  }

  // Removes the files of an earlier run that this one has not written again.
  void remove_older(const std::vector<std::string>& keep) const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(lane.folder, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool picture = name.starts_with("frame_") && name.ends_with(".jpg");
      const bool older = (name == "rlog.zst" && !log) || (name == "overlay.mp4" && !video) ||
                         (picture && std::find(keep.begin(), keep.end(), name) == keep.end());
      if (older) std::filesystem::remove(entry.path(), ignored);
    }
  }

  void open_overlay(const Camera& camera) {
    const int width = road.canvas_width(), height = road.canvas_height();
    OverlayOptions drawing{.width = width, .height = height};
    if (lane.model == nullptr) drawing.ours.clear();
    overlay.emplace(drawing);
    video.emplace(lane.folder / "overlay.mp4", VideoOptions{.width = width,
                                                            .height = height,
                                                            .quality = kQuantizer,
                                                            .constant_quantizer = true,
                                                            .threads = job.shares.encode});
    intrinsics = canvas_intrinsics(camera, width, height);
  }

  void take(OutputFrame in) {
    const int64_t start = now_ns();
    std::optional<ModelRecord> ours;
    if (in.outputs) ours = write_messages(in);
    for (const DriverFrame& frame : in.driver) write_driver(frame);
    const ModelRecord* recorded = recorded_at(in.frame.mark);
    if (!lane.folder.empty()) {
      add_result(in, ours ? &*ours : nullptr, recorded);
      if (overlay) draw(in, ours ? &*ours : nullptr, recorded);
      if (ours) records.push_back(std::move(*ours));
    }
    if (!in.frame.road.empty() || overlay) road.recycle(std::move(in.frame));
    busy_ns += now_ns() - start;
  }

  ModelRecord write_messages(const OutputFrame& in) {
    const IndexedFrame& mark = in.frame.mark;
    const FrameMark frame{mark.frame_id, in.frame_id_extra, mark.timestamp_eof, in.frame.calibrated && in.finite,
                          in.valid};
    const LaneChangeSample* change = job.timeline->lane_change.at(mark.timestamp_eof);
    MessageExtras extras{.execution_seconds = (in.times.vision_ms + in.times.policy_ms) * 1e-3,
                         .frame_drop_percent = in.frame_drop_percent,
                         .raw = in.raw};
    if (change != nullptr) {
      extras.lane_change_state = change->state;
      extras.lane_change_direction = change->direction;
    }
    capnp::MallocMessageBuilder model, odometry;
    auto event = model.initRoot<cereal::Event>();
    event.setLogMonoTime(mark.timestamp_eof);
    lane.publisher->fill_model(event, *in.outputs, in.action, frame, extras);
    auto second = odometry.initRoot<cereal::Event>();
    second.setLogMonoTime(mark.timestamp_eof);
    fill_odometry(second, *in.outputs, frame);
    if (log) {
      log->write(model);
      log->write(odometry);
    }
    return read_model(event.asReader());
  }

  void write_driver(const DriverFrame& in) {
    ++driver_frames;
    if (!log) return;
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<cereal::Event>();
    event.setLogMonoTime(in.mark.timestamp_eof);
    fill_driver_state(event, in.outputs, in.mark.frame_id, in.ms * 1e-3, in.raw);
    log->write(message);
  }

  // What openpilot recorded for this frame or, in a decimated log, shortly before it.
  const ModelRecord* recorded_at(const IndexedFrame& mark) {
    const std::vector<ModelRecord>& models = job.timeline->models;
    const auto after = std::upper_bound(models.begin(), models.end(), mark.frame_id,
                                        [](uint32_t id, const ModelRecord& model) { return id < model.frame_id; });
    exact = false;
    if (after == models.begin()) return nullptr;
    const ModelRecord& model = *std::prev(after);
    exact = model.frame_id == mark.frame_id;
    if (exact) ++recorded_exact;
    const bool held = mark.timestamp_eof >= model.timestamp_eof && mark.timestamp_eof - model.timestamp_eof <= kHoldNs;
    return exact || held ? &model : nullptr;
  }

  void add_result(const OutputFrame& in, const ModelRecord* ours, const ModelRecord* recorded) {
    FrameResult row;
    row.frame_id = in.frame.mark.frame_id;
    row.index = in.frame.mark.index;
    row.time = static_cast<double>(in.frame.mark.timestamp_eof) * 1e-9;
    row.valid = in.valid;
    row.first = in.first;
    row.late_ms = static_cast<float>(in.late_ms);
    row.vision_ms = static_cast<float>(in.times.vision_ms);
    row.policy_ms = static_cast<float>(in.times.policy_ms);
    if (const CarSample* car = job.timeline->car.at(in.frame.mark.timestamp_eof)) {
      row.v_ego = car->v_ego;
      row.driven_acceleration = car->a_ego;
    }
    const ModelRecord* shown = ours ? ours : exact ? recorded : nullptr;
    row.model = shown != nullptr;
    if (shown != nullptr) {
      for (size_t i = 0; i < 4; ++i) row.lane_probs[i] = item(shown->lane_line_probs, i);
      if (!shown->leads.empty()) {
        row.lead_prob = shown->leads[0].prob;
        row.lead_x = item(shown->leads[0].x, 0);
      }
      row.engaged_prob = shown->engaged_prob;
    }
    if (ours != nullptr && ours->action) {
      row.curvature = ours->action->curvature;
      row.acceleration = ours->action->acceleration;
    }
    if (recorded != nullptr && exact && recorded->action) {
      row.recorded_curvature = recorded->action->curvature;
      row.recorded_acceleration = recorded->action->acceleration;
    }
    rows.push_back(row);
  }

  void draw(OutputFrame& in, const ModelRecord* ours, const ModelRecord* recorded) {
    const IndexedFrame& mark = in.frame.mark;
    YuvImage& canvas = in.frame.canvas;
    OverlayFrame frame = overlay_frame(*job.timeline, in.frame, intrinsics, job.route_start);
    frame.ours = ours;
    frame.recorded = recorded;
    if (recorded != nullptr && !exact) {
      frame.alert = fmt::format("recorded {:.2f} s before",
                                static_cast<double>(mark.timestamp_eof - recorded->timestamp_eof) * 1e-9);
    }
    overlay->draw(frame, canvas);
    video->write(canvas.view());
    if (recorded != nullptr && exact) ++recorded_drawn;
    const int64_t expected = std::max<int64_t>(frames_expected, 1);
    // Only frames with a model of their own, not one held from an earlier frame.
    if ((ours != nullptr || exact) && std::ssize(pictures) < kPictures &&
        video->frames() * kPictures >= expected * std::ssize(pictures) + kPictures) {
      keep_picture(mark.frame_id, canvas.view());
    }
  }

  void keep_picture(uint32_t frame_id, const YuvView& picture) {
    const std::string name = fmt::format("frame_{:06}.jpg", frame_id);
    const std::vector<uint8_t> jpeg = encode_jpeg(picture, kJpegQuality);
    AtomicFile file(lane.folder / name);
    file.write(jpeg.data(), jpeg.size());
    file.commit();
    pictures.push_back(name);
  }

  void finish(SegmentResult& result) {
    queue.close();
    thread.join();
    queue.take();  // rethrows the thread's exception
    if (!lane.folder.empty()) {
      if (rows.empty()) {  // readers refuse an empty log or video
        log.reset();
        video.reset();
      }
      if (log) log->commit();
      if (video) video->commit();
      remove_older(pictures);
    }
    result.frames = std::move(rows);
    result.pictures = std::move(pictures);
    result.driver_frames = driver_frames;
    result.recorded_drawn = overlay ? recorded_drawn : recorded_exact;
    const auto frames = static_cast<double>(std::max<size_t>(result.frames.size(), 1));
    result.stages.write_ms = static_cast<double>(busy_ns) * 1e-6 / frames;
  }

  const SegmentJob& job;
  const SegmentLane& lane;
  CameraStream& road;
  std::optional<LogWriter> log;
  std::optional<Overlay> overlay;
  std::optional<VideoWriter> video;
  Matrix3 intrinsics{};
  std::vector<FrameResult> rows;
  std::vector<ModelRecord> records;
  std::vector<std::string> pictures;
  bool exact = false;  // the recorded model is of exactly this frame
  const int64_t frames_expected;
  int64_t recorded_exact = 0, recorded_drawn = 0, driver_frames = 0, busy_ns = 0;
  BoundedQueue<OutputFrame> queue;
  std::thread thread;
};

SegmentOutput::SegmentOutput(const SegmentJob& job, const SegmentLane& lane, const Camera& camera, int64_t frames,
                             CameraStream& road)
    : impl_(new Impl(job, lane, camera, frames, road)) {}
SegmentOutput::~SegmentOutput() = default;
void SegmentOutput::put(OutputFrame frame) { impl_->queue.put(std::move(frame)); }
void SegmentOutput::finish(SegmentResult& result) { impl_->finish(result); }
const std::vector<ModelRecord>& SegmentOutput::records() const { return impl_->records; }

}  // namespace sparkpilot::drive
