// One reading of a machine's load.
//
// Values that the machine does not report are empty, never 0: a sensor that is absent, a counter that was reset, a rate
// before the second reading. Percentages are of the whole (all processors, one GPU); those of a process are of one
// processor, so a program with four busy threads has 400.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sparkpilot/machine.h"

namespace sparkpilot::monitor {

struct GpuSample {
  int index = 0;  // NVML's index
  Gpu gpu = {};   // clocks, power, temperature, utilisation, own memory; empty if lost
  std::optional<double> encoder_percent = {}, decoder_percent = {}, fan_percent = {};
  std::optional<double> energy_j = {};                            // the driver's counter, since it was loaded
  std::optional<int64_t> process_memory = {};                     // held by its processes, each counted once
  std::optional<std::vector<std::string>> throttle_reasons = {};  // in words; none: not slowed

  bool unified() const { return gpu.unified_memory.value_or(false); }
  // Its name on a screen. NVML counts a lost GPU but reports nothing about it.
  std::string title() const { return !gpu.name.empty() ? gpu.name : gpu.nvml_index ? "n/a" : "lost"; }
};

// Processors of one kind: the fast and the slow ones of an Arm machine, or all.
struct Cluster {
  std::string name = {};  // "Cortex-X925"; empty if unknown
  std::vector<int> processors = {};
  std::optional<double> percent = {}, mhz = {};
  std::optional<int> max_mhz = {};
};

struct Processor {
  int number = 0;
  std::optional<double> percent = {};
};

struct CpuSample {
  std::optional<double> percent = {}, mhz = {}, temperature_c = {}, load = {};  // load: average of a minute
  std::vector<Processor> processors = {};
  std::vector<Cluster> clusters = {};
};

// Share of the time in which some (or all) of the tasks that had work waited for a resource.
struct Pressure {
  std::optional<double> cpu_some = {}, memory_some = {}, memory_full = {}, io_some = {}, io_full = {};
};

struct DiskSample {
  std::string name = {};
  std::optional<double> read_bytes_per_s = {}, written_bytes_per_s = {}, busy_percent = {};
};

struct PortSample {
  std::string name = {};
  std::optional<double> received_bytes_per_s = {}, sent_bytes_per_s = {};
  std::optional<int> mbit_per_second = {};  // of the link
};

struct Temperature {
  std::string name = {};
  double celsius = 0;
  bool cpu = false;  // of the processor
};

struct ProcessSample {
  int64_t pid = 0;
  std::string name = {};  // empty if it is gone or hidden
  std::optional<double> cpu_percent = {};
  std::optional<int64_t> resident_bytes = {};
  bool on_gpu = false;
  std::optional<int64_t> gpu_bytes = {};
};

struct Sample {
  double seconds = 0;                     // since the sampler's first reading
  std::optional<double> interval_s = {};  // since the previous reading; empty for the first
  std::vector<GpuSample> gpus = {};
  std::string gpu_problem = {};  // why NVML does not answer; empty if it does or is absent
  CpuSample cpu = {};
  Memory memory = {};
  Pressure pressure = {};
  std::vector<DiskSample> disks = {};  // whole disks
  std::vector<PortSample> ports = {};  // physical ones
  std::vector<Temperature> temperatures = {};
  std::vector<ProcessSample> processes = {};  // those on a GPU first, then by CPU time
  std::optional<int64_t> process_count = {};

  // Use of the memory that all programs and, if it is unified, the GPU share.
  std::optional<int64_t> pool_used() const {
    if (!memory.total || !memory.available) return std::nullopt;
    return *memory.total - *memory.available;
  }
};

}  // namespace sparkpilot::monitor
