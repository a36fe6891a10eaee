// NVML's readings of the GPUs and of the processes on them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hw/source.h"
#include "monitor/sample.h"

namespace sparkpilot::monitor {

struct GpuReading {
  std::vector<GpuSample> gpus;
  std::string problem;                                      // why NVML does not answer
  std::map<int64_t, std::optional<int64_t>> process_bytes;  // by process, on all GPUs together
};

GpuReading read_gpus(Source& source);

// "power cap", "hot (hardware)": NVML's bits. Empty if the value is not one of NVML's.
std::optional<std::vector<std::string>> throttle_words(uint64_t bits);

}  // namespace sparkpilot::monitor
