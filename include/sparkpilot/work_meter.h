// What a piece of work costs the machine: memory, utilisation, energy, sampled from a thread of its own while it runs.
//
//   sparkpilot::WorkMeter meter;
//   session.run();
//   const sparkpilot::WorkReport report = meter.finish();
//   if (report.pool.peak) ...  // bytes
//
// The whole machine is measured: what others do at the same time is in the figures. A peak between two readings is not
// seen. Whatever the machine does not say is empty, never 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sparkpilot {

class Source;

struct WorkMeterOptions {
  // Time between two readings. One takes about a millisecond, and as long as the driver wants where there is a GPU.
  double interval_s = 0.1;
};

// Bytes before the work, how many more there were at its end (less: negative), and the most that was seen.
struct MemoryUse {
  std::optional<int64_t> before = {}, delta = {}, peak = {};
};

struct WorkReport {
  struct Gpu {
    int index = 0;
    std::string name = {};
    MemoryUse memory = {};  // the GPU's own; where it shares the system's, what processes hold on it
    std::optional<double> mean_percent = {}, mean_power_w = {}, energy_j = {};
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
  // Takes the first reading before it returns. Fails (user) where the interval is not between 0.01 s and 3600 s.
  explicit WorkMeter(const WorkMeterOptions& options = {});
  // Of another machine than this one, such as a recorded one; `source` must outlive the meter, and nobody else may use
  // it meanwhile. This process is measured all the same.
  explicit WorkMeter(Source& source, const WorkMeterOptions& options = {});
  ~WorkMeter();
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  // Takes the last reading and ends the thread; once. Later calls return the same.
  WorkReport finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkpilot
