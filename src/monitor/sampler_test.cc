#include "monitor/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "monitor/gpu_reader.h"
#include "monitor/quantities.h"
#include "monitor/scripted_source.h"

namespace sparkpilot::monitor {
namespace {

TEST(Sampler, SaysNothingAboutNothing) {
  ScriptedSource source;
  Sampler sampler(source);
  for (int i = 0; i < 2; ++i) {
    const Sample sample = sampler.next(i * kSecond);
    for (const Quantity& quantity : quantities(sample)) EXPECT_EQ(quantity.value, std::nullopt) << quantity.column();
    EXPECT_TRUE(sample.gpus.empty());
    EXPECT_TRUE(sample.processes.empty());
  }
}

TEST(Sampler, CpuByProcessorAndCluster) {
  ScriptedSource source;
  source.machine = "aarch64";
  source.files["/sys/devices/system/cpu/online"] = "0-3\n";
  source.files["/proc/cpuinfo"] =
      "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd87\n\nprocessor\t: 1\nCPU implementer\t: 0x41\n"
      "CPU part\t: 0xd87\n\nprocessor\t: 2\nCPU implementer\t: 0x41\nCPU part\t: 0xd85\n\nprocessor\t: 3\n"
      "CPU implementer\t: 0x41\nCPU part\t: 0xd85\n";
  for (const int i : {0, 1, 2, 3}) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(i);
    source.files[folder + "/cpufreq/cpuinfo_max_freq"] = i < 2 ? "2808000\n" : "3900000\n";
    source.files[folder + "/cpufreq/scaling_cur_freq"] = i == 2 ? "1900000\n" : i == 3 ? "2100000\n" : "900000\n";
  }
  source.files["/proc/loadavg"] = "2.41 1.00 0.50 3/500 1234\n";
  source.files["/proc/stat"] =
      "cpu  400 0 0 400 0 0 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 100 0 0 100 0 0 0 0\ncpu2 100 0 0 100 0 0 0 0\n"
      "cpu3 100 0 0 100 0 0 0 0\nintr 5\n";
  Sampler sampler(source);
  EXPECT_EQ(sampler.next(0).cpu.percent, std::nullopt);
  // Waiting for a disk is not work; serving interrupts is.
  source.files["/proc/stat"] =
      "cpu  510 10 20 650 40 5 5 0 0 0\ncpu0 100 0 0 200 0 0 0 0 0 0\ncpu1 110 10 20 120 40 0 0 0\n"
      "cpu2 200 0 0 100 0 0 0 0\ncpu3 100 0 0 190 0 5 5 0\nintr 5\n";
  const CpuSample cpu = sampler.next(kSecond).cpu;
  EXPECT_DOUBLE_EQ(*cpu.percent, 100.0 * 150 / 440);
  ASSERT_EQ(cpu.processors.size(), 4U);
  EXPECT_DOUBLE_EQ(*cpu.processors[0].percent, 0);
  EXPECT_DOUBLE_EQ(*cpu.processors[1].percent, 40);
  EXPECT_DOUBLE_EQ(*cpu.processors[2].percent, 100);
  EXPECT_DOUBLE_EQ(*cpu.processors[3].percent, 10);
  ASSERT_EQ(cpu.clusters.size(), 2U);
  EXPECT_EQ(cpu.clusters[0].name, "Cortex-X925");
  EXPECT_EQ(cpu.clusters[0].processors, (std::vector<int>{2, 3}));
  EXPECT_DOUBLE_EQ(*cpu.clusters[0].percent, 55);
  EXPECT_DOUBLE_EQ(*cpu.clusters[0].mhz, 2000);
  EXPECT_DOUBLE_EQ(*cpu.clusters[1].percent, 20);
  EXPECT_EQ(cpu.clusters[1].max_mhz, 2808);
  EXPECT_DOUBLE_EQ(*cpu.mhz, 2000);
  EXPECT_DOUBLE_EQ(*cpu.load, 2.41);
}

TEST(Sampler, ProcessorsComeGoAndAreReset) {
  ScriptedSource source;
  source.files["/proc/stat"] = "cpu  200 0 0 200\ncpu0 100 0 0 100\ncpu1 100 0 0 100\n";
  Sampler sampler(source);
  sampler.next(0);
  source.files["/proc/stat"] = "cpu  1 0 0 1\ncpu0 150 0 0 150\ncpu2 5 0 0 5\n";
  CpuSample cpu = sampler.next(kSecond).cpu;
  EXPECT_EQ(cpu.percent, std::nullopt);
  ASSERT_EQ(cpu.processors.size(), 2U);
  EXPECT_DOUBLE_EQ(*cpu.processors[0].percent, 50);
  EXPECT_EQ(cpu.processors[1].number, 2);
  EXPECT_EQ(cpu.processors[1].percent, std::nullopt);
  source.files["/proc/stat"] = "cpu  x 0 0 1\ncpu0 -5 0 0 150\ncpu2 5 0 0 5\n";  // no counter moved: nothing is known
  cpu = sampler.next(2 * kSecond).cpu;
  ASSERT_EQ(cpu.processors.size(), 1U);
  EXPECT_EQ(cpu.processors[0].percent, std::nullopt);
}

class Rates : public testing::Test {
 protected:
  Rates() {
    source.links["/sys/block/nvme0n1/device"] = "../../nvme0";
    source.links["/sys/class/net/enp1s0/device"] = "../../../0000:01:00.0";
    source.folders["/sys/class/net"] = {"enp1s0", "lo", "docker0"};
    source.files["/sys/class/net/enp1s0/speed"] = "10000\n";
    set(0, 0, 0, 0);
  }
  void set(int64_t sectors, int64_t busy_ms, int64_t bytes, int64_t stalled_us) {
    const auto n = [](int64_t value) { return std::to_string(value); };
    source.files["/proc/diskstats"] = " 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n 259 0 nvme0n1 10 0 " + n(sectors) +
                                      " 5 20 0 " + n(2 * sectors) + " 6 0 " + n(busy_ms) +
                                      " 7 0 0 0 0\n 259 1 nvme0n1p1 1 0 8 1 1 0 8 1 0 1 1\n";
    source.files["/proc/net/dev"] =
        "Inter-|   Receive\n face |bytes    packets errs\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
        "enp1s0:" +
        n(bytes) + " 1 0 0 0 0 0 0 " + n(3 * bytes) + " 1 0 0 0 0 0 0\ndocker0: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n";
    source.files["/proc/pressure/io"] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + n(stalled_us) +
                                        "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
  }
  ScriptedSource source;
};

TEST_F(Rates, OfDisksPortsAndPressure) {
  Sampler sampler(source);
  Sample sample = sampler.next(0);
  ASSERT_EQ(sample.disks.size(), 1U);
  EXPECT_EQ(sample.disks[0].read_bytes_per_s, std::nullopt);
  set(1000, 250, 4'000'000, 100'000);
  sample = sampler.next(kSecond / 2);
  EXPECT_DOUBLE_EQ(*sample.interval_s, 0.5);
  ASSERT_EQ(sample.disks.size(), 1U);
  EXPECT_EQ(sample.disks[0].name, "nvme0n1");
  EXPECT_DOUBLE_EQ(*sample.disks[0].read_bytes_per_s, 2 * 512'000.0);
  EXPECT_DOUBLE_EQ(*sample.disks[0].written_bytes_per_s, 4 * 512'000.0);
  EXPECT_DOUBLE_EQ(*sample.disks[0].busy_percent, 50);
  ASSERT_EQ(sample.ports.size(), 1U);
  EXPECT_EQ(sample.ports[0].name, "enp1s0");
  EXPECT_EQ(sample.ports[0].mbit_per_second, 10000);
  EXPECT_DOUBLE_EQ(*sample.ports[0].received_bytes_per_s, 8e6);
  EXPECT_DOUBLE_EQ(*sample.ports[0].sent_bytes_per_s, 24e6);
  EXPECT_DOUBLE_EQ(*sample.pressure.io_some, 20);
  EXPECT_DOUBLE_EQ(*sample.pressure.io_full, 0);
  EXPECT_EQ(sample.pressure.cpu_some, std::nullopt);
}

TEST_F(Rates, AreEmptyWhereCountersOrTimeGoBack) {
  Sampler sampler(source);
  set(1000, 10, 1000, 10);
  sampler.next(10 * kSecond);
  set(999, 9, 999, 9);  // counters were reset
  Sample sample = sampler.next(11 * kSecond);
  EXPECT_EQ(sample.disks[0].read_bytes_per_s, std::nullopt);
  EXPECT_EQ(sample.ports[0].sent_bytes_per_s, std::nullopt);
  EXPECT_EQ(sample.pressure.io_some, std::nullopt);
  set(1999, 19, 1999, 19);
  sample = sampler.next(10 * kSecond);  // the clock went back
  EXPECT_EQ(sample.interval_s, std::nullopt);
  EXPECT_EQ(sample.disks[0].read_bytes_per_s, std::nullopt);
  set(2999, 29, 2999, 29);
  EXPECT_DOUBLE_EQ(*sampler.next(11 * kSecond).ports[0].received_bytes_per_s, 1000);
}

TEST_F(Rates, OfAContainerWithoutDevices) {
  source.links.erase("/sys/class/net/enp1s0/device");
  Sampler sampler(source);
  const Sample sample = sampler.next(0);
  ASSERT_EQ(sample.ports.size(), 2U);  // all ports except lo
  EXPECT_EQ(sample.ports[1].name, "docker0");
}

TEST(Sampler, GpuAnswers) {
  ScriptedSource source;
  source.add_gpu("NVIDIA GeForce RTX 4090",
                 {{"gpu_percent", 97},
                  {"sm_clock_mhz", 2520},
                  {"power_mw", 431'200},
                  {"temperature_c", 71},
                  {"throttle_reasons", 0x24},
                  {"encoder_percent", 3},
                  {"energy_mj", 5'000'500},
                  {"memory_total_bytes", int64_t{24} << 30},
                  {"memory_used_bytes", int64_t{20} << 30}},
                 {{10, int64_t{1} << 30, true}, {10, int64_t{1} << 30, false}, {11, int64_t{2} << 30, true}});
  const Sample sample = Sampler(source).next(0);
  ASSERT_EQ(sample.gpus.size(), 1U);
  const GpuSample& gpu = sample.gpus[0];
  EXPECT_EQ(gpu.gpu.gpu_percent, 97);
  EXPECT_DOUBLE_EQ(*gpu.gpu.power_w, 431.2);
  EXPECT_EQ(gpu.throttle_reasons, (std::vector<std::string>{"power cap", "hot (software)"}));
  EXPECT_DOUBLE_EQ(*gpu.encoder_percent, 3);
  EXPECT_EQ(gpu.decoder_percent, std::nullopt);
  EXPECT_DOUBLE_EQ(*gpu.energy_j, 5000.5);
  EXPECT_EQ(gpu.gpu.process_memory, int64_t{3} << 30);  // a process that computes and draws has its memory counted once
  EXPECT_FALSE(gpu.unified());
  EXPECT_EQ(gpu.gpu.memory_used, int64_t{20} << 30);
}

TEST(Sampler, UnifiedMemoryHasTwoFigures) {
  ScriptedSource source;
  source.files["/proc/meminfo"] = "MemTotal: 125000000 kB\nMemFree: 1 kB\nMemAvailable: 100000000 kB\n";
  Answers& spark = source.add_gpu("NVIDIA GB10", {{"gpu_percent", 4}}, {{10, int64_t{3} << 30, true}});
  spark["memory_total_bytes"] = {{}, 3};
  Sample sample = Sampler(source).next(0);
  EXPECT_TRUE(sample.gpus.at(0).unified());
  EXPECT_EQ(sample.pool_used(), int64_t{25'000'000} * 1024);
  EXPECT_EQ(sample.gpus[0].gpu.process_memory, int64_t{3} << 30);
  EXPECT_EQ(sample.gpus[0].gpu.memory_used, std::nullopt);
  // A driver that does not list processes does not mean that there are none.
  source.driver.processes[0].clear();
  EXPECT_EQ(Sampler(source).next(0).gpus[0].gpu.process_memory, 0);
  spark["compute_processes"] = {{}, 4};
  EXPECT_EQ(Sampler(source).next(0).gpus[0].gpu.process_memory, std::nullopt);
  // One firmware reports the system's memory; that does not make it the GPU's own.
  spark["memory_total_bytes"] = {int64_t{125'000'000} * 1024, 0};
  spark["memory_used_bytes"] = {int64_t{1} << 30, 0};
  sample = Sampler(source).next(0);
  EXPECT_TRUE(sample.gpus[0].unified());
  EXPECT_EQ(sample.gpus[0].gpu.memory_total, std::nullopt);
}

TEST(Sampler, NonsenseIsNothing) {
  ScriptedSource source;
  Answers& gpu = source.add_gpu("GPU", {}, {{10, std::nullopt, true}, {-4, 5, true}});
  for (const std::string_view question : nvml_questions()) {
    if (question != "name") gpu[std::string(question)] = {int64_t{4294967295}, 0};
  }
  for (const int64_t nonsense : {int64_t{4294967295}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    for (auto& [question, answer] : gpu) {
      if (question != "name") answer = {nonsense, 0};
    }
    const Sample sample = Sampler(source).next(0);
    for (const Quantity& quantity : quantities(sample)) {
      if (quantity.name == "energy") continue;                               // any positive value may be true
      if (quantity.unit == Unit::bytes && nonsense == 4294967295) continue;  // four gigabytes are plausible
      EXPECT_EQ(quantity.value, std::nullopt) << quantity.column() << " of " << nonsense;
    }
    EXPECT_EQ(sample.gpus.at(0).throttle_reasons, std::nullopt);
    ASSERT_EQ(sample.processes.size(), 1U);
    EXPECT_EQ(sample.processes[0].gpu_bytes, std::nullopt);
  }
}

TEST(Sampler, GpusAreLostAndHang) {
  ScriptedSource source;
  source.add_gpu("A", {{"temperature_c", 50}});
  source.add_gpu("B", {{"temperature_c", 60}});
  source.driver.devices[0] = {{"handle", {{}, 15}}};
  Sample sample = Sampler(source).next(0);
  ASSERT_EQ(sample.gpus.size(), 2U);
  EXPECT_EQ(sample.gpus[0].gpu.temperature_c, std::nullopt);
  EXPECT_EQ(sample.gpus[1].index, 1);
  EXPECT_EQ(sample.gpus[1].gpu.temperature_c, 60);
  source.driver = {};
  source.driver.state = GpuDriverAnswers::State::timed_out;
  source.driver.reason = "nvmlInit did not come back within 0.5 s";
  sample = Sampler(source).next(0);
  EXPECT_TRUE(sample.gpus.empty());
  EXPECT_NE(sample.gpu_problem.find("nvmlInit did not come back"), std::string::npos);
}

TEST(Sampler, ThrottleReasonsInWords) {
  EXPECT_EQ(throttle_words(0), std::vector<std::string>());
  EXPECT_EQ(throttle_words(1), std::vector<std::string>{"idle"});
  EXPECT_EQ(throttle_words(0x48), (std::vector<std::string>{"slowed by hardware", "hot (hardware)"}));
  EXPECT_EQ(throttle_words(0x1200), std::vector<std::string>{"reason 0x1200"});
  EXPECT_EQ(throttle_words(~uint64_t{0}), std::nullopt);
}

TEST(Sampler, TheWarmestSensorOfAName) {
  ScriptedSource source;
  source.folders["/sys/class/thermal"] = {"cooling_device0", "thermal_zone0", "thermal_zone1"};
  source.folders["/sys/class/hwmon"] = {"hwmon0", "hwmon1", "hwmon2"};
  source.files["/sys/class/thermal/thermal_zone0/type"] = source.files["/sys/class/thermal/thermal_zone1/type"] =
      "acpitz\n";
  source.files["/sys/class/thermal/thermal_zone0/temp"] = "41000\n";
  source.files["/sys/class/thermal/thermal_zone1/temp"] = "52500\n";
  source.files["/sys/class/hwmon/hwmon0/name"] = "acpitz\n";  // the zones listed a second time
  source.files["/sys/class/hwmon/hwmon0/temp1_input"] = "99000\n";
  source.files["/sys/class/hwmon/hwmon1/name"] = "nvme\n";
  source.files["/sys/class/hwmon/hwmon1/temp1_input"] = "38850\n";
  source.files["/sys/class/hwmon/hwmon2/name"] = "broken\n";
  source.files["/sys/class/hwmon/hwmon2/temp1_input"] = "-273000\n";
  Sampler sampler(source);
  Sample sample = sampler.next(0);
  ASSERT_EQ(sample.temperatures.size(), 2U);
  EXPECT_DOUBLE_EQ(sample.temperatures[0].celsius, 52.5);
  EXPECT_EQ(sample.temperatures[1].name, "nvme");
  EXPECT_DOUBLE_EQ(*sample.cpu.temperature_c, 52.5);
  source.files.erase("/sys/class/thermal/thermal_zone0/temp");
  source.files.erase("/sys/class/thermal/thermal_zone1/temp");
  EXPECT_EQ(sampler.next(kSecond).cpu.temperature_c, std::nullopt);
}

// With any bytes in the files, a reading is made and its shares are within bounds.
TEST(Sampler, AnyBytes) {
  Random random(7);
  const std::string alphabet = "0123456789 -:.,\n\tcpu()kBMemTotal=sometotal\xff";
  for (int round = 0; round < 300; ++round) {
    ScriptedSource source;
    const auto noise = [&] {
      std::string text;
      for (int64_t n = random.integer(0, 300); n > 0; --n) {
        text += alphabet[static_cast<size_t>(random.integer(0, static_cast<int64_t>(alphabet.size()) - 1))];
      }
      return text;
    };
    source.set_process(5, "x", 1);
    source.folders["/sys/class/thermal"] = {"thermal_zone0"};
    Sampler sampler(source);
    for (int i = 0; i < 3; ++i) {
      for (const char* path :
           {"/proc/stat", "/proc/diskstats", "/proc/net/dev", "/proc/pressure/cpu", "/proc/loadavg", "/proc/meminfo",
            "/proc/5/stat", "/proc/5/status", "/sys/class/thermal/thermal_zone0/type"}) {
        source.files[path] = noise();
      }
      const std::string n = std::to_string(random.bits());
      source.files["/proc/stat"] = "cpu " + n + " 1 2 " + noise() + "\n" + noise();
      for (const Quantity& quantity : quantities(sampler.next(i * kSecond))) {
        if (!quantity.value) continue;
        EXPECT_TRUE(std::isfinite(*quantity.value)) << quantity.column();
        EXPECT_GE(*quantity.value, 0) << quantity.column();
        if (quantity.unit == Unit::percent) {
          EXPECT_LE(*quantity.value, 100) << quantity.column();
        }
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot::monitor
