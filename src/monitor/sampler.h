// Reads a machine repeatedly, through a Source: the real one, another tree, or a recording.
#pragma once

#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "hw/source.h"
#include "monitor/sample.h"

namespace sparkpilot::monitor {

struct SamplerOptions {
  bool processes = true;
  bool sensors = true;  // temperatures, except the GPUs'
  // How many processes are examined in one reading. Busy ones are examined every time, idle ones in rotation.
  size_t process_budget = 256;
};

// The source may give any bytes: nothing is thrown. One thread uses a sampler at a time; the source must outlive it.
class Sampler {
 public:
  explicit Sampler(Source& source, const SamplerOptions& options = {});
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // `now_ns` is of a monotonic clock; if it does not advance there are no rates.
  Sample next(int64_t now_ns = sparkpilot::now_ns());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkpilot::monitor
