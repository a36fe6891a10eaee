// Ranges that NVIDIA's profilers, such as Nsight Systems (nsys), show under a name: NVTX.
//
// A profiler names its library in the environment, NVTX_INJECTION64_PATH. Without that variable, where the
// library cannot be used, and in builds that found no NVTX headers, nothing happens here.
#pragma once

#include <string>

namespace sparkpilot {

// Whether a profiler takes ranges. The first call loads its library, later ones cost nothing. Thread-safe.
bool nvtx_attached();

// From construction to destruction, in the thread that made it; ranges of one thread nest. An empty name is no range,
// and does not ask for a profiler.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  bool open_;
};

}  // namespace sparkpilot
