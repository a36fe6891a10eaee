// Synthetic routes: complete drives in openpilot's format for which everything is known.
//
// The log holds the ground truth where a device's log holds its model's outputs: modelV2, cameraOdometry,
// liveLocationKalman. The same options give the same log and the same pictures, bit for bit, on every machine; encoded
// video may differ with the encoder's version.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "route/contract/image.h"
#include "route/synth/render.h"
#include "route/synth/truth.h"
#include "route/synth/world.h"

namespace sparkpilot::drive {

struct SynthOptions {
  uint64_t seed = 1;
  double seconds = 20;
  std::string device = "tici";          // tici, tizi, mici, neo: its cameras
  bool road_video = true;               // fcamera.hevc
  bool wide = true;                     // ecamera.hevc; a neo has none
  bool qcamera = true;                  // qcamera.ts
  bool full_log = true;                 // rlog.zst; qlog.zst is always there
  std::string log_id;                   // empty: from the seed, such as 00000001--5eed3a91c2
  int first_segment = 0;                // the number of the first one
  std::optional<synth::RoadKind> road;  // empty: by the seed, as the next two
  std::optional<synth::Light> light;
  std::optional<bool> wet;
  bool keep_left = false;
  bool traffic = true;
  int quality = 26;  // of the full videos, as in VideoOptions
  int threads = 0;   // drawing and encoding, 0: as many as thread_count()
};

struct SynthSegment {
  int number = 0;
  std::filesystem::path folder;
  int64_t frames = 0;
  bool kept = false;  // it already existed and was complete
};

struct SynthRoute {
  std::string name;  // "dongle|log id"
  std::vector<SynthSegment> segments;
  int64_t frames = 0;
};

// Writes `folder`/<log id>--<n>/{rlog.zst, qlog.zst, fcamera.hevc, ecamera.hevc, qcamera.ts} for every minute. A
// segment is written to a temporary folder and renamed when it is complete; an existing one made with the same options
// is kept. Fails (user) on options that no device has, if the folder holds a recording, and if something cannot be
// written. `progress` gets 0 to 1.
SynthRoute synth_route(const std::filesystem::path& folder, const SynthOptions& options,
                       const std::function<void(double)>& progress = {});

// Makes a route of a few frames, in a second or two: `frames` of a mici's cameras on a bend, or only its qcamera.
SynthRoute tiny_route(const std::filesystem::path& folder, int frames = 12, bool qcamera_only = false,
                      uint64_t seed = 1);

// A frame and its truth, without files: for training data and tests.
struct SynthFrame {
  YuvImage road, wide;  // wide: empty if the device has none
  synth::FrameTruth truth;
};
class SynthDrive {
 public:
  explicit SynthDrive(const SynthOptions& options);
  const synth::World& world() const { return world_; }
  const DeviceCameras& cameras() const { return cameras_; }
  int64_t frames() const;
  // Draws into `frame`, whose pictures are reused. Runs in parallel; one thread at a time may call it.
  void frame(int64_t index, SynthFrame& frame) const;
  void draw(int64_t index, const Camera& camera, YuvImage& picture) const;
  // A driving model's input, kFrameBytes (route/contract/frame.h): twenty times as fast as draw() and prepare_frame().
  void draw_model_frame(int64_t index, bool big, YuvImage& scratch, std::span<uint8_t> out) const;

 private:
  SynthOptions options_;
  DeviceCameras cameras_;
  synth::World world_;
  synth::Renderer renderer_;
};

// qcamera's picture, made from the road camera's by averaging over the area of each pixel.
inline constexpr int kQcameraWidth = 526, kQcameraHeight = 330;
void shrink(const YuvView& from, YuvImage& to);

}  // namespace sparkpilot::drive
