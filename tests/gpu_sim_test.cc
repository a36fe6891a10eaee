// Simulated worlds on the emulated GPU: the bits of the processor's single worlds.
#include <cstdlib>

#include "base/parallel.h"
#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "sim/batch.h"
#include "sim/test_worlds.h"
#include "tensor/gpu.h"

namespace sparkpilot::sim {
namespace {

class GpuSim : public GpuTest {
 protected:
  void SetUp() override {
    if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
    GpuTest::SetUp();
  }
};

std::vector<WorldResult> run(int64_t count, BatchOptions options, bool on_gpu) {
  if (on_gpu) options.gpu = GpuDevice::open(0);
  else options.number = Number::single;
  return run_worlds(count, varied, options);
}

TEST_F(GpuSim, GivesTheBitsOfTheProcessor) {
  for (const char* name : {"gb10", "h100"}) {  // one memory for both, and two
    emulate(name);
    for (const Lateral lateral : kControls) {
      for (const Tyres tyres : kTyres) {
        const BatchOptions options{.lateral = lateral, .tyres = tyres, .steps = 450, .warm_up = 20, .seed = 7};
        const auto expected = run(75, options, false), got = run(75, options, true);
        EXPECT_EQ(got, expected) << name << " " << static_cast<int>(lateral) << " " << static_cast<int>(tyres);
      }
    }
  }
  EXPECT_EQ(driver_count("kernel worlds_torque_saturating"), 1);
}

TEST_F(GpuSim, DoesNotDependOnTheOrderOfThreads) {
  const BatchOptions options{.steps = 30};
  const auto expected = run(200, options, true);
  setenv("EMULATED_CUDA_SEED", "5", 1);
  emulate("gb10");
  EXPECT_EQ(run(200, options, true), expected);
}

TEST_F(GpuSim, TakesMoreWorldsThanItComputesTogether) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{65536}, int64_t{131072 + 33}}) {
    for (const char* name : {"gb10", "h100"}) {
      emulate(name);
      const BatchOptions options{.steps = 2};
      EXPECT_EQ(run(count, options, true), run(count, options, false)) << count << " on " << name;
    }
  }
}

TEST_F(GpuSim, AnErrorOfTheDriverOrOfAWorldLeavesNothing) {
  for (const std::string fault : {"cuLaunchKernel:1:1", "cuMemcpyDtoHAsync_v2:1:1", "cuMemAlloc_v2:2:2",
                                  "cuMemsetD8Async:1:1", "cuStreamSynchronize:1:700", "cuMemHostAlloc:2:2"}) {
    emulate("h100", fault.c_str());
    const std::string error = error_of([] { run(70, {.steps = 1}, true); });
    const std::string what = fault.starts_with("cuLaunch") ? "launch of worlds_torque_linear" : fault.substr(0, 8);
    EXPECT_NE(error.find(what), std::string::npos) << fault << ": " << error;
    // After an error that ends a context there is nothing to give back.
    const char* const held = fault.ends_with(":700") ? "held contexts 1" : kNothingHeld;
    EXPECT_EQ(held_by_driver().substr(0, std::string(held).size()), held) << fault;
  }
  emulate_plainly();
  BatchOptions options{.steps = 1, .gpu = GpuDevice::open(0)};
  const auto broken = [](int64_t i) -> WorldSpec {
    if (i == 70000) throw std::out_of_range("no such world");
    return {};
  };
  EXPECT_THROW(run_worlds(80000, broken, options), std::out_of_range);
  const auto wrong = [](int64_t i) {
    WorldSpec world;
    if (i == 5) world.course.speed = -1;
    return world;
  };
  EXPECT_THROW(run_worlds(10, wrong, options), Error);
  EXPECT_EQ(run_worlds(10, varied, options), run(10, options, true));
}

}  // namespace
}  // namespace sparkpilot::sim

int main(int argc, char** argv) { return sparkpilot::run_with_emulated_driver(argc, argv); }
