#include "monitor/gpu_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot::monitor {
namespace {

constexpr int64_t kMaxMemory = int64_t{1} << 44;
constexpr int kNotSupported = 3;  // an nvmlReturn_t

std::optional<double> percent_of(const Answers& answers, std::string_view question) {
  const auto value = within(integer(answers, question), 0, 100);
  return value ? std::optional<double>(*value) : std::nullopt;
}

// A process is in the list of each kind of work that it does.
std::map<int64_t, std::optional<int64_t>> by_process(const std::vector<GpuProcess>& processes) {
  std::map<int64_t, std::optional<int64_t>> out;
  for (const GpuProcess& process : processes) {
    if (process.pid <= 0) continue;
    std::optional<int64_t>& bytes = out[process.pid];
    if (process.bytes && *process.bytes >= 0 && *process.bytes <= kMaxMemory) bytes = std::max(bytes, process.bytes);
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::string>> throttle_words(uint64_t bits) {
  static constexpr std::array<const char*, 9> kWords = {
      "idle",           "clocks set",     "power cap",   "slowed by hardware", "sync boost",
      "hot (software)", "hot (hardware)", "power brake", "display clocks"};
  constexpr uint64_t kMax = 0xffff;  // NVML has nine reasons; all ones is not an answer
  if (bits > kMax) return std::nullopt;
  std::vector<std::string> out;
  for (size_t i = 0; i < kWords.size(); ++i) {
    if (bits >> i & 1) out.emplace_back(kWords[i]);
  }
  if (bits >> kWords.size()) out.push_back(fmt::format("reason {:#x}", bits >> kWords.size() << kWords.size()));
  return out;
}

GpuReading read_gpus(Source& source) {
  const GpuDriverAnswers nvml = source.nvml();
  std::vector<Gpu> gpus = nvml_gpus(nvml);
  GpuReading out;
  out.problem = nvml_problem(nvml);
  for (size_t i = 0; i < gpus.size(); ++i) {
    const Answers& answers = nvml.devices[i];
    GpuSample& sample = out.gpus.emplace_back();
    sample.index = static_cast<int>(i);
    if (!gpus[i].nvml_index) continue;
    sample.gpu = std::move(gpus[i]);
    // Asking CUDA would load much of the driver; a GPU for which NVML does not support memory shares the system's.
    if (!sample.gpu.unified_memory && error_of(answers, "memory_total_bytes") == kNotSupported) {
      sample.gpu.unified_memory = true;
    }
    sample.encoder_percent = percent_of(answers, "encoder_percent");
    sample.decoder_percent = percent_of(answers, "decoder_percent");
    sample.fan_percent = percent_of(answers, "fan_percent");
    if (const auto energy = integer(answers, "energy_mj"); energy && *energy > 0) {
      sample.energy_j = static_cast<double>(*energy) * 1e-3;
    }
    if (sample.gpu.throttle_reasons) sample.throttle_reasons = throttle_words(*sample.gpu.throttle_reasons);
    if (i >= nvml.processes.size()) continue;
    const auto processes = by_process(nvml.processes[i]);
    for (const auto& [pid, bytes] : processes) {
      std::optional<int64_t>& total = out.process_bytes[pid];
      if (bytes) total = total.value_or(0) + *bytes;
    }
  }
  return out;
}

}  // namespace sparkpilot::monitor
