// How busy the processors are, how fast they run, and how warm the machine is.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hw/source.h"
#include "monitor/sample.h"

namespace sparkpilot::monitor {

class CpuReader {
 public:
  explicit CpuReader(Source& source);
  CpuSample next();

 private:
  // Ticks of one line of /proc/stat.
  struct Ticks {
    int64_t busy = 0, total = 0;
  };
  void read_stat(CpuSample& sample);
  std::optional<double> mhz(const Cluster& cluster) const;

  Source& source_;
  std::vector<Cluster> clusters_;
  std::map<std::string, Ticks> before_;  // by the line's name: "cpu", "cpu3"
};

// Every temperature sensor but the GPUs'; of several with the same name the warmest.
class TemperatureReader {
 public:
  explicit TemperatureReader(Source& source);
  std::vector<Temperature> next() const;

 private:
  struct Sensor {
    std::string name;
    bool cpu = false;
    std::vector<std::string> paths;
  };
  Source& source_;
  std::vector<Sensor> sensors_;
};

}  // namespace sparkpilot::monitor
