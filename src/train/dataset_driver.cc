// Data sets of the driver camera's frames, for driver monitoring.
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/parallel.h"
#include "drive/segment_cameras.h"
#include "drive/warm_up.h"
#include "train/dataset_build.h"
#include "train/dataset_folder.h"

namespace sparkpilot::train {
namespace {

class DriverBuilder {
 public:
  DriverBuilder(DatasetFolder& folder, const drive::Route& route) : folder_(folder), route_(route) {}

  void build(size_t i) {
    const WantedClip clip = folder_.clip_of(route_, i);
    if (!folder_.wants(clip)) return;
    try {
      run(i, clip);
    } catch (const drive::CannotDrive& error) {
      folder_.writer().abandon();
      folder_.result().cannot_drive.push_back(fmt::format("{}: {}", clip.name, error.what()));
    }
  }

 private:
  drive::Timeline timeline_of(size_t i) const {
    return drive::segment_timeline(route_, route_.segments[i], {.models = false}, folder_.options().note);
  }

  // What held when the segment began.
  std::optional<drive::Vector3> calibration_before(size_t i) const {
    for (; i > 0 && drive::follows(route_, i); --i) {
      const drive::Timeline before = timeline_of(i - 1);
      if (!before.calibration.empty()) return std::prev(before.calibration.end())->second;
    }
    return {};
  }

  void run(size_t i, const WantedClip& clip) {
    const drive::Segment& segment = route_.segments[i];
    if (segment.driver_video.empty()) throw drive::CannotDrive(ErrorKind::user, "no video of the driver camera");
    const drive::Timeline timeline = timeline_of(i);
    const drive::DeviceCameras cameras = drive::cameras_of(timeline, segment.driver_video);
    if (cameras.driver.width == 0) {
      throw drive::CannotDrive(ErrorKind::user, "the log's device has no driver camera");
    }
    const BuildOptions& options = folder_.options();
    drive::StreamOptions stream;
    stream.driver = true;
    stream.sampling = options.sampling;
    stream.calibration = calibration_before(i);
    stream.decode_threads =
        drive::share_threads(options.threads > 0 ? options.threads : available_processors(), false, false).decode;
    std::optional<drive::CameraStream> frames;
    try {
      frames.emplace(segment.driver_video, cameras.driver, timeline.driver, timeline, stream,
                     timeline.road.empty() ? 0 : timeline.road.front().timestamp_eof);
    } catch (const Error& error) {  // no video
      throw drive::CannotDrive(ErrorKind::user, error.what());
    }
    folder_.writer().reset();
    folder_.begin(clip);
    int64_t done = 0;
    while (std::optional<drive::PreparedFrame> frame = frames->next()) {
      if (folder_.stopped()) return folder_.writer().abandon();
      if (options.limit > 0 && done == options.limit) break;
      see(*frame);
      frames->recycle(std::move(*frame));
      folder_.tell(clip, ++done);
    }
    folder_.commit();
    if (const std::string damage = frames->counts().damage; !damage.empty()) folder_.note(damage);
  }

  // A frame that is no sample is nothing to later ones, so the model need not run on it.
  void see(const drive::PreparedFrame& frame) {
    Step step;
    step.frame_id = frame.mark.frame_id;
    step.time = static_cast<int64_t>(frame.mark.timestamp_eof);
    step.roll = static_cast<float>(frame.rpy[0]);
    step.pitch = static_cast<float>(frame.rpy[1]);
    step.yaw = static_cast<float>(frame.rpy[2]);
    const bool due = folder_.writer().is_due(step.frame_id);
    const std::string why = due ? refuse_calibration(frame) : "";
    if (!due || !why.empty()) return folder_.writer().add(std::move(step), nullptr, why);
    step.pictures = std::make_shared<std::vector<uint8_t>>(frame.driver);
    drive::DriverModel& model = folder_.driver_model();
    model.step(frame.driver, frame.rpy);
    Targets targets;
    targets.teacher.emplace_back(model.raw().begin(), model.raw().end());
    folder_.writer().add(std::move(step), &targets);
  }

  DatasetFolder& folder_;
  const drive::Route& route_;
};

}  // namespace

BuildResult build_driver_dataset(std::span<const drive::Route> routes, const BuildOptions& options) {
  const bool nearest = options.sampling == drive::Sampling::nearest;
  DatasetFolder folder(options, Source::routes, nearest ? "recorded, nearest" : "recorded, bilinear");
  folder.plan(routes);
  for (const drive::Route& route : routes) {
    DriverBuilder builder(folder, route);
    for (size_t i = 0; i < route.segments.size() && !folder.stopped(); ++i) builder.build(i);
  }
  return folder.finish();
}

}  // namespace sparkpilot::train
