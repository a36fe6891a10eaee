// A GPU's limits, measured, as hw/peak.h measures the processor's.
#pragma once

#include <cstdint>

#include "hw/peak.h"
#include "tensor/gpu.h"

namespace sparkpilot {

struct GpuLimits {
  // Multiply-adds in registers by all multiprocessors: "fp32", and by mma.sync "fp16" and "bf16". Levels: the L2 cache
  // and memory, read by wide loads.
  Peak peak;
  double node_ns = 0;  // of a recording: from the begin of one empty kernel to the next
  double run_us = 0;   // a recording of one empty kernel, started and waited for by the processor
  // Between pinned memory and the GPU's, in bytes per second; 0 where both are one.
  double to_gpu = 0, to_host = 0;
};

// Measures now and returns the best that this process has measured on this GPU: on one a tenth of a second, on the
// emulated GPU about one. Takes at most `most_bytes` of its memory. Thread-safe. Fails (device).
GpuLimits measure_gpu_limits(GpuDevice& gpu, int64_t most_bytes = int64_t{512} << 20);

}  // namespace sparkpilot
