#include "monitor/output.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sparkpilot::monitor {
namespace {

using Json = nlohmann::ordered_json;

bool is_whole(Unit unit) { return unit == Unit::bytes || unit == Unit::bytes_per_second; }

Json number(Unit unit, std::optional<double> value) {
  if (!value) return nullptr;
  if (is_whole(unit) || *value == std::round(*value)) return std::llround(*value);
  return std::round(*value * 1e3) / 1e3;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// The object that contains a quantity: "memory", or an element of the list "disks".
Json& place(Json& document, const Quantity& quantity) {
  const std::string group(quantity.group);
  if (quantity.instance.empty()) return document[group];
  Json& list = document[group + "s"];
  if (list.empty() || list.back()[group] != quantity.instance) list.push_back({{group, quantity.instance}});
  return list.back();
}

Json to_json(const ProcessSample& process) {
  return {{"pid", process.pid},
          {"name", process.name.empty() ? Json() : Json(process.name)},
          {"cpu_percent", number(Unit::percent, process.cpu_percent)},
          {"resident_bytes", or_null(process.resident_bytes)},
          {"on_gpu", process.on_gpu},
          {"gpu_bytes", or_null(process.gpu_bytes)}};
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string heading_of(const Sample& sample, const Quantity& quantity) {
  if (quantity.group == "gpu") {
    for (const GpuSample& gpu : sample.gpus) {
      if (std::to_string(gpu.index) != quantity.instance) continue;
      return fmt::format("GPU {}  {}{}", gpu.index, gpu.title(), gpu.unified() ? ", unified memory" : "");
    }
  }
  if (quantity.group == "cpu") return "CPU";
  return std::string(quantity.group) + (quantity.instance.empty() ? "" : " " + quantity.instance);
}

std::string spaced(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c == '_' ? ' ' : c;
  return out;
}

}  // namespace

Json to_json(const Sample& sample, const std::string& time) {
  Json document = {{"time", time},
                   {"seconds", number(Unit::count, sample.seconds)},
                   {"interval_s", number(Unit::count, sample.interval_s)}};
  document["gpus"] = Json::array();
  for (const Quantity& quantity : quantities(sample)) {
    place(document, quantity)[quantity.key()] = number(quantity.unit, quantity.value);
  }
  for (size_t i = 0; i < sample.gpus.size(); ++i) {
    const GpuSample& gpu = sample.gpus[i];
    Json& out = document["gpus"][i];
    out["name"] = gpu.gpu.name.empty() ? Json() : Json(gpu.gpu.name);
    out["unified_memory"] = gpu.unified();
    out["throttle_reasons"] = or_null(gpu.throttle_reasons);
  }
  if (!sample.gpu_problem.empty()) document["gpu_problem"] = sample.gpu_problem;
  Json& processors = document["cpu"]["processors_percent"] = Json::array();
  for (const Processor& processor : sample.cpu.processors) {
    processors.push_back(number(Unit::percent, processor.percent));
  }
  Json& list = document["processes"]["list"] = Json::array();
  constexpr size_t kListed = 64;
  for (size_t i = 0; i < std::min(kListed, sample.processes.size()); ++i) list.push_back(to_json(sample.processes[i]));
  return document;
}

Json to_json(const Summary& summary) {
  Json quantities = Json::object(), energy = Json::array();
  for (const Summary::Row& row : summary.rows()) {
    const Unit unit = row.quantity.unit;
    quantities[row.quantity.column()] = {{"mean", number(unit, row.statistics.mean)},
                                         {"p50", number(unit, row.statistics.p50)},
                                         {"p99", number(unit, row.statistics.p99)},
                                         {"max", number(unit, row.statistics.max)},
                                         {"samples", row.statistics.count}};
  }
  for (const EnergyMeter::Energy& of : summary.energy()) {
    energy.push_back({{"gpu", of.gpu},
                      {"energy_j", number(Unit::joules, of.joules)},
                      {"seconds", number(Unit::count, of.seconds)},
                      {"from", of.joules ? Json(of.counted ? "counter" : "power") : Json()}});
  }
  return {{"samples", summary.samples()},
          {"seconds", number(Unit::count, summary.seconds())},
          {"energy", energy},
          {"quantities", quantities}};
}

Csv::Csv(const Sample& first) {
  for (const Quantity& quantity : quantities(first)) columns_.push_back(quantity.column());
}

std::string Csv::heading() const {
  std::string out = "time,seconds";
  for (const std::string& column : columns_) out += "," + column;
  return out + "\n";
}

std::string Csv::row(const Sample& sample, const std::string& time) const {
  std::map<std::string, std::string> cells;
  for (const Quantity& quantity : quantities(sample)) {
    if (quantity.value) cells[quantity.column()] = json_text(number(quantity.unit, quantity.value));
  }
  std::string out = fmt::format("{},{:.3f}", time, sample.seconds);
  for (const std::string& column : columns_) {
    const auto found = cells.find(column);
    out += "," + (found == cells.end() ? "" : found->second);
  }
  return out + "\n";
}

std::string to_text(const Sample& sample, size_t processes) {
  std::string out, before;
  if (!sample.gpu_problem.empty()) out += sample.gpu_problem + "\n";
  for (const Quantity& quantity : quantities(sample)) {
    const std::string heading = heading_of(sample, quantity);
    if (heading != before) out += heading + "\n";
    before = heading;
    out += fmt::format("  {:<20} {:>12}\n", spaced(quantity.name), human(quantity.unit, quantity.value));
    if (quantity.group != "gpu" || quantity.name != "throttled") continue;
    for (const GpuSample& gpu : sample.gpus) {
      if (std::to_string(gpu.index) != quantity.instance || !gpu.throttle_reasons) continue;
      if (!gpu.throttle_reasons->empty()) out += fmt::format("  {:<20} {}\n", "reasons", joined(*gpu.throttle_reasons));
    }
  }
  if (!sample.processes.empty()) {
    out += fmt::format("{:>9} {:>10} {:>10} {:>10}  {}\n", "pid", "gpu", "cpu", "memory", "process");
  }
  for (size_t i = 0; i < std::min(processes, sample.processes.size()); ++i) {
    const ProcessSample& process = sample.processes[i];
    const auto bytes = [](std::optional<int64_t> value) {
      return human(Unit::bytes, value ? std::optional(static_cast<double>(*value)) : std::nullopt);
    };
    out += fmt::format("{:>9} {:>10} {:>10} {:>10}  {}\n", process.pid, process.on_gpu ? bytes(process.gpu_bytes) : "",
                       human(Unit::percent, process.cpu_percent), bytes(process.resident_bytes),
                       process.name.empty() ? "n/a" : process.name);
  }
  return out;
}

}  // namespace sparkpilot::monitor
