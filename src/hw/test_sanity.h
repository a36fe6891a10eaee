// For tests: checks that no value of a machine is nonsensical, however strange its source.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "hw/machine_json.h"

namespace sparkpilot {

class Sanity {
 public:
  // The first nonsensical value; empty if all make sense.
  std::string check(const Machine& m) {
    text(m.identity.system, "system");
    for (const std::string* t : {&m.identity.vendor, &m.identity.product, &m.identity.kernel,
                                 &m.identity.operating_system, &m.cpu.model, &m.cpu.architecture}) {
      text(*t, "identity");
    }
    number(m.cpu.logical, 0, 4096, "logical");
    number(m.cpu.cores, 1, std::max(1, m.cpu.logical), "cores");
    number(m.cpu.sockets, 1, std::max(1, m.cpu.logical), "sockets");
    size_t processors = 0;
    for (const CoreKind& kind : m.cpu.kinds) {
      text(kind.name, "kind");
      number(kind.count, 1, static_cast<int64_t>(kind.processors.size()), "count");
      number(kind.max_mhz, 100, 10'000, "max_mhz");
      processors += kind.processors.size();
    }
    if (!m.cpu.kinds.empty()) expect(processors == static_cast<size_t>(m.cpu.logical), "kinds");
    memory(m.memory);
    for (const Gpu& g : m.gpus) gpu(g);
    expect(m.gpus.size() <= 64 && m.disks.size() <= 32 && m.ports.size() <= 128, "a list's length");
    if (const Gpu* best = best_gpu(m)) expect(best->capability.has_value() && best->cuda_index.has_value(), "best_gpu");
    for (const Disk& disk : m.disks) {
      text(disk.mount, "mount");
      text(disk.model, "model");
      number(disk.total, 1, INT64_MAX, "disk");
      number(disk.free, 0, disk.total.value_or(-1), "disk free");
    }
    for (const NetworkPort& port : m.ports) {
      text(port.name, "port");
      number(port.mbit_per_second, 1, 10'000'000, "speed");
      number(port.mtu, 1, 1 << 20, "mtu");
      number(port.hca_mbit_per_second, 1, 10'000'000, "rate");
    }
    machine_json(m).dump();  // throws if a text is not UTF-8
    return problem_;
  }

 private:
  void expect(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) problem_ = what;
  }
  void text(const std::string& value, const char* what) {
    expect(std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; }), what);
    expect(value.size() <= 600, what);
  }
  template <typename T>
  void number(const std::optional<T>& value, double least, double most, const std::string& what) {
    if (value)
      expect(*value >= static_cast<T>(least) && *value <= static_cast<T>(most), fmt::format("{}: {}", what, *value));
  }
  void number(std::optional<int64_t> value, int64_t least, int64_t most, const std::string& what) {
    if (value) expect(*value >= least && *value <= most, fmt::format("{}: {}", what, *value));
  }
  void memory(const Memory& memory) {
    const int64_t total = memory.total.value_or(-1);
    number(memory.total, 1, int64_t{1} << 50, "total");
    for (const auto& part : {memory.free, memory.available, memory.page_cache}) number(part, 0, total, "memory");
    number(memory.swap_free, 0, memory.swap_total.value_or(-1), "swap");
    number(memory.huge_pages_free, 0, memory.huge_pages.value_or(-1), "huge pages");
    number(memory.allocatable(), 0, int64_t{1} << 51, "allocatable");
  }
  void gpu(const Gpu& g) {
    text(g.name, "name");
    text(g.pci, "pci");
    expect(!g.name.empty() || !g.pci.empty() || g.multiprocessors || g.cuda_index, "a GPU of which nothing is known");
    number(g.multiprocessors, 1, 4096, "multiprocessors");
    number(g.memory_total, 1, int64_t{1} << 44, "gpu memory");
    number(g.memory_used, 0, g.memory_total.value_or(-1), "gpu memory used");
    if (g.unified_memory.value_or(false)) expect(!g.memory_total && !g.memory_used, "unified memory of its own");
    for (const auto& clock : {g.sm_clock_mhz, g.max_sm_clock_mhz, g.memory_clock_mhz})
      number(clock, 1, 30'000, "clock");
    for (const auto& power : {g.power_w, g.power_limit_w}) number(power, 0.001, 5000, "power");
    for (const auto& t : {g.temperature_c, g.slowdown_temperature_c}) number(t, 1, 150, "temperature");
    for (const auto& percent : {g.gpu_percent, g.memory_percent}) number(percent, 0, 100, "percent");
    for (const auto& generation : {g.pcie_generation, g.pcie_max_generation}) number(generation, 1, 9, "pcie");
    if (g.capability)
      expect(g.capability->major >= 1 && g.capability->major <= 99 && g.capability->minor <= 9, "capability");
  }

  std::string problem_;
};

}  // namespace sparkpilot
