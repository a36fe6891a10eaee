#include "sparkpilot/work_meter.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "hw/memory.h"
#include "monitor/sampler.h"
#include "monitor/summary.h"

namespace sparkpilot {
namespace {

class Use {
 public:
  void add(std::optional<int64_t> bytes) {
    if (first_) use_.before = bytes;
    first_ = false;
    use_.delta = bytes && use_.before ? std::optional(*bytes - *use_.before) : std::nullopt;
    use_.peak = std::max(use_.peak, bytes);
  }
  const MemoryUse& use() const { return use_; }

 private:
  bool first_ = true;
  MemoryUse use_;
};

std::optional<double> mean(const monitor::Series& series) {
  const Statistics statistics = series.statistics();
  return statistics.count > 0 ? std::optional(statistics.mean) : std::nullopt;
}

}  // namespace

struct WorkMeter::State {
  State(std::unique_ptr<Source> own, Source* other, const WorkMeterOptions& chosen)
      : owned(std::move(own)),
        sampler(owned ? *owned : *other, {.processes = false, .sensors = false}),
        interval(chosen.interval_s) {
    if (!(chosen.interval_s >= 0.01 && chosen.interval_s <= 3600)) {
      fail("interval_s: expected 0.01 to 3600, got {}", chosen.interval_s);
    }
    take();
    thread = std::thread([this] { run(); });
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, interval, [this] { return ended; })) take();
  }

  void take() {
    const monitor::Sample sample = sampler.next();
    ++report.samples;
    report.seconds = sample.seconds;
    process.add(resident_memory_bytes());
    pool.add(sample.pool_used());
    if (sample.cpu.percent) cpu.add(*sample.cpu.percent);
    energy.add(sample);
    for (const monitor::GpuSample& gpu : sample.gpus) {
      Gpu& of = gpus[gpu.index];
      of.report.index = gpu.index;
      if (of.report.name.empty()) of.report.name = gpu.gpu.name;
      if (of.report.pci.empty()) of.report.pci = gpu.gpu.pci;
      of.memory.add(gpu.unified() ? gpu.gpu.process_memory : gpu.gpu.memory_used);
      if (gpu.gpu.gpu_percent) of.percent.add(*gpu.gpu.gpu_percent);
      if (gpu.gpu.sm_clock_mhz) of.clock.add(*gpu.gpu.sm_clock_mhz);
      if (gpu.gpu.power_w) of.power.add(*gpu.gpu.power_w);
      of.report.max_temperature_c = std::max(of.report.max_temperature_c, gpu.gpu.temperature_c);
    }
  }

  void finish() {
    {
      const std::lock_guard lock(mutex);
      if (ended) return;
      ended = true;
    }
    wake.notify_all();
    thread.join();
    take();
    report.process = process.use();
    report.pool = pool.use();
    report.cpu_percent = mean(cpu);
    for (auto& [index, gpu] : gpus) {
      gpu.report.memory = gpu.memory.use();
      gpu.report.mean_percent = mean(gpu.percent);
      gpu.report.mean_sm_clock_mhz = mean(gpu.clock);
      gpu.report.mean_power_w = mean(gpu.power);
      for (const auto& of : energy.energy()) {
        if (of.gpu == index) gpu.report.energy_j = of.joules;
      }
      report.gpus.push_back(gpu.report);
    }
  }

  struct Gpu {
    WorkReport::Gpu report;
    Use memory;
    monitor::Series percent, clock, power;
  };

  std::unique_ptr<Source> owned;
  monitor::Sampler sampler;
  std::chrono::duration<double> interval;
  WorkReport report;
  Use process, pool;
  monitor::Series cpu;
  monitor::EnergyMeter energy;
  std::map<int, Gpu> gpus;
  std::mutex mutex;  // held while a reading is taken
  std::condition_variable wake;
  bool ended = false;
  std::thread thread;
};

WorkMeter::WorkMeter(const WorkMeterOptions& options)
    : state_(std::make_unique<State>(system_source(), nullptr, options)) {}
WorkMeter::WorkMeter(Source& source, const WorkMeterOptions& options)
    : state_(std::make_unique<State>(nullptr, &source, options)) {}
WorkMeter::~WorkMeter() { state_->finish(); }

WorkReport WorkMeter::finish() {
  state_->finish();
  return state_->report;
}

}  // namespace sparkpilot
