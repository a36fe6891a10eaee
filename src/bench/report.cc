#include "bench/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "bench/facts.h"
#include "passes/precision.h"

namespace sparkpilot {

using Json = nlohmann::ordered_json;

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

namespace {

Json share_of(double share, const std::string& limit) { return limit.empty() ? Json() : Json(share); }

}  // namespace

Json to_json(std::span<const LaunchProfile> launches) {
  Json out = Json::array();
  for (const LaunchProfile& l : launches) {
    out.push_back({{"kernel", l.kernel},
                   {"blocks", l.blocks},
                   {"threads", l.threads},
                   {"shared_bytes", l.shared_bytes},
                   {"registers", l.registers}});
  }
  return out;
}

Json to_json(const Profile& profile) {
  Json nodes = Json::array();
  for (const NodeProfile& node : profile.nodes) {
    if (node.calls == 0) continue;
    Json declined = Json::array();
    for (const DeclinedKernel& d : node.declined) declined.push_back({{"kernel", d.kernel}, {"reason", d.reason}});
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"kernel", node.kernel},
                     {"chosen_by", name(node.chosen_by)},
                     {"kind", node.kind},
                     {"declined", std::move(declined)},
                     {"shape", node.shape},
                     {"calls", node.calls},
                     {"mean_ms", node.mean_ns() * 1e-6},
                     {"flops", node.flops},
                     {"bytes", node.bytes},
                     {"roofline_share", share_of(node.roofline_share, node.roofline_limit)},
                     {"roofline_limit", node.roofline_limit}});
    if (!node.launches.empty()) nodes.back()["launches"] = to_json(std::span<const LaunchProfile>(node.launches));
  }
  return nodes;
}

Json to_json(std::span<const KernelDecision> choices) {
  Json out = Json::array();
  for (const KernelDecision& choice : choices) {
    out.push_back(
        {{"node", choice.node}, {"kernel", choice.kernel}, {"chosen_by", name(choice.by)}, {"note", choice.note}});
  }
  return out;
}

Json to_json(const Ratio& ratio) {
  return {{"median", ratio.median}, {"low", ratio.low}, {"high", ratio.high}, {"rounds", ratio.rounds}};
}

Json to_json(const Peak& peak) {
  Json units = Json::array(), levels = Json::array();
  for (const UnitPeak& unit : peak.units) {
    units.push_back({{"name", unit.name},
                     {"products", arithmetic_name(unit.arithmetic)},
                     {"flops_per_second", unit.flops_per_second}});
  }
  for (const LevelPeak& level : peak.levels) {
    if (level.reads_per_second == 0) continue;
    Json one{{"name", level.name},
             {"bytes", nullptr},
             {"read_bytes_per_second", level.reads_per_second},
             {"bytes_per_second", level.bytes_per_second}};
    if (std::isfinite(level.bytes)) one["bytes"] = level.bytes;
    levels.push_back(std::move(one));
  }
  return {{"threads", peak.threads}, {"units", std::move(units)}, {"levels", std::move(levels)}};
}

namespace {

Json milliseconds(const Statistics& ms) {
  return {{"mean", ms.mean}, {"p50", ms.p50}, {"p90", ms.p90}, {"p99", ms.p99}, {"min", ms.min}, {"max", ms.max}};
}

template <typename T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json to_json(const GpuFigures& gpu) {
  Json out{{"name", gpu.facts.name},
           {"pci", gpu.facts.pci},
           {"compute_capability", fmt::format("{}.{}", gpu.facts.capability / 10, gpu.facts.capability % 10)},
           {"multiprocessors", gpu.facts.multiprocessors},
           {"cuda_driver", fmt::format("{}.{}", gpu.facts.driver / 1000, gpu.facts.driver % 1000 / 10)},
           {"unified_memory", gpu.facts.unified},
           {"launches", gpu.a_run.launches},
           {"copies_to_gpu", gpu.a_run.to_gpu},
           {"copies_to_host", gpu.a_run.to_host},
           {"bytes_to_gpu", gpu.a_run.bytes_to_gpu},
           {"bytes_to_host", gpu.a_run.bytes_to_host},
           {"enqueue_ms", milliseconds(gpu.enqueue)},
           {"to_gpu_ms", milliseconds(gpu.to_gpu)},
           {"compute_ms", milliseconds(gpu.compute)},
           {"to_host_ms", milliseconds(gpu.to_host)},
           {"empty_kernel_ns", gpu.limits.node_ns},
           {"empty_run_us", gpu.limits.run_us},
           {"to_gpu_bytes_per_second", gpu.limits.to_gpu},
           {"to_host_bytes_per_second", gpu.limits.to_host},
           {"load", nullptr}};
  if (gpu.streams > 1) {
    out["streams"] = {{"count", gpu.streams},
                      {"frames_per_second", gpu.stream_frames_per_second},
                      {"run_ms", milliseconds(gpu.stream_ms)}};
  }
  if (!gpu.load) return out;
  out["load"] = {{"seconds", gpu.load_seconds},
                 {"frames", gpu.load_frames},
                 {"busy_percent", known(gpu.load->mean_percent)},
                 {"sm_clock_mhz", known(gpu.load->mean_sm_clock_mhz)},
                 {"power_w", known(gpu.load->mean_power_w)},
                 {"joules_a_frame", known(gpu.joules_a_frame())},
                 {"temperature_c", known(gpu.load->max_temperature_c)},
                 {"memory_bytes", known(gpu.load->memory.peak)}};
  return out;
}

Json to_json(const ModelBench& bench, const BenchOptions& options) {
  Json out{{"file", bench.file},
           {"file_bytes", bench.file_bytes},
           {"file_fnv1a_64", bench.file_fnv1a_64},
           {"precision", name(bench.precision)},
           {"threads", bench.threads},
           {"batch", bench.batch},
           {"settings", settings_facts(options)},
           {"runs", bench.ms.count},
           {"mean_ms", bench.ms.mean},
           {"p50_ms", bench.ms.p50},
           {"p90_ms", bench.ms.p90},
           {"p99_ms", bench.ms.p99},
           {"min_ms", bench.ms.min},
           {"max_ms", bench.ms.max},
           {"first_ms", bench.first_ms},
           {"frames_per_second", bench.frames_per_second()},
           {"load_ms", bench.load_ms},
           {"ptx_ms", bench.ptx_ms},
           {"tuning_ms", bench.tuning_ms},
           {"peak_memory_bytes", nullptr},
           {"weight_bytes", bench.weight_bytes},
           {"flops", bench.flops},
           {"roofline_share", share_of(bench.roofline_share, bench.roofline_limit)},
           {"roofline_limit", bench.roofline_limit},
           {"limits", to_json(bench.peak)}};
  if (bench.peak_memory_bytes) out["peak_memory_bytes"] = *bench.peak_memory_bytes;
  if (!bench.trials.empty()) {
    Json trials = Json::array();
    for (const ThreadTrial& trial : bench.trials)
      trials.push_back({{"threads", trial.threads}, {"p50_ms", trial.p50_ms}});
    out["thread_trials"] = trials;
  }
  if (bench.gpu) out["gpu"] = to_json(*bench.gpu);
  if (!bench.notes.empty()) out["notes"] = bench.notes;
  out["choices"] = to_json(bench.choices);
  if (!bench.profile.nodes.empty()) out["profile"] = to_json(bench.profile);
  return out;
}

std::vector<OpTime> times_by_op(const Profile& profile) {
  std::map<std::pair<std::string, std::string>, OpTime> sums;
  double total = 0;
  for (const NodeProfile& node : profile.nodes) {
    if (node.calls == 0) continue;
    OpTime& sum = sums[{node.op, node.kernel}];
    sum.op = node.op;
    sum.kernel = node.kernel;
    ++sum.nodes;
    sum.mean_ms += node.mean_ns() * 1e-6;
    total += node.mean_ns() * 1e-6;
  }
  std::vector<OpTime> out;
  for (auto& [key, sum] : sums) {
    sum.share = total > 0 ? sum.mean_ms / total : 0;
    out.push_back(sum);
  }
  std::stable_sort(out.begin(), out.end(), [](const OpTime& a, const OpTime& b) { return a.mean_ms > b.mean_ms; });
  return out;
}

std::vector<DeclinedNodes> declined_kernels(const Profile& profile) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, DeclinedNodes> sums;
  for (const NodeProfile& node : profile.nodes) {
    if (node.calls == 0) continue;
    for (const DeclinedKernel& d : node.declined) {
      DeclinedNodes& sum = sums[{node.op, node.kernel, d.kernel, d.reason}];
      if (sum.nodes == 0) sum = {.op = node.op, .kernel = node.kernel, .declined = d.kernel, .reason = d.reason};
      ++sum.nodes;
      sum.mean_ms += node.mean_ns() * 1e-6;
    }
  }
  std::vector<DeclinedNodes> out;
  for (auto& [key, sum] : sums) out.push_back(sum);
  std::stable_sort(out.begin(), out.end(),
                   [](const DeclinedNodes& a, const DeclinedNodes& b) { return a.mean_ms > b.mean_ms; });
  return out;
}

}  // namespace sparkpilot
