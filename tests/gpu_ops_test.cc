// The CUDA kernels of all ops, on the ops' own cases, on the emulated GPU.
#include "gpu_main.h"
#include "ops/check_gpu.h"
#include "ops/cuda/images.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

class GpuOps : public GpuTest {};

TEST_F(GpuOps, EveryKernelComputesWhatTheReferenceDoes) {
  if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  for (const char* name : {"gb10", "h100"}) {
    emulate(name);
    const auto gpu = GpuDevice::open(0);
    int passed = 0;
    for (const CheckResult& result : check_ops_on_gpu("", 1, *gpu)) {
      EXPECT_NE(result.outcome, CheckResult::failed)
          << name << ": " << result.op << "/" << result.kernel << " " << result.case_name << ": " << result.message;
      passed += result.outcome == CheckResult::passed;
    }
    EXPECT_GT(passed, 2900);
  }
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) { return sparkpilot::run_with_emulated_driver(argc, argv); }
