// How many kernels a run of a network launches on a GPU, beside the steps of its plan for the CPU. The emulated GPU's
// kernels compute nothing here, so networks of full size take no time.
#include <algorithm>
#include <cstdio>

#include "gpu_main.h"
#include "networks.h"
#include "ops/cuda/images.h"

namespace sparkpilot::testing {
namespace gpu_launches_test {

constexpr double kMostLaunches = 1.15;  // for each step of the CPU

class GpuLaunches : public NetworkTest {
 protected:
  void SetUp() override {
    emulate_plainly();
    setenv("EMULATED_CUDA_IDLE", "1", 1);
    emulate("gb10");
    NetworkTest::SetUp();
  }
  void TearDown() override { unsetenv("EMULATED_CUDA_IDLE"); }

  Session session(const char* device, Precision precision) const {
    SessionOptions options{.device = device, .threads = 1, .tune = Tune::off, .profile = true};
    options.passes.precision = precision;
    options.passes.off = {
        "chain"};  // a chain is one step on the CPU, and on a GPU faster as a launch for each convolution
    Session out(network_.load(), options);
    fill_inputs(out, 7);
    out.run();
    return out;
  }
};

TEST_P(GpuLaunches, AreLittleMoreThanTheStepsOfTheCpu) {
  NEEDS_IMAGES();
  const Profile on_cpu = session("cpu", Precision::fp32).profile();
  const auto steps =
      std::count_if(on_cpu.nodes.begin(), on_cpu.nodes.end(), [](const NodeProfile& node) { return node.calls > 0; });
  std::string line = fmt::format("{}: {} steps on the CPU; launches", GetParam(), steps);
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    const Session gpu = session("cuda", precision);
    const int64_t launches = gpu.transfers().launches;
    line += fmt::format("  {} {} ({:.2f})", name(precision), launches,
                        static_cast<double>(launches) / static_cast<double>(steps));
    EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
    EXPECT_LE(static_cast<double>(launches), kMostLaunches * static_cast<double>(steps)) << name(precision);
  }
  std::printf("%s\n", line.c_str());
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuLaunches,
                         ::testing::Values("tiny_driving_vision", "tiny_driving_policy", "tiny_dmonitoring_model",
                                           "driving_vision", "driving_policy", "dmonitoring_model",
                                           "openpilot_dm/dmonitoring_model_v0.8.9_2021-08.onnx",
                                           "controls_challenge/tinyphysics.onnx"),
                         test_name);

}  // namespace gpu_launches_test
}  // namespace sparkpilot::testing
