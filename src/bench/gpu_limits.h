// A GPU's limits, measured, as hw/peak.h measures the processor's.
#pragma once

#include <cstdint>

#include "hw/peak.h"
#include "tensor/gpu.h"

namespace sparkpilot {

struct GpuLimits {
  // Multiply-adds in registers by all multiprocessors: "fp32", and by mma.sync "fp16" and "bf16". Levels: the L2 cache
  // and memory, read by wide loads; the cache's rates are 0 where it was not measured (limit_bytes()).
  Peak peak;
  double node_ns = 0;  // of a recording: from the begin of one empty kernel to the next
  double run_us = 0;   // a recording of one empty kernel, started and waited for by the processor
  // Between pinned memory and the GPU's, in bytes per second; 0 where both are one.
  double to_gpu = 0, to_host = 0;
};

// The bytes that are read to measure a GPU's memory and its L2 cache: four times what the cache holds, so that hardly
// any of it is found there, and a half of it. `available`: bytes of its memory that can be taken, a half of which is
// the most. `l2` is 0 if there are too few to measure the cache.
struct LimitBytes {
  int64_t memory = 0, l2 = 0;
};
LimitBytes limit_bytes(int64_t l2_bytes, int64_t available);

// Measures now and returns the best that this process has measured on this GPU: on one a tenth of a second, on the
// emulated GPU about one. Takes at most a half of its memory that can be taken. Thread-safe. Fails (device).
GpuLimits measure_gpu_limits(GpuDevice& gpu);

}  // namespace sparkpilot
