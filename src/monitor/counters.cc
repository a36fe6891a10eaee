#include "monitor/counters.h"

#include <algorithm>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot::monitor {
namespace {

constexpr size_t kMaxDisks = 64, kMaxPorts = 64;

std::optional<double> rate(std::optional<int64_t> growth, std::optional<double> seconds, double unit) {
  if (!growth || !seconds) return std::nullopt;
  return static_cast<double>(*growth) * unit / *seconds;
}

// Microseconds from "some avg10=0.00 avg60=0.00 avg300=0.00 total=98075988".
std::optional<int64_t> stalled_us(std::string_view text, std::string_view kind) {
  while (const auto line = next_line(text)) {
    const auto parts = words(*line, 6);
    if (parts.size() != 5 || parts[0] != kind || parts[4].substr(0, 6) != "total=") continue;
    return to_integer(parts[4].substr(6));
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> Counter::grow(std::optional<int64_t> value) {
  if (value && *value < 0) value.reset();
  const std::optional<int64_t> before = last_;
  last_ = value;
  if (!value || !before || *value < *before) return std::nullopt;
  return *value - *before;
}

std::optional<double> percent(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || *whole <= 0) return std::nullopt;
  return std::clamp(100 * *part / *whole, 0.0, 100.0);
}

std::vector<DiskSample> DiskReader::next(std::optional<double> seconds) {
  const std::string text = read_text(source_, "/proc/diskstats");
  std::vector<DiskSample> out;
  for (std::string_view left = text; const auto line = next_line(left);) {
    const auto fields = words(*line, 14);
    if (fields.size() < 13) continue;
    const std::string name = plain(fields[2]);
    auto known = disks_.find(name);
    if (known == disks_.end()) {
      constexpr size_t kMaxNames = 4096;
      if (name.empty() || disks_.size() >= kMaxNames) continue;
      // Partitions, loop devices and devices built on disks have no hardware device.
      known = disks_.emplace(name, Disk{source_.link("/sys/block/" + name + "/device").has_value(), {}, {}, {}}).first;
    }
    Disk& disk = known->second;
    if (!disk.whole || out.size() >= kMaxDisks) continue;
    constexpr double kSector = 512;  // in these counters, whatever the disk's own sector size
    out.push_back({name, rate(disk.read.grow(to_integer(fields[5])), seconds, kSector),
                   rate(disk.written.grow(to_integer(fields[9])), seconds, kSector),
                   percent(rate(disk.busy.grow(to_integer(fields[12])), seconds, 1e-3), 1)});
  }
  return out;
}

PortReader::PortReader(Source& source) : source_(source) {
  for (const NetworkPort& port : probe_network(source)) {
    if (!port.name.empty()) ports_[port.name].mbit_per_second = port.mbit_per_second;
  }
  physical_ = !ports_.empty();
}

std::vector<PortSample> PortReader::next(std::optional<double> seconds) {
  constexpr size_t kMostNames = 4096;
  const std::string text = read_text(source_, "/proc/net/dev");
  std::vector<PortSample> out;
  for (std::string_view left = text; const auto line = next_line(left);) {
    const size_t colon = line->rfind(':');
    if (colon == std::string_view::npos || out.size() >= kMaxPorts) continue;
    const std::string name = plain(line->substr(0, colon));
    const auto fields = words(line->substr(colon + 1), 9);
    const auto known = ports_.find(name);
    const bool wanted = physical_ ? known != ports_.end() : !name.empty() && name != "lo";
    // Names that come and go, as those of containers, must not take the place of others.
    if (fields.size() < 9 || !wanted || (known == ports_.end() && ports_.size() >= kMostNames)) continue;
    Port& port = ports_[name];
    out.push_back({name, rate(port.received.grow(to_integer(fields[0])), seconds, 1),
                   rate(port.sent.grow(to_integer(fields[8])), seconds, 1), port.mbit_per_second});
  }
  return out;
}

Pressure PressureReader::next(std::optional<double> seconds) {
  const std::string cpu = read_text(source_, "/proc/pressure/cpu", 4096),
                    memory = read_text(source_, "/proc/pressure/memory", 4096),
                    io = read_text(source_, "/proc/pressure/io", 4096);
  const auto share = [&](Counter& counter, const std::string& text, std::string_view kind) {
    return percent(rate(counter.grow(stalled_us(text, kind)), seconds, 1e-6), 1);
  };
  return {share(cpu_some_, cpu, "some"), share(memory_some_, memory, "some"), share(memory_full_, memory, "full"),
          share(io_some_, io, "some"), share(io_full_, io, "full")};
}

}  // namespace sparkpilot::monitor
