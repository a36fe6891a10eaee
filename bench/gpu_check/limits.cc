// What the GPU and its driver can do at most: speeds of copies, times of launches.
#include "ops/cuda/limits.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "bench/gpu_limits.h"
#include "bench/report.h"
#include "ops/cuda/images.h"
#include "part.h"

namespace sparkpilot::gpu_check {
namespace {

double ms_since(int64_t start) { return static_cast<double>(now_ns() - start) * 1e-6; }

// Milliseconds on the GPU of each of `times` calls of `enqueue`, after two that are not counted.
std::vector<double> gpu_times(GpuStream& stream, int times, const std::function<void()>& enqueue) {
  GpuTimer timer(stream.gpu().shared_from_this());
  std::vector<double> ms;
  for (int i = 0; i < times + 2; ++i) {
    timer.begin(stream);
    enqueue();
    timer.end(stream);
    const double one = timer.milliseconds();
    if (i >= 2) ms.push_back(one);
  }
  return ms;
}

Json speed(const char* what, int64_t bytes, const std::vector<double>& ms) {
  const double middle = median(ms);
  return {{"copy", what},
          {"bytes", bytes},
          {"p50_ms", middle},
          {"gb_per_s", middle > 0 ? static_cast<double>(bytes) / middle * 1e-6 : 0}};
}

// Of the bytes that are copied: a copy on the GPU reads and writes each.
Json copies(const Options& options, const std::shared_ptr<GpuDevice>& gpu) {
  const int64_t bytes = std::min(int64_t{options.tiny ? 1 : 256} << 20, gpu->available_bytes() / 8);
  const int times = options.tiny ? 3 : 20;
  GpuStream stream(gpu);
  const auto a = gpu->allocate(bytes, gpu->own_place()), b = gpu->allocate(bytes, gpu->own_place());
  stream.fill(a->data(), 1, bytes);
  Json out = Json::array();
  out.push_back(
      speed("on the GPU", bytes, gpu_times(stream, times, [&] { stream.copy_on_gpu(b->data(), a->data(), bytes); })));
  const auto host = gpu->allocate(bytes, Place::pinned);
  out.push_back(speed("to the GPU, pinned", bytes,
                      gpu_times(stream, times, [&] { stream.copy_to_gpu(a->data(), host->data(), bytes); })));
  out.push_back(speed("to the host, pinned", bytes,
                      gpu_times(stream, times, [&] { stream.copy_to_host(host->data(), a->data(), bytes); })));
  return out;
}

// Of a kernel of one warp that does nothing.
Json launches(const Options& options, const std::shared_ptr<GpuDevice>& gpu) {
  GpuStream stream(gpu);
  const GpuFunction& kernel = cuda::kernel_on(*gpu, "limit_empty");
  Json list = Json::array();
  for (const int count : {1, 100, 1000}) {
    const GpuRecording recording = stream.record([&] {
      for (int i = 0; i < count; ++i) stream.launch(kernel, {.threads = 32}, cuda::LimitArguments{});
    });
    const int times = options.tiny ? 3 : 200;
    const std::vector<double> on_gpu = gpu_times(stream, times, [&] { stream.run(recording); });
    std::vector<double> calls, round_trips;
    for (int i = 0; i < times; ++i) {
      const int64_t start = now_ns();
      stream.run(recording);
      calls.push_back(ms_since(start) * 1e3);
      stream.wait();
      round_trips.push_back(ms_since(start) * 1e3);
    }
    list.push_back({{"kernels", count},
                    {"gpu_us", median(on_gpu) * 1e3},
                    {"gpu_us_per_kernel", median(on_gpu) * 1e3 / count},
                    {"call_us", median(calls)},
                    {"until_done_us", median(round_trips)}});
  }
  return list;
}

}  // namespace

Outcome measure_limits(const Options& options, const Json&) {
  const auto gpu = GpuDevice::open(options.ordinal);
  Outcome out;
  out.figures["copies"] = copies(options, gpu);
  out.figures["recordings"] = launches(options, gpu);
  out.figures["peak"] = to_json(measure_gpu_limits(*gpu).peak);
  return out;
}

}  // namespace sparkpilot::gpu_check
