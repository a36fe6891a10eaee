// Which GPUs programs can compute on, from what libcuda answers.
#pragma once

#include <string>
#include <vector>

#include "hw/gpu_driver.h"

namespace sparkpilot {

// Facts about the machine that the choice of a device depends on.
struct DeviceFacts {
  std::vector<int> gpus = {};  // CUDA's indices of NVIDIA GPUs that programs can compute on
  int best_gpu = 0;            // the fastest of them
  bool comma_device = false;   // openpilot's tools compute with QCOM there
  std::string problem = {};    // why libcuda shows no GPU; empty if it does or is absent
};
// From libcuda, which shows what CUDA_VISIBLE_DEVICES names; without GPUs in prohibited mode.
DeviceFacts device_facts(const GpuDriverAnswers& cuda);

}  // namespace sparkpilot
