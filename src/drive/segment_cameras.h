// The cameras of one segment: which videos are driven, their frames decoded and prepared, those of one moment together.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "drive/camera_stream.h"
#include "drive/segment_run.h"

namespace sparkpilot::drive {

// The cameras of the device, by what the log says of it, else by the size of the video's pictures. `focal_length`: of
// the road camera, instead of what is known. Fails (user) if neither tells.
DeviceCameras cameras_of(const Timeline& log, const std::filesystem::path& video,
                         std::optional<double> focal_length = {});

// One thread at a time. The job must outlive it.
class SegmentCameras {
 public:
  // Opens the road camera, and the wide and the driver camera if the job has use for them; those that cannot be opened
  // are noted. `calibration`: the one before the log's first. Fails (user) if the road camera cannot be driven.
  SegmentCameras(const SegmentJob& job, const std::optional<Vector3>& calibration);

  // The road camera's next frame; empty at the end.
  std::optional<PreparedFrame> next();
  // The wide camera's frame of the same moment as a frame of the road, else the last one of the 100 ms before it; null
  // if there is none, or no wide camera: the road camera's picture replaces it. Valid until the next call.
  const PreparedFrame* wide_at(const IndexedFrame& road);
  // The driver camera's next frame up to the moment of a frame of the road; recycle() it. Empty if absent.
  std::optional<PreparedFrame> driver_until(const IndexedFrame& road);
  void recycle_driver(PreparedFrame frame) { driver_->recycle(std::move(frame)); }

  CameraStream& road() { return *road_; }
  const Camera& road_camera() const { return road_camera_; }  // at the size of its pictures
  bool monitors_driver() const { return driver_.has_value(); }
  // The frames that are to come, as far as it is known.
  int64_t expected() const;

  // Ends the threads; adds cameras, times of decoding and notes to the result.
  void finish(SegmentResult& result);

 private:
  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    notes_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  const DriveOptions& options() const { return *job_.lanes[0].options; }
  bool recorded_only() const { return job_.lanes[0].model == nullptr; }
  bool written() const { return !job_.lanes[0].folder.empty(); }
  bool dumping() const { return !options().dump.empty() && written(); }
  const std::vector<IndexedFrame>& index() const;
  uint64_t first_eof() const;  // of a camera whose encode index is not known
  StreamOptions stream_options(const std::optional<Vector3>& calibration) const;
  // A camera's own encode index, or, if the log has none, the road camera's, which is noted.
  const std::vector<IndexedFrame>& moments(std::string_view camera, const std::vector<IndexedFrame>& own);
  void open_road(StreamOptions stream);
  void open_wide(StreamOptions stream);
  void open_driver(StreamOptions stream);
  struct Driven {
    const char* name;
    const std::filesystem::path& file;
    const std::vector<IndexedFrame>& own;  // the camera's encode index
    CameraStream& stream;
    bool left;  // frames that nobody asked for
  };
  void add_camera(const Driven& camera, double& ms, SegmentResult& result);

  const SegmentJob& job_;
  std::vector<std::string> notes_;
  bool from_qcamera_ = false;
  std::filesystem::path road_file_;
  DeviceCameras cameras_;
  Camera road_camera_;
  std::optional<CameraStream> road_, wide_, driver_;
  std::optional<PreparedFrame> wide_current_, wide_next_, driver_next_;
  int64_t wide_missing_ = 0, wide_replaced_ = 0;
};

}  // namespace sparkpilot::drive
