#include "cli/bench_gpu.h"

#include <cmath>

#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

template <typename T>
std::string known(const std::optional<T>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string rate(double bytes_per_second) {
  return bytes_per_second > 0 ? fmt::format("{:.1f}", bytes_per_second * 1e-9) : "-";
}

}  // namespace

std::string gpu_tables(const std::vector<BenchVariant>& variants, const std::vector<Measured>& models) {
  Table times({"on the GPU", "launches", "part", "mean ms", "p50", "p90", "p99", "min", "max"});
  Table load({"on the GPU", "busy %", "SM MHz", "W", "mJ/frame", "C", "memory"});
  std::string streams, loads;
  bool any = false, any_load = false;
  for (size_t i = 0; i < models.size(); ++i) {
    const std::optional<GpuFigures>& gpu = models[i].bench.gpu;
    if (!gpu) continue;
    any = true;
    loads += fmt::format("{}: loaded in {} ms, kernels compiled from PTX in {} and timed in {}\n", variants[i].name,
                         human_ms(models[i].bench.load_ms), human_ms(models[i].bench.ptx_ms),
                         human_ms(models[i].bench.tuning_ms));
    const std::pair<const char*, const Statistics*> parts[] = {{"enqueue", &gpu->enqueue},
                                                               {"to the GPU", &gpu->to_gpu},
                                                               {"compute", &gpu->compute},
                                                               {"to the host", &gpu->to_host}};
    for (const auto& [part, ms] : parts) {
      if (ms->max == 0) continue;  // no copies
      const bool first = part == parts[0].first;
      times.add({first ? variants[i].name : "", first ? std::to_string(gpu->a_run.launches) : "", part,
                 human_ms(ms->mean), human_ms(ms->p50), human_ms(ms->p90), human_ms(ms->p99), human_ms(ms->min),
                 human_ms(ms->max)});
    }
    if (gpu->streams > 1) {
      streams += fmt::format("{}: {} streams: {:.1f} frames/s, a run takes {} ms (p50), {} (p99)\n", variants[i].name,
                             gpu->streams, gpu->stream_frames_per_second, human_ms(gpu->stream_ms.p50),
                             human_ms(gpu->stream_ms.p99));
    }
    if (!gpu->load) continue;
    any_load = true;
    const std::optional<double> joules = gpu->joules_a_frame();
    load.add({variants[i].name, known(gpu->load->mean_percent, "{:.0f}"), known(gpu->load->mean_sm_clock_mhz, "{:.0f}"),
              known(gpu->load->mean_power_w, "{:.0f}"), joules ? fmt::format("{:.2f}", *joules * 1e3) : "-",
              known(gpu->load->max_temperature_c, "{}"),
              gpu->load->memory.peak ? human_bytes(*gpu->load->memory.peak) : "-"});
  }
  if (!any) return "";
  return "\n" + times.str() + streams + loads + (any_load ? "\n" + load.str() : "");
}

std::string gpu_limits_table(const GpuFigures& figures) {
  const GpuLimits& limits = figures.limits;
  Table table({"limit, " + figures.facts.name, "holds", "GFLOP/s", "GB/s read", "GB/s"});
  for (const UnitPeak& unit : limits.peak.units)
    table.add({unit.name, "-", fmt::format("{:.0f}", unit.flops_per_second * 1e-9), "-", "-"});
  for (const LevelPeak& level : limits.peak.levels) {
    if (level.reads_per_second == 0) continue;
    table.add({level.name, std::isfinite(level.bytes) ? human_bytes(static_cast<int64_t>(level.bytes)) : "-", "-",
               rate(level.reads_per_second), rate(level.bytes_per_second)});
  }
  if (limits.to_gpu > 0) {
    table.add({"pinned memory to the GPU", "-", "-", "-", rate(limits.to_gpu)});
    table.add({"GPU to pinned memory", "-", "-", "-", rate(limits.to_host)});
  }
  return table.str() + fmt::format("an empty kernel takes {:.0f} ns in a recording, a run of one {:.1f} us\n",
                                   limits.node_ns, limits.run_us);
}

}  // namespace sparkpilot::cli
