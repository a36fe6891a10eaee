// Compares the pipeline with its stages run alone: decoding and preparing, the networks, drawing and writing.
//
//   drive_bench ROUTE MODELS [FRAMES [ROUNDS [THREADS]]]
//
// Stages run one at a time with the threads that the pipeline gives them, in turns with the pipeline itself; medians
// over the rounds. No pipeline is faster than its slowest stage, nor than all stages' processor time shared out over
// the processors: the ratio to the larger of these two times is the pipeline's loss.
#include <sys/resource.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "drive/camera_stream.h"
#include "drive/drive.h"
#include "drive/segment_output.h"
#include "route/log/timeline.h"

namespace sparkpilot::drive {
namespace {

namespace fs = std::filesystem;

// Processor seconds used by the whole process so far.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Cost {
  double wall_ms = 0, cpu_ms = 0;  // per frame
};

template <typename Fn>
Cost cost_of(int64_t frames, Fn&& work) {
  const double cpu = cpu_seconds();
  const int64_t start = now_ns();
  work();
  const double n = static_cast<double>(frames);
  return {static_cast<double>(now_ns() - start) * 1e-6 / n, (cpu_seconds() - cpu) * 1e3 / n};
}

struct Setup {
  Route route;
  ModelFiles models;
  Timeline timeline;
  DeviceCameras cameras;
  int64_t frames = 400;
  Shares shares;
  int threads = 0;
};

StreamOptions stream_options(const Setup& s, bool wide) {
  StreamOptions options;
  options.road = !wide;
  options.wide = wide || s.route.segments[0].wide_video.empty();
  if (!wide) options.canvas_width = DriveOptions().overlay_width;
  options.decode_threads = s.shares.decode;
  return options;
}

void drain(CameraStream& stream, int64_t frames) {
  for (int64_t i = 0; i < frames; ++i) {
    std::optional<PreparedFrame> frame = stream.next();
    if (!frame) return;
    stream.recycle(std::move(*frame));
  }
}

// One camera's stage; in the pipeline the two cameras' stages run in parallel.
Cost decode(const Setup& s, bool wide) {
  const Segment& segment = s.route.segments[0];
  const fs::path& video = wide ? segment.wide_video : segment.road_video.empty() ? segment.qcamera : segment.road_video;
  const auto& index = wide ? s.timeline.wide : s.timeline.road;
  return cost_of(s.frames, [&] {
    CameraStream stream(video, wide ? s.cameras.wide : s.cameras.road, index, s.timeline, stream_options(s, wide));
    drain(stream, s.frames);
  });
}

Cost networks(const Setup& s) {
  SessionOptions options;
  options.threads = s.shares.infer;
  DrivingModel model(s.models, options);
  const std::vector<uint8_t> picture(kFrameBytes, 100);
  FrameInputs inputs;
  inputs.road = inputs.wide = picture;
  const ThreadScope scope(s.shares.infer);
  for (int i = 0; i < 5; ++i) model.step(inputs);
  return cost_of(s.frames, [&] {
    for (int64_t i = 0; i < s.frames; ++i) model.step(inputs);
  });
}

// Draws and writes frames as the networks pass them on: the outputs of a few frames in turn, with copies of their
// pictures.
Cost draw_and_write(const Setup& s, const fs::path& out) {
  constexpr int64_t kKept = 60;
  const Segment& segment = s.route.segments[0];
  DriveOptions options;
  SessionOptions session;
  session.threads = s.shares.infer;
  DrivingModel model(s.models, session);
  CameraStream stream(segment.road_video.empty() ? segment.qcamera : segment.road_video, s.cameras.road,
                      s.timeline.road, s.timeline, stream_options(s, false));
  std::vector<PreparedFrame> frames;
  std::vector<ModelOutputs> outputs;
  while (std::ssize(frames) < std::min(kKept, s.frames)) {
    std::optional<PreparedFrame> frame = stream.next();
    if (!frame) break;
    FrameInputs inputs;
    inputs.road = frame->road;
    model.step(inputs);
    outputs.push_back(model.outputs());
    frames.push_back(std::move(*frame));
  }
  stream.counts();  // waits for its thread to end
  SegmentJob job;
  job.segment = &segment;
  job.timeline = &s.timeline;
  job.shares = s.shares;
  const Camera camera = s.cameras.road.scaled(stream.width(), stream.height());
  return cost_of(s.frames, [&] {
    ModelPublisher publisher;
    const SegmentLane lane{.options = &options, .model = &model, .publisher = &publisher, .folder = out};
    SegmentOutput output(job, lane, camera, s.frames, stream);
    for (int64_t i = 0; i < s.frames; ++i) {
      const size_t kept = static_cast<size_t>(i) % frames.size();
      OutputFrame frame;
      frame.frame = frames[kept];
      frame.frame.mark = s.timeline.road[static_cast<size_t>(i)];
      frame.outputs = std::make_unique<ModelOutputs>(outputs[kept]);
      output.put(std::move(frame));
    }
    SegmentResult result;
    output.finish(result);
  });
}

// The whole pipeline; processor time counts from the first frame on, when the models are loaded.
Cost pipeline(const Setup& s, const fs::path& out) {
  DriveOptions options;
  options.models = s.models;
  options.out = out;
  options.limit = s.frames;
  options.threads = s.threads;
  double first = 0, last = 0;
  options.progress = [&](const DriveProgress& progress) {
    last = cpu_seconds();
    if (progress.frame == 1) first = last;
  };
  const SegmentResult result = drive_route(s.route, options).segments.at(0);
  const auto frames = static_cast<double>(result.frames.size());
  return {result.seconds * 1e3 / frames, (last - first) * 1e3 / (frames - 1)};
}

double median(std::vector<double> values) { return summarize(values).p50; }

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: drive_bench ROUTE MODELS [FRAMES [ROUNDS [THREADS]]]\n");
    return 2;
  }
  Setup s;
  s.route = find_route(argv[1]);
  s.models = find_models(argv[2]);
  if (argc > 3) s.frames = std::atoll(argv[3]);
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 5;
  s.threads = argc > 5 ? std::atoi(argv[5]) : 0;
  s.route.segments.resize(1);
  s.timeline = read_timeline(s.route.log(s.route.segments[0]));
  s.frames = std::min(s.frames, std::ssize(s.timeline.road));
  s.cameras = device_cameras(s.timeline.device_type, s.timeline.sensor).value();
  const bool wide = !s.route.segments[0].wide_video.empty();
  const int processors = available_processors();
  s.shares = share_threads(s.threads > 0 ? s.threads : processors, wide, true);
  const fs::path out = fs::temp_directory_path() / fmt::format("drive_bench_{}", now_ns());

  std::map<std::string, std::vector<double>> wall, cpu;
  const auto add = [&](const std::string& name, const Cost& cost) {
    wall[name].push_back(cost.wall_ms);
    cpu[name].push_back(cost.cpu_ms);
  };
  for (int round = 0; round < rounds; ++round) {
    add("decode road", decode(s, false));
    if (wide) add("decode wide", decode(s, true));
    add("networks", networks(s));
    add("draw and write", draw_and_write(s, out));
    add("pipeline", pipeline(s, out));
  }
  fs::remove_all(out);

  double slowest = 0, all = 0;
  fmt::print("{} frames, {} rounds, {} processors, threads: decode {}, networks {}, encode {}\n", s.frames, rounds,
             processors, s.shares.decode, s.shares.infer, s.shares.encode);
  for (const auto& [name, times] : wall) {
    fmt::print("{:16} {:7.2f} ms a frame, {:7.2f} ms of processors\n", name, median(times), median(cpu[name]));
    if (name == "pipeline") continue;
    slowest = std::max(slowest, median(times));
    all += median(cpu[name]);
  }
  const double bound = std::max(slowest, all / processors), pipeline = median(wall["pipeline"]);
  fmt::print("slowest stage / pipeline {:.2f}; the later bound of the two ({:.2f} ms) / pipeline {:.2f}\n",
             slowest / pipeline, bound, bound / pipeline);
  return 0;
}

}  // namespace
}  // namespace sparkpilot::drive

int main(int argc, char** argv) {
  try {
    return sparkpilot::drive::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "drive_bench: {}\n", error.what());
    return 2;
  }
}
