// The machine's limits, measured: what a perfect kernel could reach here and now.
#pragma once

namespace sparkpilot {

struct Peak {
  double flops_per_second = 0;         // fp32 multiply-adds (two each) in registers
  double bytes_per_second = 0;         // reading a buffer larger than the caches
  double cached_bytes_per_second = 0;  // reading 256 KiB a thread again and again
};

// Bytes of the last-level cache; 32 MiB where the system does not say.
long last_level_cache_bytes();

// Measured on first use for this number of threads (about 50 ms), then remembered. Thread-safe. A busy machine measures
// lower than an idle one: shares of the limit above 1 mean that.
Peak measured_peak(int threads);

}  // namespace sparkpilot
