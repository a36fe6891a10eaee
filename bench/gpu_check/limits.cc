// What the GPU and its driver can do at most.
#include "bench/gpu_limits.h"

#include "bench/report.h"
#include "part.h"

namespace sparkpilot::gpu_check {

Outcome measure_limits(const Options& options, const Json&) {
  const auto gpu = GpuDevice::open(options.ordinal);
  const GpuLimits limits = measure_gpu_limits(*gpu);
  Outcome out;
  out.figures = {{"peak", to_json(limits.peak)},
                 {"empty_kernel_ns", limits.node_ns},
                 {"empty_run_us", limits.run_us},
                 {"to_gpu_bytes_per_second", limits.to_gpu},
                 {"to_host_bytes_per_second", limits.to_host}};
  return out;
}

}  // namespace sparkpilot::gpu_check
