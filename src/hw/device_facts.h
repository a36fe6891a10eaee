// Which GPUs sparkpilot can compute on, from what libcuda answers.
#pragma once

#include <string>
#include <vector>

#include "hw/gpu_driver.h"

namespace sparkpilot {

// Facts about the machine that the choice of a device depends on.
struct DeviceFacts {
  std::vector<int> gpus = {};  // CUDA's indices of the NVIDIA GPUs that sparkpilot has kernels for (8.0 and newer)
  int best_gpu = 0;            // the fastest of them
  bool older_gpu = false;      // there is one that only other programs can compute on
  bool comma_device = false;   // openpilot's tools compute with QCOM there
  std::string problem = {};    // why `gpus` is empty; empty if it is not, or libcuda is absent
  bool broken = false;         // libcuda is there, and its answer is not that there is no GPU
};
// From libcuda, which shows what CUDA_VISIBLE_DEVICES names; without GPUs in prohibited mode.
DeviceFacts device_facts(const GpuDriverAnswers& cuda);
// Asks libcuda, for two seconds at most: a driver without persistence mode wakes up slowly.
DeviceFacts ask_device_facts();

}  // namespace sparkpilot
