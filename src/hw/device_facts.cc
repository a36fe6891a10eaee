#include "hw/device_facts.h"

#include <algorithm>
#include <array>

namespace sparkpilot {

DeviceFacts device_facts(const GpuDriverAnswers& cuda) {
  constexpr int64_t kProhibited = 2;  // CU_COMPUTEMODE_PROHIBITED
  DeviceFacts facts;
  if (cuda.state == GpuDriverAnswers::State::failed) facts.problem = cuda_error_name(cuda.error);
  else if (cuda.state != GpuDriverAnswers::State::answered) facts.problem = cuda.reason;
  else if (const int error = error_of(cuda.system, "device_count")) facts.problem = cuda_error_name(error);
  constexpr int64_t kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  using State = GpuDriverAnswers::State;
  facts.broken = !facts.problem.empty() && cuda.state != State::absent &&
                 !(cuda.state == State::failed && cuda.error == kNoDevice);
  // What decides the time of a model at batch 1 is mostly how fast weights are read.
  std::array<int64_t, 3> best{};
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    const Answers& gpu = cuda.devices[i];
    const std::optional<int64_t> major = integer(gpu, "capability_major");
    if (!major || integer(gpu, "compute_mode") == kProhibited) continue;
    const auto number = [&](const char* question) { return integer(gpu, question).value_or(0); };
    const std::array<int64_t, 3> speed{*major >= 8, number("memory_clock_khz") * number("memory_bus_bits"),
                                       number("multiprocessors") * std::max<int64_t>(number("clock_khz"), 1)};
    facts.gpus.push_back(static_cast<int>(i));
    if (speed > best) facts.best_gpu = facts.gpus.back();
    best = std::max(best, speed);
  }
  return facts;
}

DeviceFacts ask_device_facts() {
  constexpr double kWaitSeconds = 2;
  return device_facts(ask_cuda(kWaitSeconds));
}

}  // namespace sparkpilot
