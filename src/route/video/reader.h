// Reads recorded video through FFmpeg's libraries: raw HEVC (fcamera.hevc), MPEG-TS (qcamera.ts), mp4. Frames come in
// display order; the n-th of a file is the one whose encode index has segmentId n.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "route/contract/image.h"

namespace sparkpilot::drive {

// Whether FFmpeg's libraries here have a decoder of that name ("hevc", "h264").
bool can_decode(const std::string& codec);

class VideoReader {
 public:
  // Fails (user) naming the file if it holds no video that can be decoded to 8-bit 4:2:0.
  explicit VideoReader(const std::filesystem::path& path, int threads = 1);
  ~VideoReader();
  VideoReader(const VideoReader&) = delete;
  VideoReader& operator=(const VideoReader&) = delete;

  int width() const;
  int height() const;

  // Moves to the next frame; false at the end. A packet that cannot be decoded is skipped and counted, and so is its
  // frame's index: later frames keep theirs. A change of the picture's size ends the video: see damage().
  bool next();
  // Call it before the first next(): begins with the frame of that index, decoding only from the key frame before it.
  void start_at(int64_t index);
  int64_t index() const;  // of the frame next() moved to, from 0
  // The time that its container has for it, ns; empty without one (raw HEVC), and where packets are not in display
  // order.
  std::optional<int64_t> time() const;
  YuvView picture() const;  // valid until the next call of next()
  // What was wrong with the file; empty if nothing was.
  const std::string& damage() const;
  int64_t undecodable() const;
  // What the decoder found wrong in the data so far: pictures that it gave all the same may be damaged.
  int64_t errors() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive
