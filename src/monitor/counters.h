// Counters that only grow, and rates from their growth.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hw/source.h"
#include "monitor/sample.h"

namespace sparkpilot::monitor {

// The growth of one counter. Empty for the first value, after a missing one, and if it decreased: it was reset or it
// wrapped, which cannot be distinguished.
class Counter {
 public:
  std::optional<int64_t> grow(std::optional<int64_t> value);

 private:
  std::optional<int64_t> last_;
};

// 100 * part / whole within 0 and 100, as counters that are read one after the other are never quite consistent.
std::optional<double> percent(std::optional<double> part, std::optional<double> whole);

class DiskReader {
 public:
  explicit DiskReader(Source& source) : source_(source) {}
  std::vector<DiskSample> next(std::optional<double> seconds);

 private:
  struct Disk {
    bool whole = false;
    Counter read, written, busy;
  };
  Source& source_;
  std::map<std::string, Disk> disks_;
};

class PortReader {
 public:
  explicit PortReader(Source& source);
  std::vector<PortSample> next(std::optional<double> seconds);

 private:
  struct Port {
    std::optional<int> mbit_per_second;
    Counter received, sent;
  };
  Source& source_;
  bool physical_;  // else all ports: a container's have no device
  std::map<std::string, Port> ports_;
};

class PressureReader {
 public:
  explicit PressureReader(Source& source) : source_(source) {}
  Pressure next(std::optional<double> seconds);

 private:
  Source& source_;
  Counter cpu_some_, memory_some_, memory_full_, io_some_, io_full_;
};

}  // namespace sparkpilot::monitor
