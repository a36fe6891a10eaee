#include "monitor/quantities.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sparkpilot::monitor {
namespace {

std::string plain_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return !letter && std::string_view("-_.:").find(c) == std::string_view::npos;
      },
      '_');
  return name;
}

template <typename T>
std::optional<double> number(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

class List {
 public:
  void begin(std::string_view group, std::string instance = {}) {
    group_ = group;
    instance_ = plain_name(std::move(instance));
  }
  template <typename T>
  void add(std::string_view name, Unit unit, const std::optional<T>& value, std::string_view help) {
    list_.push_back({group_, instance_, name, unit, help, number(value), false});
  }
  template <typename T>
  void add_fixed(std::string_view name, Unit unit, const std::optional<T>& value, std::string_view help) {
    add(name, unit, value, help);
    list_.back().fixed = true;
  }
  std::vector<Quantity> take() { return std::move(list_); }

 private:
  std::string_view group_;
  std::string instance_;
  std::vector<Quantity> list_;
};

// Counts only reasons that slow a GPU with work: not that it is idle, or that somebody set its clocks.
std::optional<double> held_back(const GpuSample& gpu) {
  if (!gpu.throttle_reasons || !gpu.gpu.throttle_reasons) return std::nullopt;
  constexpr uint64_t kHarmless = 0x1 | 0x2 | 0x10 | 0x100;  // idle, clocks set, sync boost, display clocks
  return (*gpu.gpu.throttle_reasons & ~kHarmless) != 0 ? 1 : 0;
}

void add_gpu(List& list, const GpuSample& sample) {
  const Gpu& gpu = sample.gpu;
  list.begin("gpu", std::to_string(sample.index));
  list.add("utilization", Unit::percent, gpu.gpu_percent, "Time in which a kernel ran.");
  list.add("memory_utilization", Unit::percent, gpu.memory_percent, "Time in which memory was read or written.");
  list.add("encoder", Unit::percent, sample.encoder_percent, "Use of the video encoder.");
  list.add("decoder", Unit::percent, sample.decoder_percent, "Use of the video decoder.");
  list.add("sm_clock", Unit::megahertz, gpu.sm_clock_mhz, "Clock of the multiprocessors.");
  list.add("memory_clock", Unit::megahertz, gpu.memory_clock_mhz, "Clock of the memory.");
  list.add("power", Unit::watts, gpu.power_w, "Power drawn.");
  list.add_fixed("power_limit", Unit::watts, gpu.power_limit_w, "Power that the driver allows.");
  list.add("energy", Unit::joules, sample.energy_j, "Energy since the driver was loaded, by its counter.");
  list.add("temperature", Unit::celsius, gpu.temperature_c, "Temperature of the chip.");
  list.add("fan", Unit::percent, sample.fan_percent, "Speed of the fan.");
  list.add("throttled", Unit::count, held_back(sample), "1 where heat or power slows the GPU, 0 where nothing does.");
  list.add("memory_used", Unit::bytes, gpu.memory_used, "The GPU's own memory in use.");
  list.add_fixed("memory_total", Unit::bytes, gpu.memory_total, "The GPU's own memory.");
  list.add("process_memory", Unit::bytes, gpu.process_memory, "GPU memory that processes hold.");
  list.add("pcie_generation", Unit::count, gpu.pcie_generation, "Generation of the PCIe link now.");
  list.add("pcie_width", Unit::count, gpu.pcie_width, "Lanes of the PCIe link now.");
}

void add_cpu(List& list, const CpuSample& cpu) {
  list.begin("cpu");
  list.add("utilization", Unit::percent, cpu.percent, "Use of all processors.");
  list.add("clock", Unit::megahertz, cpu.mhz, "Mean clock of the fastest kind of core.");
  list.add("temperature", Unit::celsius, cpu.temperature_c, "The warmest of the processor's sensors.");
  list.add("load", Unit::count, cpu.load, "Tasks that ran or waited, averaged over a minute.");
  if (cpu.clusters.size() < 2) return;  // one kind is the same as the whole
  for (size_t i = 0; i < cpu.clusters.size(); ++i) {
    const Cluster& cluster = cpu.clusters[i];
    list.begin("cluster", cluster.name.empty() ? "kind" + std::to_string(i) : cluster.name);
    list.add("utilization", Unit::percent, cluster.percent, "Use of the cores of one kind.");
    list.add("clock", Unit::megahertz, cluster.mhz, "Mean clock of the cores of one kind.");
  }
}

void add_memory(List& list, const Sample& sample) {
  const Memory& memory = sample.memory;
  list.begin("memory");
  list.add("used", Unit::bytes, sample.pool_used(), "Memory in use that cannot be given back: total less available.");
  list.add_fixed("total", Unit::bytes, memory.total, "All memory.");
  list.add("available", Unit::bytes, memory.available, "What programs can take without swapping.");
  list.add("page_cache", Unit::bytes, memory.page_cache, "Cached files, given back when needed.");
  const bool swap = memory.swap_total && memory.swap_free && *memory.swap_free <= *memory.swap_total;
  list.add("swap_used", Unit::bytes, swap ? std::optional(*memory.swap_total - *memory.swap_free) : std::nullopt,
           "Swap in use.");
  list.add_fixed("swap_total", Unit::bytes, memory.swap_total, "All swap.");
  list.begin("pressure");
  const Pressure& p = sample.pressure;
  list.add("cpu_some", Unit::percent, p.cpu_some, "Time in which some task waited for a processor.");
  list.add("memory_some", Unit::percent, p.memory_some, "Time in which some task waited for memory.");
  list.add("memory_full", Unit::percent, p.memory_full, "Time in which all tasks waited for memory.");
  list.add("io_some", Unit::percent, p.io_some, "Time in which some task waited for a disk.");
  list.add("io_full", Unit::percent, p.io_full, "Time in which all tasks waited for a disk.");
}

// Formats with three digits.
std::string short_number(double value) {
  const double size = std::abs(value);
  return size >= 99.95   ? fmt::format("{:.0f}", value)
         : size >= 9.995 ? fmt::format("{:.1f}", value)
                         : fmt::format("{:.2f}", value);
}

std::string scaled(double value, double step, std::string_view unit) {
  constexpr std::string_view kPrefixes = " kMGTPE";
  size_t prefix = 0;
  while (std::abs(value) >= 0.9995 * step && prefix + 1 < kPrefixes.size()) {
    value /= step;
    ++prefix;
  }
  if (prefix == 0) return fmt::format("{:.0f} {}", value, unit);
  const char letter = kPrefixes[prefix] == 'k' && step == 1024 ? 'K' : kPrefixes[prefix];
  return fmt::format("{} {}{}{}", short_number(value), letter, step == 1024 ? "i" : "", unit);
}

}  // namespace

std::string Quantity::key() const { return std::string(name) + std::string(unit_suffix(unit)); }

std::string Quantity::column() const {
  return std::string(group) + (instance.empty() ? "" : "." + instance) + "." + key();
}

std::vector<Quantity> quantities(const Sample& sample) {
  List list;
  for (const GpuSample& gpu : sample.gpus) add_gpu(list, gpu);
  add_cpu(list, sample.cpu);
  add_memory(list, sample);
  for (const DiskSample& disk : sample.disks) {
    list.begin("disk", disk.name);
    list.add("read", Unit::bytes_per_second, disk.read_bytes_per_s, "Bytes read from the disk.");
    list.add("written", Unit::bytes_per_second, disk.written_bytes_per_s, "Bytes written to the disk.");
    list.add("busy", Unit::percent, disk.busy_percent, "Time in which the disk had work.");
  }
  for (const PortSample& port : sample.ports) {
    list.begin("port", port.name);
    list.add("received", Unit::bytes_per_second, port.received_bytes_per_s, "Bytes received by the port.");
    list.add("sent", Unit::bytes_per_second, port.sent_bytes_per_s, "Bytes sent by the port.");
  }
  for (const Temperature& temperature : sample.temperatures) {
    list.begin("sensor", temperature.name);
    list.add("temperature", Unit::celsius, std::optional(temperature.celsius), "The warmest sensor of this name.");
  }
  list.begin("processes");
  list.add("count", Unit::count, sample.process_count, "Processes on the machine.");
  return list.take();
}

std::string_view unit_suffix(Unit unit) {
  switch (unit) {
    case Unit::percent: return "_percent";
    case Unit::megahertz: return "_mhz";
    case Unit::watts: return "_w";
    case Unit::joules: return "_j";
    case Unit::celsius: return "_c";
    case Unit::bytes: return "_bytes";
    case Unit::bytes_per_second: return "_bytes_per_s";
    case Unit::count: break;
  }
  return "";
}

std::string human(Unit unit, std::optional<double> value) {
  if (!value) return "n/a";
  switch (unit) {
    case Unit::percent: return fmt::format("{:.{}f} %", *value, *value > 0 && *value < 9.95 ? 1 : 0);
    case Unit::megahertz: return fmt::format("{:.0f} MHz", *value);
    case Unit::watts: return fmt::format("{} W", short_number(*value));
    case Unit::joules: return scaled(*value, 1000, "J");
    case Unit::celsius: return fmt::format("{:.0f} C", *value);
    case Unit::bytes: return scaled(*value, 1024, "B");
    case Unit::bytes_per_second: return scaled(*value, 1000, "B/s");
    case Unit::count: break;
  }
  return *value == std::round(*value) ? fmt::format("{:.0f}", *value) : fmt::format("{:.2f}", *value);
}

}  // namespace sparkpilot::monitor
