// A summary of a series of samples.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "monitor/quantities.h"

namespace sparkpilot::monitor {

// Energy of the GPUs: by the driver's counter if it has one, else power times time.
class EnergyMeter {
 public:
  void add(const Sample& sample);

  struct Energy {
    int gpu = 0;
    std::optional<double> joules;  // empty if neither is known
    double seconds = 0;            // that it covers
    bool counted = false;          // by the driver
  };
  std::vector<Energy> energy() const;

 private:
  struct Of {
    std::optional<double> first_j, last_j, power_w;
    double first_s = 0, last_s = 0, before_s = 0;
    double integrated_j = 0, integrated_s = 0;
  };
  std::map<int, Of> gpus_;
};

// A series of any length in bounded memory: count, mean and extremes are exact; so are percentiles up to kKept values;
// after that they are of every second value, every fourth ...
class Series {
 public:
  static constexpr size_t kKept = 8192;
  void add(double value);
  Statistics statistics() const;

 private:
  int64_t count_ = 0, stride_ = 1;
  double sum_ = 0, min_ = 0, max_ = 0;
  std::vector<double> kept_;
};

class Summary {
 public:
  // `start`: the reading from which energies are counted; it has no rates and is not one of the samples.
  explicit Summary(const Sample& start) { energy_.add(start); }
  void add(const Sample& sample);

  struct Row {
    Quantity quantity;  // with the value of the first sample that had one
    Statistics statistics;
  };
  // In the order of quantities(); without quantities that were never known, sizes, limits and energies.
  std::vector<Row> rows() const;
  std::vector<EnergyMeter::Energy> energy() const { return energy_.energy(); }
  int64_t samples() const { return samples_; }
  double seconds() const { return seconds_; }

 private:
  struct Of {
    size_t order = 0;
    Quantity quantity;
    Series series;
  };
  std::map<std::string, Of> columns_;
  EnergyMeter energy_;
  int64_t samples_ = 0;
  double seconds_ = 0;
};

}  // namespace sparkpilot::monitor
