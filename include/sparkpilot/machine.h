// What a machine is and can do: processor, memory, GPUs, and whether it is a DGX Spark.
//
//   const Machine& here = machine();
//   if (is_dgx_spark(here)) ...
//   const Gpu* gpu = best_gpu(here);                        // null if none is usable
//   std::string_view precision = recommended_precision(gpu);  // "fp16"
//
// Values that the machine does not report are empty, never 0. Sizes are in bytes, clocks in MHz, power in watts,
// temperatures in degrees Celsius, times in seconds.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

struct ComputeCapability {
  int major = 0, minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;  // NOLINT(modernize-use-nullptr): the linter's mistake
};

// Processor cores of one kind: Arm machines have several.
struct CoreKind {
  std::string name = {};             // "Cortex-X925"; empty if unknown
  int count = 0;                     // number of cores
  std::vector<int> processors = {};  // their numbers, with second threads
  std::optional<int> max_mhz = {};
  bool operator==(const CoreKind&) const = default;
};

struct Cpu {
  std::string architecture = {};  // "x86_64", "aarch64"; empty if unknown
  std::string model = {};         // the system's name for it, else its cores' names
  int logical = 0;                // online processors
  std::optional<int> cores = {};  // without second threads
  std::optional<int> sockets = {};
  std::vector<CoreKind> kinds = {};   // the fastest first
  std::vector<std::string> isa = {};  // of avx2 avx512 avx512_bf16 avx512_vnni amx_bf16 neon neon_bf16 i8mm sve sve2
};

struct Memory {
  std::optional<int64_t> total = {}, free = {}, available = {};
  std::optional<int64_t> page_cache = {};  // buffers and cached files, reclaimable; without shared memory
  std::optional<int64_t> swap_total = {}, swap_free = {};
  std::optional<int64_t> huge_page_size = {}, huge_pages = {}, huge_pages_free = {};

  std::optional<int64_t> group_left = {};  // of the limits of this process's control groups; empty: no limit
  bool unified = false;                    // a GPU has no memory but this

  // What a program can still allocate, on the GPU too if memory is unified: MemAvailable + SwapFree, by NVIDIA's rule
  // for unified memory only the free huge pages if some are reserved; no more than the control groups leave.
  std::optional<int64_t> allocatable() const;
};

struct Gpu {
  std::optional<int> nvml_index = {};  // NVML's index; empty: unknown to NVML
  std::optional<int> cuda_index = {};  // libcuda's index; empty: this process cannot compute on it
  std::string name = {};
  std::optional<ComputeCapability> capability = {};
  std::optional<int> multiprocessors = {};
  std::optional<bool> unified_memory = {};                     // one memory for CPU and GPU, as on a Spark
  std::optional<bool> pageable_memory_access = {};             // it can access memory from malloc()
  std::optional<int64_t> memory_total = {}, memory_used = {};  // dedicated memory; empty if unified
  std::optional<int64_t> process_memory = {};                  // held by all its processes
  std::string pci = {};                                        // "0000:01:00.0"
  std::optional<std::string> pci_id = {};                      // "10de:2e12"
  std::string kernel_driver = {};                              // "nvidia", "nouveau"; empty: none, or no PCI device
  std::optional<int> pcie_generation = {}, pcie_max_generation = {}, pcie_width = {}, pcie_max_width = {};
  std::optional<int> sm_clock_mhz = {}, max_sm_clock_mhz = {}, memory_clock_mhz = {};
  std::optional<double> power_w = {}, power_limit_w = {};
  std::optional<int> temperature_c = {}, slowdown_temperature_c = {};
  std::optional<int> gpu_percent = {}, memory_percent = {};  // utilisation
  std::optional<uint64_t> throttle_reasons = {};             // NVML's bits
  std::optional<bool> persistence = {}, ecc = {}, mig = {}, display = {};
};

struct Driver {
  std::optional<std::string> version = {};         // NVML's: "580.95.05"
  std::optional<std::string> kernel_version = {};  // of the loaded kernel module
  std::optional<ComputeCapability> cuda = {};      // newest CUDA that the driver supports, such as 13.0
  bool nvml_answers = false, cuda_answers = false;
  std::string nvml_problem = {}, cuda_problem = {};  // one line each; empty if it works or is absent
};

struct Disk {
  std::string mount = {}, device = {}, filesystem = {};
  std::optional<int64_t> total = {}, free = {};
  std::optional<bool> rotational = {};
  std::string model = {};
};

struct NetworkPort {
  std::string name = {};
  bool up = false;
  std::optional<int> mbit_per_second = {}, mtu = {};
  std::string driver = {}, pci = {};
  std::string hca = {};  // the RDMA device on it, such as "rocep1s0f0"
  std::optional<bool> hca_active = {};
  std::optional<int> hca_mbit_per_second = {};
};

// A sign that a machine is a Spark or is not one. It is one if the weights add up to kSparkWeight: one sign that only a
// GB10 has is enough, signs that other machines share are not.
inline constexpr int kSparkWeight = 4;
struct SparkSign {
  std::string source = {};  // "/etc/dgx-release"
  std::string seen = {};    // what was found there
  int weight = 0;           // above 0: for a Spark; below: against
};

struct Identity {
  std::string vendor = {}, product = {}, product_version = {}, family = {}, board = {}, firmware = {};
  std::string device_tree = {};  // the model in the device tree, on boards without DMI
  std::string system = {};       // "NVIDIA DGX Spark", "Dell Pro Max with GB10", else vendor and product
  std::string operating_system = {}, kernel = {};
  std::optional<std::string> dgx_os = {};  // its version
  std::vector<SparkSign> spark_signs = {};
  std::optional<std::string> container = {};     // "docker", "podman", "kubernetes", "lxc" ..., else "container"
  std::optional<int> wsl = {};                   // 1 or 2: Windows Subsystem for Linux
  std::optional<std::string> comma_device = {};  // "tici", "mici" ..., else "unknown"
};

struct Machine {
  Identity identity = {};
  Cpu cpu = {};
  Memory memory = {};
  Driver driver = {};
  std::vector<Gpu> gpus = {};                // NVIDIA's, in NVML's order, then those unknown to NVML
  std::vector<std::string> other_gpus = {};  // "amdgpu 1002:744c": present, not used
  std::vector<Disk> disks = {};
  std::vector<NetworkPort> ports = {};
};

enum class HardwareClass { dgx_spark, nvidia_pc, comma_device, pc };

// This machine, examined once, at the first call. Thread-safe. Clocks, power and memory are those at that time.
const Machine& machine();

bool is_dgx_spark(const Machine& machine);         // NVIDIA's own or another maker's, with a GB10
bool is_nvidia_available(const Machine& machine);  // a GPU that programs can compute on
// A Spark stays dgx_spark if its GPU does not work; a PC whose NVIDIA GPU does not work is pc.
HardwareClass hardware_class(const Machine& machine);
std::string_view hardware_class_name(HardwareClass hardware);  // "dgx_spark", "nvidia_pc", "comma_device", "pc"

// What openpilot's models run on by default: CUDA if a GPU is usable (openpilot's specification asks for this only on a
// Spark), a comma device's GPU, else the CPU. sparkpilot itself does not support qcom and uses the CPU.
enum class Backend { cuda, qcom, cpu };
Backend backend(const Machine& machine);
std::string_view backend_name(Backend backend);  // "cuda", "qcom", "cpu"

// The GPU to compute on: the highest capability, then the most multiprocessors, then memory; null if none is usable.
const Gpu* best_gpu(const Machine& machine);

// By compute capability: fp16 7.0, bf16 8.0, fp8 8.9 (Ada; the specification says 9.0, Hopper), NVFP4 10.0. False if
// unknown.
bool supports_fp16(const Gpu& gpu);
bool supports_bf16(const Gpu& gpu);
bool supports_fp8(const Gpu& gpu);
bool supports_nvfp4(const Gpu& gpu);
// The fastest precision that preserves a driving model's outputs: "fp16" from 7.0 on, else "fp32". For null (the CPU):
// "fp32".
std::string_view recommended_precision(const Gpu* gpu);

}  // namespace sparkpilot
