#include "monitor/sampler.h"

#include <algorithm>
#include <optional>

#include "hw/probe.h"
#include "monitor/counters.h"
#include "monitor/cpu_reader.h"
#include "monitor/gpu_reader.h"
#include "monitor/process_reader.h"

namespace sparkpilot::monitor {

struct Sampler::State {
  State(Source& from, const SamplerOptions& chosen)
      : source(from), cpu(from), disks(from), ports(from), pressure(from) {
    if (chosen.sensors) temperatures.emplace(from);
    if (chosen.processes) processes.emplace(from, chosen.process_budget);
  }

  Source& source;
  CpuReader cpu;
  std::optional<TemperatureReader> temperatures;
  DiskReader disks;
  PortReader ports;
  PressureReader pressure;
  std::optional<ProcessReader> processes;
  std::optional<int64_t> first_ns, last_ns;
};

Sampler::Sampler(Source& source, const SamplerOptions& options) : state_(std::make_unique<State>(source, options)) {}
Sampler::~Sampler() = default;

Sample Sampler::next(int64_t now_ns) {
  State& state = *state_;
  Sample sample;
  if (state.last_ns && now_ns > *state.last_ns) sample.interval_s = static_cast<double>(now_ns - *state.last_ns) * 1e-9;
  if (!state.first_ns) state.first_ns = now_ns;
  state.last_ns = now_ns;
  sample.seconds = static_cast<double>(now_ns - *state.first_ns) * 1e-9;

  GpuReading gpus = read_gpus(state.source);
  sample.gpus = std::move(gpus.gpus);
  sample.gpu_problem = std::move(gpus.problem);
  sample.cpu = state.cpu.next();
  if (state.temperatures) sample.temperatures = state.temperatures->next();
  for (const Temperature& temperature : sample.temperatures) {
    if (temperature.cpu)
      sample.cpu.temperature_c = std::max(sample.cpu.temperature_c, std::optional(temperature.celsius));
  }
  sample.memory = probe_memory(state.source);
  sample.pressure = state.pressure.next(sample.interval_s);
  sample.disks = state.disks.next(sample.interval_s);
  sample.ports = state.ports.next(sample.interval_s);
  if (state.processes) {
    sample.processes = state.processes->next(now_ns, gpus.process_bytes);
    sample.process_count = state.processes->count();
  }
  return sample;
}

}  // namespace sparkpilot::monitor
