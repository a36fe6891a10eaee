#include "doctor/doctor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "doctor/check.h"
#include "doctor/libraries.h"
#include "doctor/load.h"
#include "doctor/report.h"
#include "doctor/versions.h"
#include "hw/record.h"
#include "ops/cuda/images.h"
#include "stack/test_files.h"

namespace sparkpilot {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kMachines = SPARKPILOT_SOURCE_DIR "/tests/machines";

json fixture(const std::string& name) {
  std::ifstream file(kMachines / (name + ".json"));
  return json::parse(file);
}

Diagnosis examined(const json& machine, const DoctorOptions& options = {.here = false}) {
  const auto source = recorded_source(machine.dump(), "test");
  return examine(*source, options);
}

std::set<std::string> ids(const Diagnosis& diagnosis) {
  std::set<std::string> out;
  for (const Finding& finding : diagnosis.findings) out.insert(finding.id);
  return out;
}

// The findings expected for each machine of tests/machines, and no others.
struct Expected {
  const char* machine;
  std::set<std::string> findings;
};
const Expected kExpected[] = {
    {"broken_libraries", {"driver.mismatch", "driver.broken"}},
    {"comma_mici", {}},
    {"comma_tici", {}},
    {"container_without_gpu", {"system.container"}},
    {"device_without_driver", {"driver.missing"}},
    {"driver_without_device", {"driver.no_device"}},
    {"laptop_rtx", {"library.missing"}},
    {"no_gpu", {}},
    {"pc_two_gpus", {"library.missing"}},
    {"server_h200", {"library.missing"}},
    {"spark_asus", {"library.missing"}},
    {"spark_dell", {"library.missing", "memory.page_cache"}},
    {"spark_founders_edition", {"library.missing"}},
    {"spark_lenovo", {"library.missing"}},
    {"spark_nvml_memory", {"library.missing"}},
    {"wsl2", {"library.missing"}},
};

TEST(Doctor, EveryMachineIsToldWhatItHas) {
  std::set<std::string> known = {"garbage.json"};
  for (const Expected& expected : kExpected) {
    const Diagnosis diagnosis = examined(fixture(expected.machine));
    std::string seen;
    for (const Finding& finding : diagnosis.findings) seen += finding.id + ": " + finding.seen + "\n";
    EXPECT_EQ(ids(diagnosis), expected.findings) << expected.machine << "\n" << seen;
    known.insert(std::string(expected.machine) + ".json");
  }
  for (const auto& entry : fs::directory_iterator(kMachines)) {
    EXPECT_TRUE(known.contains(entry.path().filename().string())) << entry.path() << " has no expectation";
  }
}

TEST(Doctor, SurvivesGarbage) {
  const Diagnosis diagnosis = examined(fixture("garbage"));
  EXPECT_EQ(diagnosis.findings.size() + diagnosis.passed.size(), checks().size());
  EXPECT_FALSE(report_text(diagnosis, {.all = true}).empty());
}

// A machine without faults: a Spark with its whole stack and two cables, under load.
json healthy() {
  json machine = fixture("spark_founders_edition");
  machine["kernel_log"] = json::array();
  machine["variables"] = {{"HOME", "/u/me"}, {"TRITON_PTXAS_PATH", "/usr/local/cuda/bin/ptxas"}};
  machine["access"]["/u/me"] = "read_write";
  json& files = machine["files"];
  files["/sys/devices/system/cpu/present"] = "0-19\n";
  files["/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"] = "performance\n";
  files["/sys/fs/cgroup/cpu.max"] = "max 100000\n";
  files["/sys/class/power_supply/ADP0/type"] = "Mains\n";
  files["/sys/class/power_supply/ADP0/online"] = "1\n";
  files["/proc/pressure/memory"] =
      "some avg10=0.00 avg60=0.10 avg300=0.00 total=1\nfull avg10=0 avg60=0 avg300=0 total=0\n";
  files["/usr/local/cuda/version.json"] = R"({"cuda": {"name": "CUDA SDK", "version": "13.0.2"}})";
  files["/usr/local/cuda/bin/ptxas"] = "\177ELF";
  files["/usr/local/cuda/lib64/libcublasLt.so.13.0.2.14"] = "\177ELF";
  files["/usr/local/cuda/lib64/libcufile.so.1.15.1"] = "\177ELF";
  const std::string system = "/usr/lib/aarch64-linux-gnu/";
  for (const char* name : {"libcudnn.so.9.13.0", "libcusparseLt.so.0.8.0", "libnccl.so.2.28.9"})
    files[system + name] = "\177ELF";
  const std::string packages = "/u/me/.local/lib/python3.12/site-packages/";
  for (const char* name : {"torch-2.9.1+cu130", "triton-3.5.1", "nvidia_cutlass_dsl-4.5.1"}) {
    files[packages + name + ".dist-info/METADATA"] = "";
  }
  files[packages + "torch/version.py"] = "__version__ = '2.9.1+cu130'\ncuda: Optional[str] = '13.0'\n";
  for (const char* port : {"enp1s0f1np1", "enP2p1s0f1np1"}) {
    const std::string folder = std::string("/sys/class/net/") + port;
    files[folder + "/operstate"] = "up\n";
    files[folder + "/speed"] = "200000\n";
    files[folder + "/mtu"] = "9000\n";
  }
  for (const char* hca : {"rocep1s0f1", "roceP2p1s0f1"}) {
    files[std::string("/sys/class/infiniband/") + hca + "/ports/1/state"] = "4: ACTIVE\n";
  }
  json& gpu = machine["nvml"]["devices"][0];
  gpu["gpu_percent"] = 96;
  gpu["sm_clock_mhz"] = 2405;
  gpu["power_mw"] = 88'000;
  return machine;
}

TEST(Doctor, NothingIsFoundOnAHealthyMachine) {
  const Diagnosis diagnosis = examined(healthy());
  for (const Finding& finding : diagnosis.findings) ADD_FAILURE() << finding.id << ": " << finding.seen;
  std::set<std::string> looked;
  for (const Passed& passed : diagnosis.passed) {
    if (passed.looked) looked.insert(passed.id);
  }
  EXPECT_GE(looked.size(), 38U);
}

// A single fault of a machine, and the finding expected for it.
struct Fault {
  const char* id;
  const char* seen;  // part of what the finding saw
  std::function<void(json& machine)> make;
};

json& gpu(json& machine) { return machine["nvml"]["devices"][0]; }
void file(json& machine, const std::string& path, const std::string& text) { machine["files"][path] = text; }
void fails(json& machine, const char* library, int error) {
  machine[library] = {{"state", "failed"}, {"error", error}};
}
void meminfo(json& machine, const std::string& key, int64_t value) {
  for (json& line : machine["files"]["/proc/meminfo"]) {
    if (line.get<std::string>().starts_with(key + ":"))
      line = key + ": " + std::to_string(value) + (key[0] == 'H' && key[4] == 'P' ? "" : " kB");
  }
}
constexpr const char* kPackages = "/u/me/.local/lib/python3.12/site-packages/";

const Fault kFaults[] = {
    {"driver.missing", "neither a driver",
     [](json& m) {
       m.erase("nvml");
       m.erase("cuda");
       m["files"].erase("/sys/module/nvidia/version");
       m["files"].erase("/proc/driver/nvidia/version");
     }},
    {"driver.missing", "is in the kernel, and its libraries are not there",
     [](json& m) {
       m.erase("nvml");
       m.erase("cuda");
     }},
    {"driver.not_loaded", "NVML_ERROR_DRIVER_NOT_LOADED", [](json& m) { fails(m, "nvml", 9); }},
    {"driver.mismatch", "of another", [](json& m) { fails(m, "nvml", 18); }},
    {"driver.mismatch", "libraries are of 580.105.08",
     [](json& m) { m["nvml"]["system"]["driver_version"] = "580.105.08"; }},
    {"driver.hangs", "NVML: nvmlInit did not",
     [](json& m) {
       m["nvml"] = {{"state", "timed_out"}, {"reason", "nvmlInit did not come back within 0.5 s"}};
     }},
    {"driver.broken", "too short",
     [](json& m) {
       m["cuda"] = {{"state", "unusable"}, {"reason", "file too short"}};
     }},
    {"driver.cuda_fails", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", [](json& m) { fails(m, "cuda", 803); }},
    {"driver.cuda_fails", "stub", [](json& m) { fails(m, "cuda", 34); }},
    {"driver.cuda_fails", "libcuda.so.1 is not", [](json& m) { m.erase("cuda"); }},
    {"driver.too_old", "570.10, and compute capability 12.1 needs 580",
     [](json& m) {
       m["nvml"]["system"]["driver_version"] = "570.10";
       m["files"]["/sys/module/nvidia/version"] = "570.10\n";
       m["files"].erase("/proc/driver/nvidia/version");
     }},
    {"driver.toolkit_major", "CUDA 14.1, the driver serves CUDA 13.0",
     [](json& m) { file(m, "/usr/local/cuda/version.json", R"({"cuda": {"version": "14.1"}})"); }},
    {"driver.toolkit_minor", "CUDA 13.2, the driver compiles PTX up to CUDA 13.0",
     [](json& m) { file(m, "/usr/local/cuda/version.json", R"({"cuda": {"version": "13.2"}})"); }},
    {"driver.toolkit_minor", "CUDA 13.2, the driver compiles PTX up to CUDA 13.0",
     [](json& m) {
       m["files"].erase("/usr/local/cuda/version.json");
       file(m, "/usr/local/cuda/include/cuda.h", "#ifndef CUDA\n#define CUDA_VERSION 13020\n");
     }},
    {"driver.toolkit_old", "needs 12.9",
     [](json& m) { file(m, "/usr/local/cuda/version.json", R"({"cuda": {"version": "12.8.1"}})"); }},
    {"gpu.lost", "NVML_ERROR_GPU_IS_LOST",
     [](json& m) {
       m["nvml"]["devices"][0] = {{"handle", {{"error", 15}}}};
     }},
    {"gpu.xid", "Xid 79 (the GPU has fallen off the bus), 2 times",
     [](json& m) {
       m["kernel_log"] = {"[1] NVRM: Xid (PCI:000f:01:00): 79, pid=1, GPU has fallen off the bus.",
                          "[2] NVRM: Xid (PCI:000f:01:00): 79, pid=2", "[3] NVRM: Xid (PCI:000f:01:00): 31, pid=2"};
     }},
    {"gpu.xid", "Xid 140 (memory errors that were not recovered from), 1 time",
     [](json& m) { m["kernel_log"] = {"[1] NVRM: Xid (PCI:000f:01:00): 140, pid=1"}; }},
    {"gpu.xid", "Xid 999 (see NVIDIA's catalogue), 2 times",
     [](json& m) {
       m["kernel_log"] = {"[1] NVRM: Xid (PCI:000f:01:00): 999, pid=1", "[2] NVRM: Xid (PCI:000f:01:00): 999, pid=1"};
     }},
    {"gpu.permission", "/dev/nvidia0", [](json& m) { m["access"]["/dev/nvidia0"] = "denied"; }},
    {"gpu.uvm", "/dev/nvidia-uvm is not",
     [](json& m) {
       m["access"].erase("/dev/nvidia-uvm");
       fails(m, "cuda", 999);
     }},
    {"gpu.hidden", "leaves 0 of 1",
     [](json& m) {
       m["variables"]["CUDA_VISIBLE_DEVICES"] = "";
       m["cuda"]["devices"] = json::array();
     }},
    {"gpu.compute_mode", "PROHIBITED", [](json& m) { gpu(m)["compute_mode"] = 2; }},
    {"gpu.heat", "because of heat at 84 °C",
     [](json& m) {
       gpu(m)["throttle_reasons"] = 0x40;
       gpu(m)["temperature_c"] = 84;
     }},
    {"gpu.heat", "at its limit of 87",
     [](json& m) {
       gpu(m)["slowdown_temperature_c"] = 87;
       gpu(m)["temperature_c"] = 87;
     }},
    {"gpu.power_brake", "power brake", [](json& m) { gpu(m)["throttle_reasons"] = 0x80; }},
    {"gpu.low_power", "up to 850 MHz and 22 W",
     [](json& m) {
       gpu(m)["sm_clock_mhz"] = 850;
       gpu(m)["power_mw"] = 22'000;
     }},
    {"gpu.ecc", "3 memory errors", [](json& m) { gpu(m)["ecc_uncorrected"] = 3; }},
    {"gpu.mig", "divided", [](json& m) { gpu(m)["mig"] = 1; }},
    {"memory.available", "can still be taken",
     [](json& m) {
       meminfo(m, "MemAvailable", 1'000'000);
       meminfo(m, "SwapFree", 0);
       meminfo(m, "SwapTotal", 0);
     }},
    {"memory.available", "0.0 GiB of 122 GiB and 16.0 GiB of swap space can still be taken: huge pages",
     [](json& m) {
       meminfo(m, "HugePages_Total", 1);
       meminfo(m, "HugePages_Free", 0);
     }},
    {"memory.available", "0.5 GiB of 122 GiB and 16.0 GiB of swap space can still be taken: a control group",
     [](json& m) {
       file(m, "/proc/self/cgroup", "0::/box\n");
       file(m, "/sys/fs/cgroup/box/memory.max", std::to_string(int64_t{2} << 30) + "\n");
       file(m, "/sys/fs/cgroup/box/memory.current", std::to_string(int64_t{3} << 29) + "\n");
     }},
    {"memory.page_cache", "cached files fill",
     [](json& m) {
       meminfo(m, "MemFree", 3'000'000);
       meminfo(m, "Cached", 100'000'000);
     }},
    {"memory.huge_pages", "nothing uses",
     [](json& m) {
       meminfo(m, "HugePages_Total", 20'000);
       meminfo(m, "HugePages_Free", 20'000);
     }},
    {"memory.swap", "15.0 GiB of 16.0 GiB swap space", [](json& m) { meminfo(m, "SwapFree", 1'000'000); }},
    {"memory.pressure", "43 %",
     [](json& m) { file(m, "/proc/pressure/memory", "some avg10=1 avg60=43.2 avg300=0 total=1\n"); }},
    {"memory.oom_kills", "ended 1 program",
     [](json& m) { m["kernel_log"] = {"[9] Out of memory: Killed process 4242 (python) total-vm:1kB"}; }},
    {"system.container", "no /dev/nvidia",
     [](json& m) {
       file(m, "/.dockerenv", "");
       m.erase("access");
     }},
    {"system.shared_memory", "64 MiB",
     [](json& m) {
       file(m, "/.dockerenv", "");
       m["space"]["/dev/shm"] = {{"total_bytes", 67108864}, {"free_bytes", 67108864}};
     }},
    {"system.wsl", "WSL 1", [](json& m) { file(m, "/proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n"); }},
    {"system.library_path", "stubs",
     [](json& m) { m["variables"]["LD_LIBRARY_PATH"] = "/x:/usr/local/cuda/lib64/stubs"; }},
    {"cpu.simd", "no AVX2",
     [](json& m) {
       m["architecture"] = "x86_64";
       file(m, "/proc/cpuinfo", "processor\t: 0\nmodel name\t: Old\nflags\t\t: fpu sse2 avx\n");
     }},
    {"cpu.offline", "only 0-9 are online", [](json& m) { file(m, "/sys/devices/system/cpu/online", "0-9\n"); }},
    {"cpu.governor", "powersave",
     [](json& m) {
       file(m, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
       file(m, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "cppc_cpufreq\n");
     }},
    {"cpu.quota", "2 of 20 processors", [](json& m) { file(m, "/sys/fs/cgroup/cpu.max", "200000 100000\n"); }},
    {"cpu.quota", "1.5 of 20 processors",
     [](json& m) {
       file(m, "/proc/self/cgroup", "3:cpu,cpuacct:/docker/x\n");
       file(m, "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "150000\n");
       file(m, "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
     }},
    {"cpu.quota", "5 of 20 processors",
     [](json& m) { file(m, "/proc/self/status", "Name:\tx\nCpus_allowed:\tf1\nCpus_allowed_list:\t0,4-7\n"); }},
    {"power.battery", "on its battery",
     [](json& m) {
       file(m, "/sys/class/power_supply/ADP0/online", "0\n");
       file(m, "/sys/class/power_supply/BAT0/type", "Battery\n");
       file(m, "/sys/class/power_supply/BAT0/status", "Discharging\n");
     }},
    {"library.missing", "cuDNN", [](json& m) { m["files"].erase("/usr/lib/aarch64-linux-gnu/libcudnn.so.9.13.0"); }},
    {"library.damaged", "is no library",
     [](json& m) { file(m, "/usr/lib/aarch64-linux-gnu/libcudnn.so.9.13.0", "version https://git-lfs"); }},
    {"library.cublaslt", "libcublasLt 12.6.4, and compute capability 12.1 needs 12.9",
     [](json& m) {
       m["files"].erase("/usr/local/cuda/lib64/libcublasLt.so.13.0.2.14");
       file(m, "/usr/local/cuda/lib64/libcublasLt.so.12.6.4", "\177ELF");
     }},
    {"library.cudnn", "libcudnn 9.1.1",
     [](json& m) {
       m["files"].erase("/usr/lib/aarch64-linux-gnu/libcudnn.so.9.13.0");
       file(m, "/usr/lib/aarch64-linux-gnu/libcudnn.so.9.1.1", "\177ELF");
     }},
    {"library.cudnn_layernorm", "cuDNN 9.18.1",
     [](json& m) { file(m, "/usr/lib/aarch64-linux-gnu/libcudnn.so.9.18.1", "\177ELF"); }},
    {"library.cusparselt", "libcusparseLt 0.7.1",
     [](json& m) {
       m["files"].erase("/usr/lib/aarch64-linux-gnu/libcusparseLt.so.0.8.0");
       file(m, "/usr/lib/aarch64-linux-gnu/libcusparseLt.so.0.7.1", "\177ELF");
     }},
    {"library.cusparselt", "libcusparseLt 0.7.1",
     [](json& m) {
       m["files"].erase("/usr/lib/aarch64-linux-gnu/libcusparseLt.so.0.8.0");
       file(m, "/usr/lib/aarch64-linux-gnu/libcusparseLt/13/libcusparseLt.so.0.7.1", "\177ELF");
     }},
    {"library.nccl", "libnccl 2.26.2",
     [](json& m) {
       m["files"].erase("/usr/lib/aarch64-linux-gnu/libnccl.so.2.28.9");
       file(m, "/usr/lib/aarch64-linux-gnu/libnccl.so.2.26.2", "\177ELF");
     }},
    {"python.torch_cuda", "without CUDA",
     [](json& m) { file(m, std::string(kPackages) + "torch/version.py", "\ncuda = None\n"); }},
    {"python.torch_old", "CUDA 12.6",
     [](json& m) { file(m, std::string(kPackages) + "torch/version.py", "\ncuda: Optional[str] = '12.6'\n"); }},
    {"python.torch_old", "built with CUDA 14.0, and the driver serves CUDA 13.0",
     [](json& m) { file(m, std::string(kPackages) + "torch/version.py", "\ncuda: Optional[str] = '14.0'\n"); }},
    {"python.ptxas", "not set", [](json& m) { m["variables"].erase("TRITON_PTXAS_PATH"); }},
    {"python.ptxas", "not there", [](json& m) { m["variables"]["TRITON_PTXAS_PATH"] = "/x"; }},
    {"python.cutlass", "4.5.0",
     [](json& m) {
       m["files"].erase(std::string(kPackages) + "nvidia_cutlass_dsl-4.5.1.dist-info/METADATA");
       file(m, std::string(kPackages) + "nvidia_cutlass_dsl-4.5.0.dist-info/METADATA", "");
     }},
    {"disk.space", "minutes of routes",
     [](json& m) {
       m["space"]["/u/me"] = {{"total_bytes", 1LL << 40}, {"free_bytes", 1LL << 30}};
     }},
    {"disk.kind", "spinning disk", [](json& m) { file(m, "/sys/class/block/nvme0n1/queue/rotational", "1\n"); }},
    {"disk.kind", "on the network", [](json& m) { m["files"]["/proc/mounts"].push_back("nas:/x /u nfs4 rw 0 0"); }},
    {"disk.home", "nothing can be written", [](json& m) { m["access"]["/u/me"] = "read_only"; }},
    {"network.mtu", "MTU of 1500", [](json& m) { file(m, "/sys/class/net/enp1s0f1np1/mtu", "1500\n"); }},
    {"network.speed", "100 Gb/s of 200", [](json& m) { file(m, "/sys/class/net/enp1s0f1np1/speed", "100000\n"); }},
    {"network.both_ports", "only enp1s0f1np1 is up, enP2p1s0f1np1 is not",
     [](json& m) { file(m, "/sys/class/net/enP2p1s0f1np1/operstate", "down\n"); }},
    {"network.both_ports", "only enp1s0f0np0 is up, enP2p1s0f0np0 is not",
     [](json& m) {  // two cables, each at half its speed
       for (const char* port : {"enp1s0f0np0", "enp1s0f1np1"})
         file(m, std::string("/sys/class/net/") + port + "/operstate", "up\n");
       file(m, "/sys/class/net/enP2p1s0f1np1/operstate", "down\n");
     }},
    {"network.rdma", "roceP2p1s0f1 of enP2p1s0f1np1 is not active",
     [](json& m) { file(m, "/sys/class/infiniband/roceP2p1s0f1/ports/1/state", "1: DOWN\n"); }},
};

TEST(Doctor, EveryFaultIsFound) {
  for (const Fault& fault : kFaults) {
    json machine = healthy();
    fault.make(machine);
    const Diagnosis diagnosis = examined(machine);
    bool found = false;
    std::string all;
    for (const Finding& finding : diagnosis.findings) {
      found = found || (finding.id == fault.id && finding.seen.find(fault.seen) != std::string::npos);
      all += finding.id + ": " + finding.seen + "\n";
      EXPECT_FALSE(finding.why.empty());
      EXPECT_FALSE(finding.fix.empty());
    }
    EXPECT_TRUE(found) << "expected " << fault.id << ": ..." << fault.seen << "..., found\n" << all;
  }
}

const Finding* finding(const Diagnosis& diagnosis, const std::string& id) {
  for (const Finding& one : diagnosis.findings) {
    if (one.id == id) return &one;
  }
  return nullptr;
}
std::string fix_of(const json& machine, const std::string& id, const DoctorOptions& options = {.here = false}) {
  const Diagnosis diagnosis = examined(machine, options);
  const Finding* const found = finding(diagnosis, id);
  return found ? found->fix : "no " + id;
}

// What a variable hides is no broken driver. A GPU's number in front hides nothing: then CUDA itself fails.
TEST(Doctor, AHiddenGpuIsNoBrokenDriver) {
  for (const char* value : {"", "9", "-1", "GPU-00000000-dead", "NoDevFiles", "9,0"}) {
    json machine = healthy();
    machine["variables"]["CUDA_VISIBLE_DEVICES"] = value;
    fails(machine, "cuda", 100);
    EXPECT_EQ(ids(examined(machine)), std::set<std::string>{"gpu.hidden"}) << value;
    fails(machine, "cuda", 999);
    EXPECT_TRUE(ids(examined(machine)).contains("driver.cuda_fails")) << value;
  }
  for (const char* value : {"0", "0,9"}) {
    json machine = healthy();
    machine["variables"]["CUDA_VISIBLE_DEVICES"] = value;
    fails(machine, "cuda", 100);
    EXPECT_TRUE(ids(examined(machine)).contains("driver.cuda_fails")) << value;
  }
}

// Packages of a newer CUDA than the driver's would not start.
TEST(Doctor, PackagesAreThoseOfTheDriversCuda) {
  const auto with = [](int cuda) {
    json machine = fixture("server_h200");
    machine["cuda"]["system"]["cuda_version"] = cuda;
    machine["variables"]["VIRTUAL_ENV"] = "/v";
    file(machine, "/v/lib/python3.12/site-packages/torch-2.9.1.dist-info/METADATA", "");
    file(machine, "/v/lib/python3.12/site-packages/torch/version.py", "\ncuda = None\n");
    file(machine, "/usr/local/cuda/version.json", R"({"cuda": {"version": "11.5"}})");
    file(machine, "/usr/local/cuda/lib64/libcublasLt.so.11.5.1", "\177ELF");
    return machine;
  };
  const auto expect_fixes = [&](int cuda, const std::string& apt, const std::string& major, const std::string& pip) {
    const json machine = with(cuda);
    EXPECT_NE(fix_of(machine, "library.missing").find(" cudnn9-cuda-" + major + " "), std::string::npos) << cuda;
    EXPECT_EQ(fix_of(machine, "library.cublaslt"), "sudo apt install libcublas-" + apt);
    EXPECT_EQ(fix_of(machine, "driver.toolkit_old"), "sudo apt install cuda-toolkit-" + apt);
    EXPECT_TRUE(fix_of(machine, "python.torch_cuda").ends_with("/whl/" + pip)) << fix_of(machine, "python.torch_cuda");
  };
  expect_fixes(13020, "13-0", "13", "cu130");
  expect_fixes(12080, "12-8", "12", "cu128");
  expect_fixes(12070, "12-6", "12", "cu126");
  expect_fixes(12040, "12-4", "12", "cu126");
  EXPECT_TRUE(
      fix_of(with(11040), "python.torch_cuda").starts_with("update NVIDIA's driver first, it serves CUDA 11.4"));
  EXPECT_NE(fix_of(fixture("wsl2"), "library.missing").find("libcublas-12-4 cudnn9-cuda-12"), std::string::npos);
}

// Where the driver comes from depends on the system: under WSL and in a container it is not the system's to install.
TEST(Doctor, ADriverIsUpdatedWhereItComesFrom) {
  const auto old = [](const char* name) {
    json machine = fixture(name);
    machine["nvml"]["system"]["driver_version"] = "440.33";
    machine["files"].erase("/sys/module/nvidia/version");
    machine["files"].erase("/proc/driver/nvidia/version");
    return machine;
  };
  EXPECT_EQ(fix_of(old("wsl2"), "driver.too_old"), "update NVIDIA's driver in Windows, then there: wsl --shutdown");
  EXPECT_EQ(fix_of(old("spark_dell"), "driver.too_old"), "update DGX OS in DGX Dashboard");
  json machine = old("pc_two_gpus");
  EXPECT_EQ(fix_of(machine, "driver.too_old"), "sudo apt install nvidia-driver-580-open && sudo reboot");
  file(machine, "/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  EXPECT_TRUE(fix_of(machine, "driver.too_old").starts_with("sudo apt install nvidia-driver (from non-free)"));
  file(machine, "/etc/os-release", "PRETTY_NAME=\"Fedora Linux 43\"\n");
  EXPECT_TRUE(fix_of(machine, "driver.too_old").starts_with("install NVIDIA's driver"));
  file(machine, "/.dockerenv", "");
  EXPECT_TRUE(fix_of(machine, "driver.too_old").starts_with("on the host: install NVIDIA's driver"));
  EXPECT_EQ(fix_of(fixture("device_without_driver"), "driver.missing").find("nvidia-driver-580-open"),
            std::string("sudo apt install ").size());
}

// What CUDA 13 and the open kernel modules have left behind, sparkpilot too.
TEST(Doctor, OlderGpusNeedOlderSoftware) {
  json machine = fixture("laptop_rtx");
  for (const char* library : {"nvml", "cuda"}) {
    for (json& gpu : machine[library]["devices"]) {
      if (gpu.contains("capability_major")) gpu["capability_major"] = 6;
      if (gpu.contains("capability_minor")) gpu["capability_minor"] = 1;
    }
  }
  machine["cuda"]["system"]["cuda_version"] = 13000;
  machine["variables"]["VIRTUAL_ENV"] = "/v";
  file(machine, "/v/lib/python3.12/site-packages/torch-2.15.0.dist-info/METADATA", "");
  file(machine, "/v/lib/python3.12/site-packages/torch/version.py", "\ncuda: Optional[str] = '13.0'\n");
  file(machine, "/usr/local/cuda/version.json", R"({"cuda": {"version": "13.0"}})");
  const Diagnosis diagnosis = examined(machine);
  ASSERT_NE(finding(diagnosis, "python.torch_old"), nullptr);
  EXPECT_NE(finding(diagnosis, "python.torch_old")->seen.find("which has left out compute capability 6.1"),
            std::string::npos);
  ASSERT_NE(finding(diagnosis, "driver.toolkit_old"), nullptr);
  EXPECT_NE(finding(diagnosis, "driver.toolkit_old")->seen.find("the last for compute capability 6.1 is 12.9"),
            std::string::npos);
  machine = fixture("device_without_driver");
  file(machine, "/sys/bus/pci/devices/0000:01:00.0/device", "0x1b80\n");
  EXPECT_NE(fix_of(machine, "driver.missing").find("nvidia-driver-580 "), std::string::npos)
      << fix_of(machine, "driver.missing");
}

// Huge pages take nothing from CUDA where the GPU has a memory of its own; a control group's limit counts everywhere.
TEST(Doctor, MemoryThatCanBeTaken) {
  json machine = fixture("pc_two_gpus");
  meminfo(machine, "HugePages_Total", 1);
  meminfo(machine, "HugePages_Free", 0);
  EXPECT_EQ(finding(examined(machine), "memory.available"), nullptr);
  file(machine, "/sys/fs/cgroup/memory.max", "2147483648\n");  // a container that shows no /proc/self/cgroup
  file(machine, "/sys/fs/cgroup/memory.current", "2000000000\n");
  EXPECT_NE(fix_of(machine, "memory.available").find("docker run --memory"), std::string::npos);
  machine = healthy();
  meminfo(machine, "HugePages_Total", 1);
  meminfo(machine, "HugePages_Free", 0);
  EXPECT_TRUE(fix_of(machine, "memory.available").starts_with("sudo sysctl vm.nr_hugepages=0"));
}

TEST(Doctor, InfiniBandHasNoJumboFrames) {
  json machine = fixture("server_h200");
  const std::string port = "/sys/class/net/ibp26s0";
  machine["links"][port + "/device"] = "../../../0000:1a:00.0";
  machine["links"][port + "/device/driver"] = "../../../../bus/pci/drivers/mlx5_core";
  file(machine, port + "/operstate", "up\n");
  file(machine, port + "/mtu", "2044\n");
  file(machine, port + "/type", "32\n");
  EXPECT_FALSE(ids(examined(machine)).contains("network.mtu"));
  file(machine, port + "/type", "1\n");
  EXPECT_TRUE(ids(examined(machine)).contains("network.mtu"));
}

json of_server(const std::function<void(json&)>& make) {
  json machine = fixture("server_h200");
  make(machine);
  return machine;
}

TEST(Doctor, FaultsOfCardsAreFound) {
  const auto narrow = examined(of_server([](json& m) { gpu(m)["pcie_width"] = 4; }));
  EXPECT_TRUE(ids(narrow).contains("gpu.pcie"));
  const auto asleep = examined(of_server([](json& m) { gpu(m)["persistence"] = 0; }));
  EXPECT_TRUE(ids(asleep).contains("gpu.persistence"));
  const auto full = examined(of_server([](json& m) {
    gpu(m)["memory_used_bytes"] = gpu(m)["memory_total_bytes"].get<int64_t>() - (1 << 30);
    m["nvml"]["processes"] = {{{{"pid", 4242}, {"bytes", 1}}}};
  }));
  ASSERT_TRUE(ids(full).contains("gpu.memory_used"));
  EXPECT_NE(report_text(full, {}).find("used by processes 4242"), std::string::npos);
}

TEST(Doctor, ModelsThatAreGitLfsPointers) {
  json machine = healthy();
  file(machine, "/models/a.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  file(machine, "/models/b.onnx", "\x08\x07");
  const Diagnosis diagnosis = examined(machine, {.models = "/models/", .here = false});
  ASSERT_EQ(diagnosis.findings.size(), 1U);
  EXPECT_EQ(diagnosis.findings[0].seen, "1 of 2 models in /models are git-lfs pointers: a.onnx");
}

TEST(Doctor, ASlowDiskIsFound) {
  EXPECT_TRUE(ids(examined(healthy(), {.here = false, .disk_bytes_per_second = 90e6})).contains("disk.speed"));
  EXPECT_TRUE(ids(examined(healthy(), {.here = false, .disk_bytes_per_second = 900e6})).empty());
}

TEST(Doctor, MeasuresADiskAndLeavesNothing) {
  const fs::path folder = fs::path(testing::TempDir()) / ("disk" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::optional<double> speed = measure_disk(folder, 3 << 20);
  ASSERT_TRUE(speed);
  EXPECT_GT(*speed, 0);
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove(folder);
  EXPECT_FALSE(measure_disk(folder));
  EXPECT_FALSE(measure_disk("/proc", 3 << 20));
}

TEST(Doctor, UnderLoadEverySampleCounts) {
  json machine = healthy();
  const auto source = recorded_source(machine.dump(), "test");
  GpuDriverAnswers slow = source->nvml();
  slow.devices[0]["sm_clock_mhz"].value = int64_t{850};
  slow.devices[0]["power_mw"].value = int64_t{22'000};
  GpuDriverAnswers once = slow;
  once.devices[0]["sm_clock_mhz"].value = int64_t{2400};
  EXPECT_TRUE(ids(examined(machine, {.here = false, .under_load = {slow, slow}})).contains("gpu.low_power"));
  EXPECT_FALSE(ids(examined(machine, {.here = false, .under_load = {slow, once}})).contains("gpu.low_power"));
}

// Under WSL, and if the PCI bus is hidden, only the driver shows a GPU.
TEST(Doctor, ADriverThatKeepsSilentIsNoDriverWithoutAGpu) {
  json machine = fixture("no_gpu");
  fails(machine, "nvml", 18);
  fails(machine, "cuda", 803);
  EXPECT_EQ(ids(examined(machine)), std::set<std::string>{"driver.mismatch"});
  machine["nvml"] = machine["cuda"] = {{"state", "timed_out"}, {"reason", "it did not come back within 0.5 s"}};
  EXPECT_EQ(ids(examined(machine)), std::set<std::string>{"driver.hangs"});
}

// If NVML hangs, libcuda may not know the PCI address either.
TEST(Doctor, AGpuIsNamedByWhatIsKnownOfIt) {
  EXPECT_EQ(doctor::gpu_name({.nvml_index = 1, .name = "NVIDIA GB10"}), "GPU 1 (NVIDIA GB10)");
  EXPECT_EQ(doctor::gpu_name({.cuda_index = 0, .pci = "000f:01:00.0"}), "GPU at 000f:01:00.0");
  EXPECT_EQ(doctor::gpu_name({.cuda_index = 0, .name = "NVIDIA GB10"}), "GPU cuda:0 (NVIDIA GB10)");
}

// Checks that no recorded machine can fail: they look at the program itself.
TEST(Doctor, EveryCheckIsTested) {
  std::set<std::string> tested = {"program.decoders", "system.architecture",  "models.lfs_pointers", "gpu.pcie",
                                  "gpu.persistence",  "gpu.memory_used",      "driver.no_device",    "library.gds",
                                  "program.kernels",  "python.torch_kernels", "disk.speed"};
  for (const Fault& fault : kFaults) tested.insert(fault.id);
  std::set<std::string_view> seen;
  for (const CheckInfo& check : checks()) {
    EXPECT_TRUE(tested.contains(std::string(check.id))) << check.id;
    EXPECT_TRUE(seen.insert(check.id).second) << check.id << " twice";
  }
  EXPECT_GE(seen.size(), 30U);
}

TEST(Doctor, TheProgramItself) {
  json machine = healthy();
  const auto source = recorded_source(machine.dump(), "test");
  const Diagnosis diagnosis = examine(*source, {.here = true});
  // The machine is an Arm machine with a GB10.
#if defined(__aarch64__)
  std::set<std::string> expected;
  if (cuda::image_targets().empty()) expected.insert("program.kernels");
#else
  const std::set<std::string> expected = {"program.kernels", "system.architecture"};
#endif
  EXPECT_EQ(ids(diagnosis), expected);
}

TEST(Doctor, KernelsInPyTorch) {
  const fs::path environment = fs::path(testing::TempDir()) / ("env" + std::to_string(getpid()));
  const fs::path packages = environment / "lib/python3.12/site-packages";
  fs::create_directories(packages / "torch/lib");
  json machine = healthy();
  machine["variables"]["VIRTUAL_ENV"] = environment.string();
  file(machine, (packages / "torch-2.9.1.dist-info/METADATA").string(), "");
  const auto seen = [&](const std::vector<stack::TestImage>& images) {
    stack::TestElf elf;
    elf.machine = 183;  // aarch64, as the healthy machine is
    elf.sections = {{".nv_fatbin", stack::fatbin(images)}};
    std::ofstream(packages / "torch/lib/libtorch_cuda.so", std::ios::binary) << stack::elf_file(elf);
    const Diagnosis diagnosis = examined(machine, {.here = true, .deep = true});
    for (const Finding& finding : diagnosis.findings) {
      if (finding.id == "python.torch_kernels") return finding.seen;
    }
    return std::string("good");
  };
  EXPECT_EQ(seen({stack::sass(90)}), "PyTorch 2.9.1 holds no kernel for this GPU");
  // As in a container, whose PATH alone says which python3 is meant.
  machine["variables"].erase("VIRTUAL_ENV");
  EXPECT_EQ(seen({stack::sass(90)}), "good");  // it is not found
  machine["variables"]["PATH"] = "/usr/sbin:" + (environment / "bin").string() + ":/usr/bin";
  file(machine, (environment / "bin/python3").string(), "\177ELF");
  EXPECT_EQ(seen({stack::sass(120)}), "good");
  EXPECT_EQ(seen({stack::sass(90)}), "PyTorch 2.9.1 holds no kernel for this GPU");
  EXPECT_EQ(seen({stack::ptx(90)}), "PyTorch 2.9.1 holds PTX alone for this GPU");
  fs::remove_all(environment);
}

// Triton's second ptxas is the one that counts for this GPU.
TEST(Doctor, TheCompilerInTriton) {
  const fs::path environment = fs::path(testing::TempDir()) / ("triton" + std::to_string(getpid()));
  const fs::path packages = environment / "lib/python3.12/site-packages",
                 ptxas = packages / "triton/backends/nvidia/bin/ptxas-blackwell";
  fs::create_directories(ptxas.parent_path());
  json machine = healthy();
  machine["variables"]["VIRTUAL_ENV"] = environment.string();
  machine["variables"].erase("TRITON_PTXAS_PATH");
  file(machine, (packages / "triton-3.9.0.dist-info/METADATA").string(), "");
  EXPECT_EQ(fix_of(machine, "python.ptxas").rfind("export TRITON_PTXAS_PATH=", 0), 0U) << "an older Triton";
  file(machine, ptxas.string(), "\177ELF");
  const auto fix_with = [&](const std::string& knows) {
    stack::TestElf elf;
    elf.sections = {{".rodata", knows + '\0'}};
    std::ofstream(ptxas, std::ios::binary) << stack::elf_file(elf);
    return fix_of(machine, "python.ptxas", {.here = true});
  };
  EXPECT_EQ(fix_with("lto_121"), "no python.ptxas");
  EXPECT_EQ(fix_with("lto_100"), "export TRITON_PTXAS_BLACKWELL_PATH=/usr/local/cuda/bin/ptxas");
  EXPECT_EQ(fix_of(machine, "python.ptxas"), "no python.ptxas") << "the file of another machine is not looked into";
  machine["variables"]["TRITON_PTXAS_PATH"] = "/usr/local/cuda/bin/ptxas";
  EXPECT_NE(fix_with("lto_100"), "no python.ptxas") << "that variable is for older GPUs";
  machine["variables"]["TRITON_PTXAS_BLACKWELL_PATH"] = "/x";
  EXPECT_NE(fix_of(machine, "python.ptxas"), "no python.ptxas") << "it is not there";
  fs::remove_all(environment);
}

TEST(Doctor, CompatibilityModeOfGpuDirectStorage) {
  json machine = fixture("server_h200");
  file(machine, "/usr/local/cuda/lib64/libcufile.so.1.15.1", "\177ELF");
  EXPECT_TRUE(ids(examined(machine)).contains("library.gds"));
  EXPECT_FALSE(ids(examined(healthy())).contains("library.gds")) << "it is all that a Spark has";
}

TEST(Doctor, GravestFirstAndAllCounted) {
  json machine = healthy();
  for (const Fault& fault : kFaults) {
    if (std::string(fault.id) == "network.mtu" || std::string(fault.id) == "gpu.hidden" ||
        std::string(fault.id) == "gpu.permission")
      fault.make(machine);
  }
  const Diagnosis diagnosis = examined(machine);
  ASSERT_EQ(diagnosis.findings.size(), 3U);
  EXPECT_EQ(diagnosis.findings[0].impact, Impact::fatal);
  EXPECT_EQ(diagnosis.findings[2].impact, Impact::cosmetic);
  EXPECT_NE(report_text(diagnosis, {}).find("1 fatal, 1 slow, 1 cosmetic"), std::string::npos);
  EXPECT_NE(report_text(diagnosis, {}).find("(a DGX Spark by /etc/dgx-release, DMI, GPU"), std::string::npos);
  const json document = report_json(diagnosis);
  EXPECT_EQ(document["findings"].size() + document["passed"].size(), checks().size());
  EXPECT_EQ(document.size(), 4U)
      << "sparkpilot, machine, findings, passed: what the machine is stands in machine alone";
  EXPECT_EQ(document["machine"]["is_dgx_spark"], true);
}

TEST(Doctor, LinesAreBrokenBetweenWords) {
  const Diagnosis diagnosis = examined(fixture("spark_dell"));
  const std::string whole = report_text(diagnosis, {}), narrow = report_text(diagnosis, {.columns = 60});
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.size() <= 60 || line.starts_with("  fix") || line.find(" checks: ") != std::string::npos) << line;
  EXPECT_NE(narrow.find("\n           "), std::string::npos);
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  EXPECT_EQ(words(whole), words(narrow));
}

TEST(Versions, AreComparedByNumber) {
  using doctor::parse_version, doctor::version_of_file, doctor::Version;
  EXPECT_LT(*parse_version("9.9"), *parse_version("9.13.0"));
  EXPECT_EQ(*parse_version("12.8"), *parse_version("12.8.0"));
  EXPECT_EQ(version_of_file("libcudnn.so.9.13.0")->str(), "9.13.0");
  EXPECT_EQ(version_of_file("libcudnn.so"), std::nullopt);
  EXPECT_EQ(parse_version("x"), std::nullopt);
  EXPECT_EQ(parse_version("99999999999999.1")->numbers.size(), 1U) << "no number is longer than eight digits";
}

TEST(Libraries, TheFirstFolderWins) {
  const auto source = recorded_source(R"({"sparkpilot_record": 1, "variables": {"LD_LIBRARY_PATH": "/mine:relative:"},
    "files": {"/mine/libx.so.1": "", "/mine/libx.so.1.2.3": "", "/usr/lib/libx.so.9.9": "", "/opt/liby.so.3": "",
              "/etc/ld.so.conf.d/a.conf": ["# no", "/opt # yes"]}})",
                                      "test");
  const auto folders = doctor::library_folders(*source, "x86_64");
  EXPECT_EQ(folders[0], "/mine");
  EXPECT_EQ(folders[1], "/opt");
  EXPECT_EQ(doctor::find_library(*source, folders, "libx")->path, "/mine/libx.so.1.2.3");
  EXPECT_EQ(doctor::find_library(*source, folders, "liby")->version->str(), "3");
  EXPECT_FALSE(doctor::find_library(*source, folders, "libz"));
}

}  // namespace
}  // namespace sparkpilot
