// One network without a pause, and what the GPU's sensors say each second.
#include "base/clock.h"
#include "base/error.h"
#include "hw/source.h"
#include "monitor/sampler.h"
#include "networks.h"
#include "onnx/zoo.h"

namespace sparkpilot::gpu_check {
namespace {

template <typename T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// Of the GPU that computes, where NVML knows it.
Json reading(const monitor::Sample& sample, int ordinal, double seconds, int64_t runs) {
  for (const monitor::GpuSample& gpu : sample.gpus) {
    if (gpu.gpu.cuda_index.value_or(gpu.index) != ordinal) continue;
    return {seconds,
            runs,
            known(gpu.gpu.temperature_c),
            known(gpu.gpu.sm_clock_mhz),
            known(gpu.gpu.power_w),
            known(gpu.gpu.gpu_percent),
            known(gpu.throttle_reasons)};
  }
  return {seconds, runs, nullptr, nullptr, nullptr, nullptr, nullptr};
}

}  // namespace

Outcome soak(const Options& options, const Json&) {
  const char* const network = options.tiny ? "tiny_driving_vision" : "driving_vision";
  Ready made = ready(build_zoo_model(network), options.device(), Precision::fp16);
  made.session.run();
  const std::vector<Tensor> expected = outputs_of(made.session);
  const std::unique_ptr<Source> system = system_source();
  monitor::Sampler sampler(*system, {.processes = false});
  Outcome out;
  out.figures = {
      {"network", network},
      {"precision", "fp16"},
      {"columns", {"seconds", "runs", "temperature_c", "sm_clock_mhz", "power_w", "gpu_percent", "throttle_reasons"}},
      {"readings", Json::array()}};
  const int64_t start = now_ns(), end = start + static_cast<int64_t>(options.soak_minutes * 60e9);
  int64_t next = start + 1'000'000'000, runs = 0;
  for (bool last = false; !last;) {
    made.session.run();
    ++runs;
    const int64_t now = now_ns();
    last = now >= end;
    if (now < next && !last) continue;
    out.figures["readings"].push_back(
        reading(sampler.next(), options.ordinal, static_cast<double>(now - start) * 1e-9, runs));
    if (!same_bits(outputs_of(made.session), expected) && out.failures.empty())
      out.failures.push_back(fmt::format("other bits after {:.0f} s", static_cast<double>(now - start) * 1e-9));
    next += 1'000'000'000;
    runs = 0;
  }
  return out;
}

}  // namespace sparkpilot::gpu_check
