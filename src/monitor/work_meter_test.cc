#include "sparkpilot/work_meter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "monitor/scripted_source.h"
#include "sparkpilot/error.h"

namespace sparkpilot {
namespace {

// The test changes its GPU and its memory while the meter reads them.
class Busy : public monitor::ScriptedSource {
 public:
  std::atomic<int64_t> used{0}, available_kb{900'000}, power{100};
  std::atomic<int> asked{0};
  GpuDriverAnswers nvml() override {
    ++asked;
    const std::map<std::string, int64_t> numbers = {{"memory_total_bytes", int64_t{8} << 30},
                                                    {"memory_used_bytes", used},
                                                    {"gpu_percent", 50},
                                                    {"power_mw", 1000 * power},
                                                    {"sm_clock_mhz", 1500},
                                                    {"pci_domain", 0},
                                                    {"pci_bus", 1},
                                                    {"pci_device", 0},
                                                    {"temperature_c", 60}};
    ScriptedSource moment;
    moment.add_gpu("GPU", numbers);
    return moment.driver;
  }
  std::optional<std::string> read(const std::string& path, size_t limit) override {
    if (path != "/proc/meminfo") return ScriptedSource::read(path, limit);
    return "MemTotal: 1000000 kB\nMemAvailable: " + std::to_string(available_kb) + " kB\n";
  }
  // Waits for two further readings: the second one began after the call.
  void wait() const {
    const int before = asked;
    while (asked < before + 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

TEST(WorkMeter, ReportsWhatTheWorkTook) {
  Busy source;
  source.used = 1 << 20;
  WorkMeter meter(source, {.interval_s = 0.01});
  source.used = 900 << 20;  // a peak that is over at the end
  source.available_kb = 300'000;
  source.wait();
  source.used = 5 << 20;
  source.available_kb = 890'000;
  source.wait();
  const WorkReport report = meter.finish();
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].name, "GPU");
  EXPECT_EQ(report.gpus[0].pci, "0000:01:00.0");
  EXPECT_EQ(report.gpus[0].mean_sm_clock_mhz, 1500);
  EXPECT_EQ(report.gpus[0].memory.before, 1 << 20);
  EXPECT_EQ(report.gpus[0].memory.delta, 4 << 20);
  EXPECT_EQ(report.gpus[0].memory.peak, 900 << 20);
  EXPECT_EQ(report.pool.before, int64_t{100'000} * 1024);
  EXPECT_EQ(report.pool.delta, 10'000 * 1024);
  EXPECT_EQ(report.pool.peak, int64_t{700'000} * 1024);
  EXPECT_DOUBLE_EQ(*report.gpus[0].mean_percent, 50);
  EXPECT_DOUBLE_EQ(*report.gpus[0].mean_power_w, 100);
  EXPECT_EQ(report.gpus[0].max_temperature_c, 60);
  EXPECT_NEAR(*report.gpus[0].energy_j, 100 * report.seconds, 1e-6);
  EXPECT_GE(report.samples, 5);
  EXPECT_EQ(report.cpu_percent, std::nullopt);
  EXPECT_EQ(meter.finish().samples, report.samples);
}

TEST(WorkMeter, MeasuresThisProcess) {
  WorkMeter meter;
  constexpr size_t kBytes = 64 << 20;
  const std::vector<char> memory(kBytes, 1);
  const WorkReport report = meter.finish();
  EXPECT_EQ(memory[kBytes / 2], 1);
  EXPECT_GE(report.samples, 2);
  ASSERT_TRUE(report.process.delta.has_value());
  EXPECT_GT(*report.process.delta, static_cast<int64_t>(kBytes / 2));
  EXPECT_LT(*report.process.delta, static_cast<int64_t>(kBytes * 2));
}

TEST(WorkMeter, RefusesIntervalsThatMeanNothing) {
  for (const double interval : {0.0, -1.0, 1e9, std::nan("")}) {
    EXPECT_THROW(WorkMeter({.interval_s = interval}), Error) << interval;
  }
}

TEST(WorkMeter, EndsAtOnceHoweverLongItsInterval) {
  Busy source;
  const auto begin = std::chrono::steady_clock::now();
  { const WorkMeter meter(source, {.interval_s = 3600}); }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(5));
  EXPECT_EQ(source.asked, 2);
}

}  // namespace
}  // namespace sparkpilot
