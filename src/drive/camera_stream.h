// One camera of a segment: its video decoded, matched with the log's encode index, and prepared for the model, on a
// separate thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "route/contract/frame.h"
#include "route/log/timeline.h"

namespace sparkpilot::drive {

struct PreparedFrame {
  IndexedFrame mark;
  bool calibrated = false;      // the log had a calibration by this time
  Vector3 rpy{};                // the calibration used
  std::vector<uint8_t> road;    // kFrameBytes for the narrow input, if requested
  std::vector<uint8_t> wide;    // kFrameBytes for the wide input, if requested
  std::vector<uint8_t> driver;  // kDriverFrameBytes, if requested
  YuvImage picture = {};        // the camera's picture, if requested
  YuvImage canvas = {};         // the same at the overlay's size, if requested
};

struct StreamOptions {
  bool road = false, wide = false;  // which inputs to prepare from this camera
  bool driver = false;              // prepare the driver monitoring model's input
  bool picture = false;
  int canvas_width = 0;  // 0: no canvas
  Sampling sampling = Sampling::bilinear;
  int decode_threads = 1;
  int64_t first = 0;                        // index of the first frame to deliver
  uint32_t first_id = 0;                    // of the first frame where the log has no index
  std::optional<Vector3> calibration = {};  // the one before the log's first
  size_t depth = 4;                         // frames in the queue
};

// Counts for the summary.
struct StreamCounts {
  int64_t frames = 0, unknown_to_index = 0, undecodable = 0;
  int64_t errors = 0;   // in the data, by the decoder
  int64_t by_time = 0;  // whose time says that they are others than their number in the video does
  bool ended = false;   // the whole video was read
  double busy_ms = 0;   // of decoding and preparing
  std::string damage = {};
};

class CameraStream {
 public:
  // `index` may be empty: frames are then numbered from `first_id` on, 50 ms apart, beginning at `start_ns`. `timeline`
  // must outlive the stream. Fails (user) if the video cannot be opened.
  CameraStream(const std::filesystem::path& video, const Camera& camera, const std::vector<IndexedFrame>& index,
               const Timeline& timeline, const StreamOptions& options, uint64_t start_ns = 0);
  ~CameraStream();
  CameraStream(const CameraStream&) = delete;
  CameraStream& operator=(const CameraStream&) = delete;

  // The next frame; empty at the end. Rethrows the thread's exception.
  std::optional<PreparedFrame> next();
  // Returns a frame's memory for reuse.
  void recycle(PreparedFrame frame);
  int width() const;
  int height() const;
  // The canvas's size: even numbers nearest to the options' canvas_width and the height that keeps the picture's shape.
  int canvas_width() const;
  int canvas_height() const;
  // Ends the thread, whether or not all frames were taken.
  StreamCounts counts();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
