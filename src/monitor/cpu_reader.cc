#include "monitor/cpu_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "hw/parse_text.h"
#include "hw/probe.h"
#include "monitor/counters.h"

namespace sparkpilot::monitor {
namespace {

constexpr int kMaxProcessors = 4096;
constexpr size_t kMaxSensors = 24, kMaxPaths = 16, kClocksOfCluster = 16;

bool mentions_cpu(std::string_view name) {
  const std::string text = lower(name);
  constexpr std::array<const char*, 6> kParts = {"cpu", "coretemp", "k10temp", "zenpower", "pkg_temp", "soc"};
  return std::any_of(kParts.begin(), kParts.end(), [&](const char* part) { return contains(text, part); });
}

}  // namespace

CpuReader::CpuReader(Source& source) : source_(source) {
  for (const CoreKind& kind : probe_cpu(source).kinds) {
    clusters_.push_back({kind.name, kind.processors, {}, {}, kind.max_mhz});
  }
}

void CpuReader::read_stat(CpuSample& sample) {
  const std::string text = read_text(source_, "/proc/stat");
  std::map<std::string, Ticks> now, growth;
  for (std::string_view left = text; const auto line = next_line(left);) {
    if (line->substr(0, 3) != "cpu") break;  // the processors' lines come first
    const auto fields = words(*line, 9);
    if (fields.size() < 5 || now.size() > kMaxProcessors) continue;
    // user nice system idle iowait irq softirq steal; guest time is already included in user.
    Ticks ticks;
    bool sane = true;
    for (size_t i = 1; i < fields.size(); ++i) {
      const auto value = to_integer(fields[i]);
      sane = sane && value && *value >= 0 && *value < INT64_MAX / 16;
      if (!sane) break;
      ticks.total += *value;
      if (i != 4 && i != 5) ticks.busy += *value;
    }
    if (!sane) continue;
    const std::string name(fields[0]);
    const auto before = before_.find(name);
    now[name] = ticks;
    if (before == before_.end() || ticks.total < before->second.total || ticks.busy < before->second.busy) continue;
    growth[name] = {ticks.busy - before->second.busy, ticks.total - before->second.total};
  }
  const auto share = [&](const std::string& name) -> std::optional<double> {
    const auto found = growth.find(name);
    if (found == growth.end()) return std::nullopt;
    return percent(static_cast<double>(found->second.busy), static_cast<double>(found->second.total));
  };
  sample.percent = share("cpu");
  for (const auto& [name, ticks] : now) {
    const auto number = within(to_integer(std::string_view(name).substr(3)), 0, kMaxProcessors - 1);
    if (number) sample.processors.push_back({*number, share(name)});
  }
  std::sort(sample.processors.begin(), sample.processors.end(),
            [](const Processor& a, const Processor& b) { return a.number < b.number; });
  for (Cluster& cluster : sample.clusters) {
    Ticks sum;
    for (const int number : cluster.processors) {
      const auto found = growth.find("cpu" + std::to_string(number));
      if (found == growth.end()) continue;
      sum.busy += found->second.busy;
      sum.total += found->second.total;
    }
    cluster.percent = percent(static_cast<double>(sum.busy), static_cast<double>(sum.total));
  }
  before_ = std::move(now);
}

std::optional<double> CpuReader::mhz(const Cluster& cluster) const {
  const size_t step = cluster.processors.size() / kClocksOfCluster + 1;
  double sum = 0;
  int known = 0;
  for (size_t i = 0; i < cluster.processors.size(); i += step) {
    const auto khz =
        within(read_integer(source_, "/sys/devices/system/cpu/cpu" + std::to_string(cluster.processors[i]) +
                                         "/cpufreq/scaling_cur_freq"),
               1'000, 10'000'000);
    if (!khz) continue;
    sum += *khz * 1e-3;
    ++known;
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

CpuSample CpuReader::next() {
  CpuSample sample;
  sample.clusters = clusters_;
  read_stat(sample);
  for (Cluster& cluster : sample.clusters) {
    cluster.mhz = mhz(cluster);
    if (!sample.mhz || cluster.mhz > sample.mhz) sample.mhz = cluster.mhz;
  }
  const std::string load = read_text(source_, "/proc/loadavg", 256);
  const auto fields = words(load, 1);
  double value = 0;
  if (!fields.empty()) {
    const auto [end, error] = std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), value);
    if (error == std::errc{} && end == fields[0].data() + fields[0].size() && value >= 0 && value < 1e6) {
      sample.load = value;
    }
  }
  return sample;
}

TemperatureReader::TemperatureReader(Source& source) : source_(source) {
  const auto add = [this](const std::string& name, const std::string& path) {
    const auto known =
        std::find_if(sensors_.begin(), sensors_.end(), [&](const Sensor& sensor) { return sensor.name == name; });
    if (known != sensors_.end()) {
      if (known->paths.size() < kMaxPaths) known->paths.push_back(path);
    } else if (!name.empty() && sensors_.size() < kMaxSensors) {
      sensors_.push_back({name, mentions_cpu(name), {path}});
    }
  };
  for (const std::string& zone : source.list("/sys/class/thermal")) {
    if (zone.substr(0, 12) != "thermal_zone") continue;
    add(read_plain(source, "/sys/class/thermal/" + zone + "/type"), "/sys/class/thermal/" + zone + "/temp");
  }
  const size_t zones = sensors_.size();
  for (const std::string& chip : source.list("/sys/class/hwmon")) {
    const std::string folder = "/sys/class/hwmon/" + chip, name = read_plain(source, folder + "/name");
    const auto zone = std::find_if(sensors_.begin(), sensors_.begin() + static_cast<std::ptrdiff_t>(zones),
                                   [&](const Sensor& sensor) { return sensor.name == name; });
    // The kernel also lists its zones as a chip. A chip's first sensor is the whole package or disk.
    const bool shown = zone != sensors_.begin() + static_cast<std::ptrdiff_t>(zones);
    if (!shown && source.read(folder + "/temp1_input", 16)) add(name, folder + "/temp1_input");
  }
  // ACPI's zones have only this name; if no other sensor is the processor's, it is what they measure.
  if (std::none_of(sensors_.begin(), sensors_.end(), [](const Sensor& sensor) { return sensor.cpu; })) {
    for (Sensor& sensor : sensors_) sensor.cpu = sensor.name == "acpitz";
  }
}

std::vector<Temperature> TemperatureReader::next() const {
  std::vector<Temperature> out;
  for (const Sensor& sensor : sensors_) {
    std::optional<int> warmest;
    for (const std::string& path : sensor.paths) {
      warmest = std::max(warmest, within(read_integer(source_, path), 1, 150'000));
    }
    if (warmest) out.push_back({sensor.name, *warmest * 1e-3, sensor.cpu});
  }
  return out;
}

}  // namespace sparkpilot::monitor
