#include "doctor/verify.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/test_files.h"
#include "doctor/report.h"

namespace sparkpilot {
namespace {

// The driver is the tests' own library (tests/fake_driver/cuda.cc); the loading, the calls and the comparison are real.
Verifications verify(const char* mode, double wait_seconds = 20) {
  // A new name for each: libraries that hung are remembered by name.
  const TempFolder folder;
  const std::string link = folder.file(fmt::format("verify_{}.so", mode));
  std::filesystem::create_symlink(FAKE_CUDA, link);
  setenv("FAKE_DRIVER", mode, 1);
  Verifications out = verify_gpus({.wait_seconds = wait_seconds, .libraries = {link}});
  unsetenv("FAKE_DRIVER");
  return out;
}

int held() {
  void* const library = dlopen(FAKE_CUDA, RTLD_NOW);
  const auto held = reinterpret_cast<int (*)()>(dlsym(library, "fake_held"));
  return held();
}

TEST(Verify, RightToTheBit) {
  const Verifications out = verify("");
  EXPECT_EQ(out.problem, "");
  ASSERT_EQ(out.devices.size(), 1U);
  EXPECT_TRUE(out.devices[0].right) << out.devices[0].problem;
  EXPECT_EQ(out.devices[0].name, "NVIDIA GB10");
  EXPECT_EQ(out.devices[0].values, 65'537);
  EXPECT_TRUE(out.devices[0].start_ms);
  EXPECT_EQ(held(), 0);
}

TEST(Verify, OneWrongBitIsSeen) {
  const Verifications out = verify("wrong");
  ASSERT_EQ(out.devices.size(), 1U);
  EXPECT_FALSE(out.devices[0].right);
  EXPECT_EQ(out.devices[0].wrong, 1);
  EXPECT_EQ(out.devices[0].problem.substr(0, 14), "value 65536 is") << out.devices[0].problem;
}

TEST(Verify, SaysWhatFailedAndGivesEverythingBack) {
  const Verifications out = verify("no_memory");
  ASSERT_EQ(out.devices.size(), 1U);
  EXPECT_FALSE(out.devices[0].right);
  EXPECT_EQ(out.devices[0].problem, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(verify("failed").problem, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
}

TEST(Verify, DoesNotWaitForEver) {
  const Verifications out = verify("hang_run", 0.1);
  EXPECT_EQ(out.problem, "cuLaunchKernel did not come back within 0.1 s");
  EXPECT_TRUE(out.devices.empty());
}

TEST(Verify, WithoutAGpuNothingIsVerified) {
  const Verifications out = verify_gpus({.libraries = {"libsparkpilot_no_such_thing.so.1"}});
  EXPECT_EQ(out.problem, "there is no NVIDIA driver");
  EXPECT_EQ(outcome(out), Verified::nothing);
  EXPECT_EQ(verification_text(out), "verify     nothing was verified: there is no NVIDIA driver\n");
  EXPECT_EQ(verification_json(out)["outcome"], "nothing_verified");

  const Verifications empty = verify("no_device");
  EXPECT_EQ(empty.problem, "the NVIDIA driver has no GPU");
  EXPECT_EQ(outcome(empty), Verified::nothing);
  EXPECT_EQ(outcome(verify("failed")), Verified::nothing);
}

TEST(Verify, OneGpuThatIsWrongOrDoesNotAnswerMakesItWrong) {
  Verifications two{.devices = {{.index = 0, .right = true}, {.index = 1, .right = true}}};
  EXPECT_EQ(outcome(two), Verified::right);
  EXPECT_EQ(verification_json(two)["outcome"], "right");
  two.devices[1].right = false;
  EXPECT_EQ(outcome(two), Verified::wrong);
  EXPECT_EQ(verification_json(two)["outcome"], "wrong");
  two.devices[1].right = true;
  two.problem = "cuLaunchKernel did not come back within 20 s";
  EXPECT_EQ(outcome(two), Verified::wrong);
  EXPECT_NE(verification_text(two).find("not every GPU was verified: cuLaunchKernel"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot
