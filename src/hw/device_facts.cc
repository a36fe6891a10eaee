#include "hw/device_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>

namespace sparkpilot {

DeviceFacts device_facts(const GpuDriverAnswers& cuda) {
  constexpr int64_t kProhibited = 2;  // CU_COMPUTEMODE_PROHIBITED
  constexpr int64_t kLeastMajor = 8;  // GpuDevice refuses older ones
  DeviceFacts facts;
  if (cuda.state == GpuDriverAnswers::State::failed) facts.problem = cuda_error_name(cuda.error);
  else if (cuda.state != GpuDriverAnswers::State::answered) facts.problem = cuda.reason;
  else if (const int error = error_of(cuda.system, "device_count")) facts.problem = cuda_error_name(error);
  constexpr int64_t kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  using State = GpuDriverAnswers::State;
  facts.broken = !facts.problem.empty() && cuda.state != State::absent &&
                 !(cuda.state == State::failed && cuda.error == kNoDevice);
  // What decides the time of a model at batch 1 is mostly how fast weights are read.
  std::array<int64_t, 2> best{-1, -1};
  std::string old;
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    const Answers& gpu = cuda.devices[i];
    const std::optional<int64_t> major = integer(gpu, "capability_major");
    if (!major || integer(gpu, "compute_mode") == kProhibited) continue;
    const auto number = [&](const char* question) { return integer(gpu, question).value_or(0); };
    if (*major < kLeastMajor) {
      old = fmt::format("compute capability {}.{}; 8.0 or newer is needed", *major, number("capability_minor"));
      facts.older_gpu = true;
      continue;
    }
    const std::array<int64_t, 2> speed{number("memory_clock_khz") * number("memory_bus_bits"),
                                       number("multiprocessors") * std::max<int64_t>(number("clock_khz"), 1)};
    facts.gpus.push_back(static_cast<int>(i));
    if (speed > best) facts.best_gpu = facts.gpus.back();
    best = std::max(best, speed);
  }
  if (facts.gpus.empty() && facts.problem.empty()) facts.problem = old;
  return facts;
}

DeviceFacts ask_device_facts() {
  constexpr double kWaitSeconds = 2;
  return device_facts(ask_cuda(kWaitSeconds));
}

}  // namespace sparkpilot
