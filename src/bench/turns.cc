#include "bench/turns.h"

#include <functional>

#include "bench/ready_session.h"

namespace sparkpilot {

std::vector<Ratio> ratios_in_turns(std::span<const Measured> models, const InterleavedOptions& options) {
  std::vector<Session> sessions;
  sessions.reserve(models.size());
  std::vector<std::function<void()>> runs;
  for (const Measured& model : models) {
    sessions.push_back(ready_session(model.bench.file, model.options, model.bench.threads, model.bench.choices));
    runs.emplace_back([&session = sessions.back()] { session.run(); });
  }
  const std::vector<InterleavedTimes> times = time_interleaved(runs, options);
  std::vector<Ratio> ratios(models.size());
  for (size_t i = 1; i < models.size(); ++i) ratios[i] = ratio_of(times[i].rounds, times[0].rounds);
  return ratios;
}

}  // namespace sparkpilot
