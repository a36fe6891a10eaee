#include "drive/camera_stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "drive/queue.h"
#include "route/draw/scale.h"
#include "route/video/reader.h"

namespace sparkpilot::drive {
namespace {

constexpr uint64_t kFrameNs = 50'000'000;

int even(double value) { return 2 * static_cast<int>(std::lround(value / 2)); }

void copy(const YuvView& from, YuvImage& to) {
  if (to.width() != from.width || to.height() != from.height) to = YuvImage(from.width, from.height);
  const auto plane = [](const uint8_t* in, int stride, uint8_t* out, int width, int height) {
    for (int row = 0; row < height; ++row) {
      std::memcpy(out + static_cast<ptrdiff_t>(row) * width, in + static_cast<ptrdiff_t>(row) * stride,
                  static_cast<size_t>(width));
    }
  };
  plane(from.y, from.y_stride, to.y(), from.width, from.height);
  plane(from.u, from.uv_stride, to.u(), from.width / 2, from.height / 2);
  plane(from.v, from.uv_stride, to.v(), from.width / 2, from.height / 2);
}

}  // namespace

struct CameraStream::Impl {
  Impl(const std::filesystem::path& video, const Camera& recorded, const std::vector<IndexedFrame>& frames,
       const Timeline& log, const StreamOptions& o, uint64_t start)
      : reader(video, o.decode_threads),
        camera(recorded.scaled(reader.width(), reader.height())),
        index(frames),
        timeline(log),
        options(o),
        canvas_width(even(o.canvas_width)),
        canvas_height(even(1.0 * reader.height() * canvas_width / reader.width())),
        start_ns(start),
        queue(o.depth) {
    thread = std::thread([this] {
      try {
        work();
        queue.close();
      } catch (...) {
        queue.fail(std::current_exception());
      }
    });
  }

  ~Impl() { end(); }

  void end() {
    queue.stop();
    if (thread.joinable()) thread.join();
  }

  // The index's entry of a picture: by its number in the video and, where its container has the time at which it was
  // taken, as a device's qcamera.ts has, by that: pictures before it may be lost.
  const IndexedFrame* mark_of(int64_t at, std::optional<int64_t> time) {
    const IndexedFrame* numbered = mark_of(at);
    if (!time || index.empty() || (numbered && is_at(*numbered, *time))) return numbered;
    const auto found = std::ranges::find_if(index, [&](const IndexedFrame& frame) { return is_at(frame, *time); });
    if (found == index.end()) return numbered;
    ++counts.by_time;
    return &*found;
  }

  // MPEG-TS counts 33 bits of 1/90000 s.
  static bool is_at(const IndexedFrame& frame, int64_t time) {
    constexpr double kTurn = static_cast<double>(int64_t{1} << 33) / 90000 * 1e9, kNear = 1e5;
    return std::abs(std::remainder(static_cast<double>(frame.timestamp_eof) - static_cast<double>(time), kTurn)) <
           kNear;
  }

  const IndexedFrame* mark_of(int64_t at) {
    if (index.empty()) {
      const uint64_t time = start_ns + static_cast<uint64_t>(at) * kFrameNs;
      made_up = {options.first_id + static_cast<uint32_t>(at), static_cast<uint32_t>(at), time, time};
      return &made_up;
    }
    const auto found = std::lower_bound(index.begin(), index.end(), at,
                                        [](const IndexedFrame& frame, int64_t i) { return frame.index < i; });
    return found == index.end() || found->index != at ? nullptr : &*found;
  }

  void work() {
    if (options.first > 0) reader.start_at(options.first);
    while (true) {
      const int64_t start = now_ns();
      if (!reader.next()) {
        counts.ended = true;
        break;
      }
      const IndexedFrame* mark = mark_of(reader.index(), reader.time());
      if (mark == nullptr || (last && mark->index <= *last)) {
        ++counts.unknown_to_index;
        continue;
      }
      last = mark->index;
      ++counts.frames;
      PreparedFrame frame = fresh();
      prepare(*mark, frame);
      counts.busy_ms += static_cast<double>(now_ns() - start) * 1e-6;
      if (!queue.put(std::move(frame))) break;
    }
    counts.undecodable = reader.undecodable();
    counts.errors = reader.errors();
    counts.damage = reader.damage();
  }

  void prepare(const IndexedFrame& mark, PreparedFrame& out) {
    out.mark = mark;
    const Vector3* rpy = timeline.calibration.at(mark.timestamp_eof);
    if (rpy == nullptr && options.calibration) rpy = &*options.calibration;
    out.calibrated = rpy != nullptr;
    // Before the first calibration use the log's first one as the best guess; the message marks it as not valid.
    if (rpy == nullptr && !timeline.calibration.empty()) rpy = &timeline.calibration.begin()->second;
    out.rpy = rpy ? *rpy : Vector3{};
    const YuvView picture = reader.picture();
    const auto warp_into = [&](bool big, std::vector<uint8_t>& bytes) {
      bytes.resize(kFrameBytes);
      prepare_frame(picture, warp_matrix(out.rpy, camera.intrinsics(), big), options.sampling, bytes);
    };
    if (options.road) warp_into(false, out.road);
    if (options.wide) warp_into(true, out.wide);
    if (options.driver) {
      out.driver.resize(kDriverFrameBytes);
      const bool nearest = options.sampling == Sampling::nearest;
      prepare_driver_frame(picture, dm_warp_matrix(camera.intrinsics()), options.sampling,
                           nearest ? std::optional(kDriverBorder) : std::nullopt, out.driver);
    }
    if (options.picture) copy(picture, out.picture);
    if (options.canvas_width == 0) return;
    // Scale here, while the picture is in the cache; later it would have to be copied whole and read again.
    if (out.canvas.width() == 0) out.canvas = YuvImage(canvas_width, canvas_height);
    scaler.scale(picture, out.canvas);
  }

  PreparedFrame fresh() {
    const std::lock_guard lock(spare_mutex);
    if (spare.empty()) return {};
    PreparedFrame frame = std::move(spare.back());
    spare.pop_back();
    return frame;
  }

  VideoReader reader;
  Camera camera;
  const std::vector<IndexedFrame>& index;
  const Timeline& timeline;
  StreamOptions options;
  const int canvas_width, canvas_height;
  Scaler scaler;
  uint64_t start_ns;
  IndexedFrame made_up;
  std::optional<uint32_t> last;  // index of the frame before
  StreamCounts counts;
  BoundedQueue<PreparedFrame> queue;
  std::mutex spare_mutex;
  std::vector<PreparedFrame> spare;
  std::thread thread;
};

CameraStream::CameraStream(const std::filesystem::path& video, const Camera& camera,
                           const std::vector<IndexedFrame>& index, const Timeline& timeline,
                           const StreamOptions& options, uint64_t start_ns)
    : impl_(new Impl(video, camera, index, timeline, options, start_ns)) {}
CameraStream::~CameraStream() = default;
std::optional<PreparedFrame> CameraStream::next() { return impl_->queue.take(); }
int CameraStream::width() const { return impl_->reader.width(); }
int CameraStream::height() const { return impl_->reader.height(); }
int CameraStream::canvas_width() const { return impl_->canvas_width; }
int CameraStream::canvas_height() const { return impl_->canvas_height; }

StreamCounts CameraStream::counts() {
  impl_->end();
  return impl_->counts;
}

void CameraStream::recycle(PreparedFrame frame) {
  const std::lock_guard lock(impl_->spare_mutex);
  if (impl_->spare.size() < 8) impl_->spare.push_back(std::move(frame));
}

}  // namespace sparkpilot::drive
