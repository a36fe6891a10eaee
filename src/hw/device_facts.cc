#include "hw/device_facts.h"

#include <algorithm>
#include <array>

namespace sparkpilot {

DeviceFacts device_facts(const GpuDriverAnswers& cuda) {
  constexpr int64_t kProhibited = 2;  // CU_COMPUTEMODE_PROHIBITED
  DeviceFacts facts;
  if (cuda.state == GpuDriverAnswers::State::failed) facts.problem = cuda_error_name(cuda.error);
  else if (cuda.state != GpuDriverAnswers::State::answered) facts.problem = cuda.reason;
  std::array<int64_t, 3> best{};
  for (size_t i = 0; i < cuda.devices.size(); ++i) {
    const Answers& gpu = cuda.devices[i];
    const std::optional<int64_t> major = integer(gpu, "capability_major");
    if (!major || integer(gpu, "compute_mode") == kProhibited) continue;
    const std::array<int64_t, 3> speed{*major, integer(gpu, "capability_minor").value_or(0),
                                       integer(gpu, "multiprocessors").value_or(0)};
    facts.gpus.push_back(static_cast<int>(i));
    if (speed > best) facts.best_gpu = facts.gpus.back();
    best = std::max(best, speed);
  }
  return facts;
}

}  // namespace sparkpilot
