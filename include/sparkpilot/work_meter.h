// What a piece of work costs the machine: memory, utilisation, energy, sampled by a separate thread while it runs.
//
//   sparkpilot::WorkMeter meter;
//   session.run();
//   const sparkpilot::WorkReport report = meter.finish();
//   if (report.pool.peak) ...  // bytes
//
// The whole machine is measured, including what other programs do at the same time. A peak between two readings is
// missed. Values that the machine does not report are empty, never 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sparkpilot {

class Source;

struct WorkMeterOptions {
  // Time between two readings. A reading takes about a millisecond, plus the driver's time if there is a GPU.
  double interval_s = 0.1;
};

// Bytes before the work, their increase at its end (decrease: negative), and the largest reading.
struct MemoryUse {
  std::optional<int64_t> before = {}, delta = {}, peak = {};
};

struct WorkReport {
  struct Gpu {
    int index = 0;
    std::string name = {}, pci = {};
    MemoryUse memory = {};  // the GPU's own; if unified, what processes hold on it
    std::optional<double> mean_percent = {}, mean_sm_clock_mhz = {}, mean_power_w = {}, energy_j = {};
    std::optional<int> max_temperature_c = {};
  };
  double seconds = 0;
  int samples = 0;
  MemoryUse process = {};                  // resident memory of this process
  MemoryUse pool = {};                     // of the system: total less available
  std::optional<double> cpu_percent = {};  // mean of all processors
  std::vector<Gpu> gpus = {};
};

class WorkMeter {
 public:
  // Takes the first reading before it returns. Fails (user) if the interval is not between 0.01 s and 3600 s.
  explicit WorkMeter(const WorkMeterOptions& options = {});
  // For another machine, such as a recorded one; `source` must outlive the meter, and nothing else may use it
  // meanwhile. The process figures are still those of this process.
  explicit WorkMeter(Source& source, const WorkMeterOptions& options = {});
  ~WorkMeter();
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  // Takes the last reading and ends the thread. Later calls return the same report.
  WorkReport finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkpilot
