#include "doctor/verify.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace sparkpilot {
namespace {

// The driver is a library of the tests' (tests/fake_driver/cuda.cc); the loading, the calls and the comparison are
// real.
Verifications verify(const char* mode, double wait_seconds = 20) {
  // A library that hung is remembered by name.
  const std::string link = testing::TempDir() + "verify_" + mode + std::to_string(getpid()) + ".so";
  std::filesystem::remove(link);
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

TEST(Verify, NoDriverIsNoFault) {
  const Verifications out = verify_gpus({.libraries = {"libsparkpilot_no_such_thing.so.1"}});
  EXPECT_TRUE(out.absent);
  EXPECT_EQ(out.problem, "there is no NVIDIA driver");
}

}  // namespace
}  // namespace sparkpilot
