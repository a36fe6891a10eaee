#include "route/synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/parallel.h"
#include "route/contract/frame.h"
#include "route/log/recording.h"
#include "route/log/writer.h"
#include "route/synth/log.h"
#include "route/video/writer.h"

namespace sparkpilot::drive {
namespace {

namespace fs = std::filesystem;

const char* sensor_of(const std::string& device) {
  return device == "neo" ? "unknown" : (device == "mici" ? "os04c10" : (device == "tizi" ? "ox03c10" : "ar0231"));
}

DeviceCameras cameras_of(const SynthOptions& options) {
  if (options.device != "tici" && options.device != "tizi" && options.device != "mici" && options.device != "neo") {
    fail("no device is named \"{}\"; there are tici, tizi, mici and neo", options.device);
  }
  DeviceCameras cameras = *device_cameras(options.device, sensor_of(options.device));
  if (!options.wide) cameras.wide = {};
  return cameras;
}

synth::WorldOptions world_options(const SynthOptions& options) {
  if (!(options.seconds > 0) || options.seconds > 4 * 3600) {
    fail("a route of {} seconds cannot be made; 0.05 to 14400 can", options.seconds);
  }
  synth::WorldOptions world;
  world.seed = options.seed, world.seconds = options.seconds;
  world.road = options.road, world.light = options.light, world.wet = options.wet;
  world.keep_left = options.keep_left, world.traffic = options.traffic;
  return world;
}

synth::LogOptions log_options(const SynthOptions& options, int64_t frames, bool wide) {
  synth::LogOptions log;
  log.device_type = options.device, log.sensor = sensor_of(options.device);
  log.dongle = fmt::format("5eed{:012x}", options.seed & 0xFFFFFFFFFFFF);
  const uint32_t dice = synth::hash(static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32), 21);
  log.log_id =
      options.log_id.empty() ? fmt::format("{:08x}--5e{:08x}", options.seed & 0xFFFFFFFF, dice) : options.log_id;
  log.first_segment = options.first_segment, log.frames = frames;
  log.road_video = options.road_video, log.wide = wide, log.qcamera = options.qcamera;
  return log;
}

// The options that a segment was made from; stored in it, so that a later run recognises finished segments.
std::string fingerprint(const SynthOptions& o, int64_t frames) {
  const auto choice = [](auto value) { return value ? static_cast<int>(*value) : -1; };
  return fmt::format(
      "sparkpilot-synth 1 seed {} frames {} of {} device {} videos {}{}{} log {} from {} world {} {} {} {} {} quality "
      "{}\n",
      o.seed, frames, o.seconds, o.device, o.road_video, o.wide, o.qcamera, o.full_log, o.first_segment, choice(o.road),
      choice(o.light), choice(o.wet), o.keep_left, o.traffic, o.quality);
}

std::string text_of(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? read_file(path) : std::string();
}

std::unique_ptr<VideoWriter> open_video(const fs::path& path, const Camera& camera, Codec codec, int quality) {
  VideoOptions video;
  video.width = camera.width, video.height = camera.height;
  video.codec = codec, video.quality = quality;
  return std::make_unique<VideoWriter>(path, video);
}

void write_logs(const fs::path& folder, const SynthDrive& drive, const synth::LogOptions& log, int segment, bool full) {
  LogWriter qlog(folder / "qlog.zst");
  std::unique_ptr<LogWriter> rlog;
  if (full) rlog = std::make_unique<LogWriter>(folder / "rlog.zst");
  synth::segment_events(drive.world(), log, segment, [&](capnp::MessageBuilder& message, bool decimated) {
    if (rlog) rlog->write(message);
    if (decimated) qlog.write(message);
  });
  if (rlog) rlog->commit();
  qlog.commit();
}

void write_videos(const fs::path& folder, const SynthDrive& drive, const SynthOptions& options, int64_t first,
                  int64_t last, const std::function<void(int64_t)>& drawn) {
  const Camera road = drive.cameras().road, wide = drive.cameras().wide;
  const Camera small = road.scaled(kQcameraWidth, kQcameraHeight);
  std::unique_ptr<VideoWriter> road_video, wide_video, qcamera;
  if (options.road_video) road_video = open_video(folder / "fcamera.hevc", road, Codec::hevc, options.quality);
  if (wide.width > 0) wide_video = open_video(folder / "ecamera.hevc", wide, Codec::hevc, options.quality);
  if (options.qcamera) qcamera = open_video(folder / "qcamera.ts", small, Codec::h264, 26);
  YuvImage road_picture, wide_picture, small_picture(kQcameraWidth, kQcameraHeight);
  for (int64_t frame = first; frame < last; ++frame) {
    // If only qcamera is written, pictures are drawn in its size: several times as fast.
    if (road_video) drive.draw(frame, road, road_picture);
    if (wide_video) drive.draw(frame, wide, wide_picture);
    if (qcamera && !road_video) drive.draw(frame, small, small_picture);
    parallel_for(2, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i == 0 && road_video) road_video->write(road_picture.view());
        if (i == 1 && wide_video) wide_video->write(wide_picture.view());
        if (i == 1 && qcamera && road_video) shrink(road_picture.view(), small_picture);
        if (i == 1 && qcamera) qcamera->write(small_picture.view());
      }
    });
    drawn(frame);
  }
  for (auto* video : {&road_video, &wide_video, &qcamera}) {
    if (*video) (*video)->commit();
  }
}

// The weight of input rows or columns in each output one: averages over areas.
struct Shares {
  std::vector<int> first;
  std::vector<std::vector<float>> weights;
};

Shares shares(int from, int to) {
  Shares out;
  const double ratio = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const double begin = i * ratio, end = begin + ratio;
    const int first = static_cast<int>(begin), last = std::min(from, static_cast<int>(std::ceil(end)));
    out.first.push_back(first);
    auto& weights = out.weights.emplace_back();
    for (int k = first; k < last; ++k) {
      weights.push_back(static_cast<float>((std::min<double>(k + 1, end) - std::max<double>(k, begin)) / ratio));
    }
  }
  return out;
}

void shrink_plane(const uint8_t* from, int stride, int width, int height, uint8_t* to, int to_width, int to_height) {
  const Shares across = shares(width, to_width), down = shares(height, to_height);
  std::vector<float> row(static_cast<size_t>(width));
  for (int y = 0; y < to_height; ++y) {
    std::fill(row.begin(), row.end(), 0.5F);
    for (size_t k = 0; k < down.weights[static_cast<size_t>(y)].size(); ++k) {
      const uint8_t* in = from + (down.first[static_cast<size_t>(y)] + static_cast<ptrdiff_t>(k)) * stride;
      const float weight = down.weights[static_cast<size_t>(y)][k];
      for (int x = 0; x < width; ++x) row[static_cast<size_t>(x)] += weight * static_cast<float>(in[x]);
    }
    for (int x = 0; x < to_width; ++x) {
      float sum = 0;
      const auto& weights = across.weights[static_cast<size_t>(x)];
      for (size_t k = 0; k < weights.size(); ++k)
        sum += weights[k] * row[static_cast<size_t>(across.first[static_cast<size_t>(x)]) + k];
      *to++ = static_cast<uint8_t>(std::min(255.0F, sum));
    }
  }
}

}  // namespace

void shrink(const YuvView& from, YuvImage& to) {
  const int w = to.width(), h = to.height();
  shrink_plane(from.y, from.y_stride, from.width, from.height, to.y(), w, h);
  shrink_plane(from.u, from.uv_stride, from.width / 2, from.height / 2, to.u(), w / 2, h / 2);
  shrink_plane(from.v, from.uv_stride, from.width / 2, from.height / 2, to.v(), w / 2, h / 2);
}

SynthDrive::SynthDrive(const SynthOptions& options)
    : options_(options), cameras_(cameras_of(options)), world_(world_options(options)), renderer_(world_) {}

int64_t SynthDrive::frames() const {
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(options_.seconds * synth::kFramesPerSecond + 0.5)));
}

void SynthDrive::draw(int64_t index, const Camera& camera, YuvImage& picture) const {
  renderer_.draw(static_cast<double>(index) / synth::kFramesPerSecond, camera, picture);
}

void SynthDrive::draw_model_frame(int64_t index, bool big, YuvImage& scratch, std::span<uint8_t> out) const {
  renderer_.draw_model_frame(static_cast<double>(index) / synth::kFramesPerSecond, big, scratch);
  pack_frame(scratch.view(), out);
}

void SynthDrive::frame(int64_t index, SynthFrame& frame) const {
  frame.truth = synth::frame_truth(world_, static_cast<double>(index) / synth::kFramesPerSecond);
  draw(index, cameras_.road, frame.road);
  if (cameras_.wide.width > 0) draw(index, cameras_.wide, frame.wide);
}

SynthRoute synth_route(const fs::path& folder, const SynthOptions& options,
                       const std::function<void(double)>& progress) {
  const ThreadScope threads(options.threads);
  const SynthDrive drive(options);
  const int64_t frames = drive.frames();
  const synth::LogOptions log = log_options(options, frames, drive.cameras().wide.width > 0);
  SynthRoute route{log.dongle + "|" + log.log_id, {}, frames};
  refuse_recording(folder, Writer::synth);
  const FolderLock lock(folder, fmt::format(".{}.lock", log.log_id));  // another process may write other routes there
                                                                       // meanwhile
  for (int64_t first = 0, i = 0; first < frames; first += synth::kFramesPerSegment, ++i) {
    SynthSegment segment;
    segment.number = options.first_segment + static_cast<int>(i);
    segment.frames = std::min<int64_t>(synth::kFramesPerSegment, frames - first);
    segment.folder = folder / fmt::format("{}--{}", log.log_id, segment.number);
    const std::string made_of = fingerprint(options, frames);
    std::error_code error;
    if (fs::exists(segment.folder, error)) {
      if (text_of(segment.folder / kSynthFile) != made_of) {
        fail("{}: is there and was not made by these options; name another folder or remove it",
             segment.folder.string());
      }
      segment.kept = true;
    } else {
      fs::path aside = segment.folder;
      aside += ".part";
      fs::remove_all(aside, error);
      make_folders(aside);
      write_logs(aside, drive, log, static_cast<int>(i), options.full_log);
      write_videos(aside, drive, options, first, first + segment.frames, [&](int64_t frame) {
        if (progress) progress(static_cast<double>(frame + 1) / static_cast<double>(frames));
      });
      AtomicFile note(aside / kSynthFile);
      note.write(made_of);
      note.commit();
      fs::rename(aside, segment.folder, error);
      if (error) fail("{}: cannot be renamed: {}", aside.string(), error.message());
    }
    route.segments.push_back(segment);
  }
  return route;
}

SynthRoute tiny_route(const fs::path& folder, int frames, bool qcamera_only, uint64_t seed) {
  SynthOptions options;
  options.seed = seed, options.seconds = static_cast<double>(frames) / synth::kFramesPerSecond;
  options.device = "mici";
  options.road = synth::RoadKind::rural, options.light = synth::Light::day;
  options.road_video = options.wide = !qcamera_only;
  return synth_route(folder, options);
}

}  // namespace sparkpilot::drive
