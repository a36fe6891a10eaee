#include "bench/gpu_limits.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "ops/cuda/images.h"
#include "ops/cuda/limits.h"

namespace sparkpilot {
namespace {

using cuda::LimitArguments;

constexpr double kLongEnough = 1e-3;  // seconds, so that starting a kernel does not count
constexpr int kRepeats = 5;
constexpr int64_t kLeastBytes = int64_t{1} << 20;

class Limits {
 public:
  explicit Limits(GpuDevice& gpu)
      : gpu_(gpu),
        stream_(gpu.shared_from_this()),
        timer_(gpu.shared_from_this()),
        blocks_(gpu.facts().multiprocessors * 4),
        out_(gpu.allocate(int64_t{blocks_} * cuda::kLimitThreads * 4, gpu.own_place())) {}

  GpuLimits measure() {
    GpuLimits out;
    // A warp's product of 16 x 16 by 16 x 8.
    constexpr double kMma = 2.0 * 16 * 16 * 8 / 32;
    out.peak.units = {{"fp32", Arithmetic::f32, unit("limit_fma_f32", 2)},
                      {"mma fp16", Arithmetic::f16, unit("limit_mma_f16", kMma)},
                      {"mma bf16", Arithmetic::bf16, unit("limit_mma_bf16", kMma)}};
    out.peak.levels = levels();
    nodes(out);
    if (!gpu_.unified()) copies(out);
    return out;
  }

 private:
  // Seconds of what `enqueue` enqueues, the least of several.
  double seconds(const std::function<void()>& enqueue) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepeats; ++i) {
      least = std::min(least, once(enqueue));
      if (least > 10 * kLongEnough) break;  // no GPU is that slow
    }
    return least;
  }
  double once(const std::function<void()>& enqueue) {
    timer_.begin(stream_);
    enqueue();
    timer_.end(stream_);
    return std::max(timer_.milliseconds() * 1e-3, 1e-9);
  }
  void launch(const char* kernel, const LimitArguments& arguments) {
    stream_.launch(cuda::kernel_on(gpu_, kernel), cuda::limit_launch(blocks_), arguments);
  }

  // FLOPs per second, where one of a thread's chains does `flops` a round.
  double unit(const char* kernel, double flops) {
    LimitArguments arguments{.from = nullptr, .to = out_->data(), .pieces = 0, .rounds = 1};
    const auto enqueue = [&] { launch(kernel, arguments); };
    launch(kernel, arguments);  // loads the kernel
    while (once(enqueue) < kLongEnough && arguments.rounds < 1 << 24) arguments.rounds *= 4;
    return flops * arguments.rounds * cuda::kLimitChains * cuda::kLimitThreads * blocks_ / seconds(enqueue);
  }

  struct Rate {
    double read = 0, moved = 0;  // bytes per second
  };
  // Of `bytes` that lie together, passed `rounds` times in one launch.
  Rate rate(int64_t bytes, int rounds, const Buffer& from, const Buffer& to) {
    const LimitArguments read{.from = from.data(), .to = out_->data(), .pieces = bytes / 16, .rounds = rounds};
    LimitArguments copy = read;
    copy.to = to.data();
    copy.pieces /= 2;  // so that both ends fit where one did
    const double work = static_cast<double>(bytes) * rounds;
    const double reading = work / seconds([&] { launch("limit_read", read); });
    return {reading, std::max(reading, work / seconds([&] { launch("limit_copy", copy); }))};
  }

  // A device that is too slow for the usual sizes, as the emulated one is, is measured with less.
  std::vector<LevelPeak> levels() {
    const LimitBytes bytes = limit_bytes(gpu_.facts().l2_bytes, is_slow() ? 3 * kLeastBytes : gpu_.available_bytes());
    const auto from = gpu_.allocate(bytes.memory, gpu_.own_place()),
               to = gpu_.allocate(bytes.memory / 2, gpu_.own_place());
    stream_.fill(from->data(), 1, bytes.memory);
    stream_.fill(to->data(), 1, bytes.memory / 2);
    const Rate memory = rate(bytes.memory, 1, *from, *to);
    const Rate cached = bytes.l2 == 0 ? Rate() : rate(bytes.l2, 16, *from, *to);
    return {{"L2", static_cast<double>(gpu_.facts().l2_bytes), cached.read, cached.moved},
            {"memory", std::numeric_limits<double>::infinity(), memory.read, memory.moved}};
  }
  bool is_slow() {
    const auto some = gpu_.allocate(kLeastBytes, gpu_.own_place());
    stream_.fill(some->data(), 1, kLeastBytes);
    const LimitArguments arguments{.from = some->data(), .to = out_->data(), .pieces = kLeastBytes / 16, .rounds = 1};
    launch("limit_read", arguments);  // loads the kernel
    return once([&] { launch("limit_read", arguments); }) > kLongEnough;
  }

  void nodes(GpuLimits& out) {
    constexpr int kNodes = 1000;
    const LimitArguments nothing{.from = nullptr, .to = out_->data(), .pieces = 0, .rounds = 0};
    const GpuFunction& empty = cuda::kernel_on(gpu_, "limit_empty");
    const auto add = [&] { stream_.launch(empty, {.threads = 32, .shared_bytes = 0}, nothing); };
    const GpuRecording one = stream_.record(add), many = stream_.record([&] {
      for (int i = 0; i < kNodes; ++i) add();
    });
    const double of_many = seconds([&] { stream_.run(many); }), of_one = seconds([&] { stream_.run(one); });
    out.node_ns = std::max(of_many - of_one, 0.0) / (kNodes - 1) * 1e9;
    out.run_us = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 100; ++i) {
      const int64_t begin = now_ns();
      stream_.run(one);
      stream_.wait();
      out.run_us = std::min(out.run_us, static_cast<double>(now_ns() - begin) * 1e-3);
    }
  }

  void copies(GpuLimits& out) {
    const int64_t bytes = std::clamp(gpu_.available_bytes() / 8, kLeastBytes, int64_t{64} << 20);
    const auto host = gpu_.allocate(bytes, Place::pinned), device = gpu_.allocate(bytes, Place::device);
    std::fill_n(static_cast<std::byte*>(host->data()), bytes, std::byte{1});
    const auto size = static_cast<double>(bytes);
    out.to_gpu = size / seconds([&] { stream_.copy_to_gpu(device->data(), host->data(), bytes); });
    out.to_host = size / seconds([&] { stream_.copy_to_host(host->data(), device->data(), bytes); });
  }

  GpuDevice& gpu_;
  GpuStream stream_;
  GpuTimer timer_;
  int blocks_;
  std::shared_ptr<Buffer> out_;
};

}  // namespace

LimitBytes limit_bytes(int64_t l2_bytes, int64_t available) {
  const auto whole = [](int64_t bytes) { return std::max(bytes, kLeastBytes) / 32 * 32; };
  const int64_t memory = whole(std::min(4 * l2_bytes, available / 3));  // a copy takes half as much again
  const int64_t l2 = whole(l2_bytes / 2);
  return {memory, l2 <= memory ? l2 : 0};
}

GpuLimits measure_gpu_limits(GpuDevice& gpu) {
  static std::mutex mutex;
  static std::map<std::string, GpuLimits> known;  // by address, which stays that GPU's
  const std::lock_guard lock(mutex);
  const GpuLimits now = Limits(gpu).measure();
  const auto [at, fresh] = known.try_emplace(gpu.facts().pci, now);
  GpuLimits& best = at->second;
  if (!fresh) {
    keep_best(best.peak, now.peak);
    best.node_ns = std::min(best.node_ns, now.node_ns);
    best.run_us = std::min(best.run_us, now.run_us);
    best.to_gpu = std::max(best.to_gpu, now.to_gpu);
    best.to_host = std::max(best.to_host, now.to_host);
  }
  return best;
}

}  // namespace sparkpilot
