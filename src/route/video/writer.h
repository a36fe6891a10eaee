// Writes H.264 or HEVC through FFmpeg's libraries: full-range BT.601 with sRGB's primaries, with matching tags.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "route/contract/image.h"

namespace sparkpilot::drive {

enum class Codec { h264, hevc };

struct VideoOptions {
  int width = 0, height = 0;  // even
  Codec codec = Codec::h264;
  int frames_per_second = 20;
  int quality = 23;  // constant rate factor: smaller is better and larger
  // The quality is each picture's quantizer instead: a fifth less time, as the encoder need not predict the cost of a
  // picture.
  bool constant_quantizer = false;
  int group = 20;     // frames from one key frame to the next
  int64_t first = 0;  // the container's time of the first frame, in frames
  int threads = 1;    // of the encoder
  bool fast = true;   // the encoder's fastest settings that are worthwhile
};

// The file's name decides the container: .mp4, .ts, .hevc (raw stream). Written to a temporary name and renamed by
// commit(); without it nothing remains. One thread uses a writer at a time.
class VideoWriter {
 public:
  // Fails (user) if the encoder is missing or the file cannot be written.
  VideoWriter(std::filesystem::path path, const VideoOptions& options);
  ~VideoWriter();
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;

  // The picture must have the writer's size; fails (user) if it has not.
  void write(const YuvView& picture);
  int64_t frames() const;
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
