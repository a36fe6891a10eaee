// For tests that compute on the emulated GPU (tests/emulated_cuda): the program runs itself again with the folder of
// that libcuda.so.1 first in LD_LIBRARY_PATH, so the driver is loaded as the real one would be.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "hw/cuda_api.h"
#include "ops/cuda/images.h"
#include "sparkpilot/error.h"

namespace sparkpilot {

#define NEEDS_IMAGES() \
  if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code"

inline void* driver_symbol(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? dlsym(library, name) : nullptr;
}

// Another driver, as after a start of the process. `gpus` as in EMULATED_GPU, `fail` as in EMULATED_CUDA_FAIL.
inline void emulate(const char* gpus, const char* fail = nullptr) {
  setenv("EMULATED_GPU", gpus, 1);
  if (fail) setenv("EMULATED_CUDA_FAIL", fail, 1);
  std::string why_not;
  const cuda::CudaApi* const api = cuda::cuda_api(why_not);
  reinterpret_cast<void (*)()>(driver_symbol("emulated_cuda_reset"))();
  if (api) api->cuInit(0);
}

// What the driver holds, and how often it was asked for what.
inline std::string driver_report() {
  return reinterpret_cast<const char* (*)()>(driver_symbol("emulated_cuda_report"))();
}
inline std::string held_by_driver() { return driver_report().substr(0, driver_report().find('\n')); }
constexpr const char* kNothingHeld = "held contexts 0 modules 0 buffers 0 streams 0 events 0 graphs 0 executables 0";
inline int driver_count(const std::string& what) {
  const std::string text = driver_report();
  const size_t at = text.find("\n" + what + " ");
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + what.size() + 2);
}

// The driver of a GB10 without whatever an earlier test asked it for.
inline void emulate_plainly() {
  for (const char* name : {"EMULATED_CUDA_FAIL", "EMULATED_CUDA_SEED", "EMULATED_CUDA_MEMORY", "EMULATED_CUDA_WRONG",
                           "EMULATED_CUDA_TIMES", "EMULATED_CUDA_IDLE", "EMULATED_CUDA_CHECK"})
    unsetenv(name);
  emulate("gb10");
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { emulate_plainly(); }
  void TearDown() override {
    if (IsSkipped() || HasFatalFailure()) return;
    EXPECT_EQ(held_by_driver(), kNothingHeld);
  }
  // The text of the Error of kind device that `work` throws; empty if it throws none.
  static std::string error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device) << error.what();
      return error.what();
    }
    return "";
  }
};

// `wanted`: the folder of the libcuda.so.1 to run with.
inline int run_with_emulated_driver(int argc, char** argv, const std::string& wanted = EMULATED_CUDA) {
  const char* const path = getenv("LD_LIBRARY_PATH");
  if (!path || std::string(path).rfind(wanted, 0) != 0) {
    setenv("LD_LIBRARY_PATH", (wanted + (path && *path ? ":" + std::string(path) : "")).c_str(), 1);
    execv("/proc/self/exe", argv);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace sparkpilot
