#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "base/test_files.h"
#include "hw/gpu_driver.h"

namespace sparkpilot {
namespace {

using State = GpuDriverAnswers::State;

// A new name for the same file: libraries that hung are remembered by name.
std::string library(const char* path, const std::string& as) {
  static const TempFolder folder;
  std::string link = folder.file(as + ".so");
  std::filesystem::remove(link);
  std::filesystem::create_symlink(path, link);
  return link;
}

class Mode {
 public:
  explicit Mode(const char* mode) { setenv("FAKE_DRIVER", mode, 1); }
  ~Mode() { unsetenv("FAKE_DRIVER"); }
};

TEST(Nvml, Answers) {
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML});
  ASSERT_EQ(nvml.state, State::answered) << nvml.reason;
  EXPECT_EQ(std::filesystem::path(nvml.library).filename(), std::filesystem::path(FAKE_NVML).filename());
  EXPECT_EQ(text(nvml.system, "driver_version"), "580.95.05");
  EXPECT_EQ(integer(nvml.system, "cuda_version"), 13000);
  ASSERT_EQ(nvml.devices.size(), 2U);
  const Answers& gpu = nvml.devices[1];
  EXPECT_EQ(text(gpu, "name"), "NVIDIA GB10");
  EXPECT_EQ(integer(gpu, "capability_major"), 12);
  EXPECT_EQ(integer(gpu, "capability_minor"), 1);
  EXPECT_EQ(integer(gpu, "memory_total_bytes"), 128LL << 30);
  EXPECT_EQ(integer(gpu, "memory_free_bytes"), 90LL << 30);
  EXPECT_EQ(integer(gpu, "memory_used_bytes"), 1LL << 30);
  EXPECT_EQ(integer(gpu, "gpu_percent"), 3);
  EXPECT_EQ(integer(gpu, "memory_percent"), 7);
  EXPECT_EQ(integer(gpu, "sm_clock_mhz"), 2411);
  EXPECT_EQ(integer(gpu, "memory_clock_mhz"), 8533);
  EXPECT_EQ(integer(gpu, "power_mw"), 13500);
  EXPECT_EQ(integer(gpu, "throttle_reasons"), 1);
  EXPECT_EQ(integer(gpu, "pci_domain"), 15);
  EXPECT_EQ(integer(gpu, "pci_id"), 0x2e1210de);
  EXPECT_FALSE(gpu.contains("fan_percent")) << "a question that the library has no function for";
}

TEST(Nvml, CountsProcessesBeyondTheFirstBuffer) {
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML});
  ASSERT_EQ(nvml.processes.size(), 2U);
  ASSERT_EQ(nvml.processes[0].size(), 200U);
  EXPECT_EQ(integer(nvml.devices[0], "compute_processes"), 200);
  EXPECT_EQ(nvml.processes[0][0], (GpuProcess{1000, std::nullopt, true}));
  EXPECT_EQ(nvml.processes[0][199], (GpuProcess{1199, 199LL << 20, true}));
}

TEST(Nvml, NoAnswerAboutProcessesIsNotNone) {
  const Mode mode("not_supported");
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML});
  EXPECT_EQ(error_of(nvml.devices[0], "compute_processes"), 3);
  EXPECT_TRUE(nvml.processes[0].empty());
}

TEST(Nvml, TakesOldEntryPoints) {
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML_OLD});
  ASSERT_EQ(nvml.state, State::answered);
  ASSERT_EQ(nvml.devices.size(), 1U);
  EXPECT_EQ(integer(nvml.system, "cuda_version"), 12020);
  EXPECT_EQ(integer(nvml.devices[0], "memory_total_bytes"), 8LL << 30);
  EXPECT_EQ(integer(nvml.devices[0], "memory_used_bytes"), 2LL << 30);
  EXPECT_EQ(integer(nvml.devices[0], "throttle_reasons"), 4);
  ASSERT_EQ(nvml.processes[0].size(), 2U);
  EXPECT_EQ(nvml.processes[0][1], (GpuProcess{1001, 1LL << 20, true}));
}

TEST(Nvml, KeepsErrors) {
  const Mode mode("not_supported");
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML});
  ASSERT_EQ(nvml.devices.size(), 2U);
  EXPECT_EQ(integer(nvml.devices[0], "memory_total_bytes"), std::nullopt);
  EXPECT_EQ(error_of(nvml.devices[0], "memory_total_bytes"), 3);
  EXPECT_EQ(nvml_error_name(3), "NVML_ERROR_NOT_SUPPORTED");
  EXPECT_EQ(nvml_error_name(12345), "NVML error 12345");
}

TEST(Nvml, OneLostDeviceLeavesTheOthers) {
  const Mode mode("lost");
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML});
  ASSERT_EQ(nvml.devices.size(), 2U);
  EXPECT_EQ(error_of(nvml.devices[0], "handle"), 15);
  EXPECT_EQ(text(nvml.devices[1], "name"), "NVIDIA GB10");
}

// The library functions called while `work` ran, with the number of calls.
std::map<std::string, int> calls_of(const std::function<void()>& work) {
  const TempFolder folder;
  const std::string file = folder.file("calls");
  setenv("FAKE_DRIVER_CALLS", file.c_str(), 1);
  work();
  unsetenv("FAKE_DRIVER_CALLS");
  std::map<std::string, int> out;
  std::ifstream calls(file);
  for (std::string name; std::getline(calls, name);) ++out[name];
  return out;
}

constexpr const char* kLasting[] = {"nvmlSystemGetDriverVersion",        "nvmlSystemGetNVMLVersion",
                                    "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetName",
                                    "nvmlDeviceGetPciInfo_v3",           "nvmlDeviceGetCudaComputeCapability",
                                    "nvmlDeviceGetMaxClockInfo",         "nvmlDeviceGetNumGpuCores",
                                    "nvmlDeviceGetTemperatureThreshold", "nvmlDeviceGetMaxPcieLinkGeneration",
                                    "nvmlDeviceGetMaxPcieLinkWidth"};

TEST(Nvml, AsksOnceWhatLasts) {
  GpuDriverAnswers nvml, again;
  const auto first = calls_of([&] { nvml = ask_nvml(5, {}, {FAKE_NVML}); });
  const auto second = calls_of([&] { again = ask_nvml(5, nvml, {FAKE_NVML}); });
  EXPECT_EQ(again, nvml);
  auto changing = first;
  for (const char* call : kLasting) {
    EXPECT_GE(first.count(call), 1U) << call;
    changing.erase(call);
  }
  EXPECT_EQ(second, changing);
  EXPECT_EQ(second.at("nvmlDeviceGetPowerUsage"), 2) << "one of each GPU";
}

TEST(Nvml, AsksAgainWhatLastsWhereGpusAreNotTheSame) {
  const GpuDriverAnswers two = ask_nvml(5, {}, {FAKE_NVML});
  const auto all = calls_of([] { ask_nvml(5, {}, {FAKE_NVML}); });
  GpuDriverAnswers before = two;
  before.devices.pop_back();
  EXPECT_EQ(calls_of([&] { ask_nvml(5, before, {FAKE_NVML}); }), all) << "one came";
  for (const char* trouble : {"lost", "failed"}) {
    {
      const Mode mode(trouble);
      before = ask_nvml(5, two, {FAKE_NVML});
    }
    GpuDriverAnswers back;
    EXPECT_EQ(calls_of([&] { back = ask_nvml(5, before, {FAKE_NVML}); }), all) << trouble;
    EXPECT_EQ(back, two);
  }
  before = two;
  before.devices[1]["power_mw"] = {{}, 15};  // it was lost during the question
  EXPECT_EQ(calls_of([&] { ask_nvml(5, before, {FAKE_NVML}); }), all);
}

TEST(Nvml, ALostGpuHasNoNameOfBefore) {
  const GpuDriverAnswers two = ask_nvml(5, {}, {FAKE_NVML});
  const Mode mode("lost");
  const GpuDriverAnswers nvml = ask_nvml(5, two, {FAKE_NVML});
  EXPECT_EQ(nvml.devices.at(0).size(), 1U);
  EXPECT_EQ(text(nvml.devices.at(1), "name"), "NVIDIA GB10");
}

TEST(Nvml, SaysWhyItDoesNotStart) {
  const Mode mode("failed");
  const GpuDriverAnswers nvml = ask_nvml(5, {}, {FAKE_NVML});
  EXPECT_EQ(nvml.state, State::failed);
  EXPECT_EQ(nvml.error, 18);
  EXPECT_TRUE(nvml.devices.empty());
}

TEST(Nvml, LeavesALibraryAloneThatHangs) {
  for (const char* hang : {"hang_init", "hang_device"}) {
    const std::string path = library(FAKE_NVML, hang);
    const auto start = std::chrono::steady_clock::now();
    {
      const Mode mode(hang);
      const GpuDriverAnswers nvml = ask_nvml(0.05, {}, {path});
      EXPECT_EQ(nvml.state, State::timed_out);
      const char* const call = std::string(hang) == "hang_init" ? "nvmlInit" : "nvmlDeviceGetName";
      EXPECT_NE(nvml.reason.find(call), std::string::npos) << nvml.reason;
    }
    // Even though it would answer now.
    EXPECT_EQ(ask_nvml(100, {}, {path}).state, State::timed_out);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  }
}

// A GPU that wakes takes its time, once.
TEST(Nvml, AsksALibraryAgainThatWasSlow) {
  const std::string path = library(FAKE_NVML, "slow_device");
  {
    const Mode mode("slow_device");
    EXPECT_EQ(ask_nvml(0.02, {}, {path}).state, State::timed_out);
  }
  for (int i = 0; i < 600 && ask_nvml(5, {}, {path}).state == State::timed_out; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(ask_nvml(60, {}, {path}).state, State::answered);
}

TEST(Nvml, AbsentUnusableAndNoNvmlAreDifferent) {
  EXPECT_EQ(ask_nvml(5, {}, {"libsparkpilot_no_such_thing.so.1"}).state, State::absent);
  const TempFolder folder;
  const std::string broken = folder.file("broken_nvml.so");
  write_text(broken, "\177ELF and nothing more");
  const GpuDriverAnswers unusable = ask_nvml(5, {}, {broken});
  EXPECT_EQ(unusable.state, State::unusable);
  EXPECT_NE(unusable.reason.find("broken_nvml.so"), std::string::npos) << unusable.reason;
  EXPECT_EQ(ask_nvml(5, {}, {FAKE_CUDA}).state, State::unusable);
}

TEST(Cuda, Answers) {
  const GpuDriverAnswers cuda = ask_cuda(5, {FAKE_CUDA});
  ASSERT_EQ(cuda.state, State::answered) << cuda.reason;
  ASSERT_EQ(cuda.devices.size(), 1U);
  EXPECT_EQ(integer(cuda.devices[0], "capability_major"), 12);
  EXPECT_EQ(integer(cuda.devices[0], "multiprocessors"), 48);
  EXPECT_EQ(integer(cuda.devices[0], "memory_total_bytes"), 119LL << 30);
  EXPECT_EQ(error_of(cuda.devices[0], "copy_engines"), 1);
  const Mode mode("failed");
  const GpuDriverAnswers mismatch = ask_cuda(5, {FAKE_CUDA});
  EXPECT_EQ(mismatch.state, State::failed);
  EXPECT_EQ(cuda_error_name(mismatch.error), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
  EXPECT_EQ(integer(mismatch.system, "cuda_version"), 13000);
}

TEST(Cuda, LeavesALibraryAloneThatHangs) {
  const Mode mode("hang_init");
  const GpuDriverAnswers cuda = ask_cuda(0.05, {library(FAKE_CUDA, "hang_cuda")});
  EXPECT_EQ(cuda.state, State::timed_out);
  EXPECT_NE(cuda.reason.find("cuInit"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot
