// Simulated worlds on the GPU: the bits of the processor's, and steps a second beside all of its cores.
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "part.h"
#include "sim/batch.h"
#include "sim/test_worlds.h"

namespace sparkpilot::gpu_check {
namespace {

double seconds_of(int64_t count, const sim::BatchOptions& options) {
  const int64_t begin = now_ns();
  sim::run_worlds(count, sim::varied, options);
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

Json check_world(sim::BatchOptions on_cpu, const Options& options, std::vector<std::string>& failures) {
  sim::BatchOptions on_gpu = on_cpu;
  on_gpu.gpu = GpuDevice::open(options.ordinal);
  sim::BatchOptions single = on_cpu;
  single.number = sim::Number::single;
  const int64_t checked = options.tiny ? 70 : 4001, timed = options.tiny ? 64 : 65536;
  const auto expected = sim::run_worlds(checked, sim::varied, single);
  const auto got = sim::run_worlds(checked, sim::varied, on_gpu);
  int64_t different = 0;
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    ++different;
    most = std::max(most, std::fabs(got[i].tracking_rmse - expected[i].tracking_rmse));
  }
  if (different > 0) {
    failures.push_back(fmt::format("{} of {} worlds have other bits than on the processor; tracking differs by {:.2g}",
                                   different, checked, most));
  }
  if (sim::run_worlds(checked, sim::varied, on_gpu) != got) failures.emplace_back("other bits when it is repeated");

  std::vector<double> cpu, gpu, ratios;
  for (int64_t round = 0; round < std::max<int64_t>(options.rounds / 3, 2); ++round) {
    cpu.push_back(seconds_of(timed, on_cpu));
    gpu.push_back(seconds_of(timed, on_gpu));
    ratios.push_back(cpu.back() / gpu.back());
  }
  const double steps = static_cast<double>(timed) * on_cpu.steps;
  return {{"steps", on_cpu.steps},
          {"checked", checked},
          {"different", different},
          {"worlds", timed},
          {"cpu_threads", thread_count()},
          {"cpu_steps_per_s", steps / median(cpu)},
          {"gpu_steps_per_s", steps / median(gpu)},
          {"cpu_time_to_gpu", median(ratios)}};
}

}  // namespace

Outcome check_worlds(const Options& options, const Json& go_on) {
  std::vector<sim::BatchOptions> all;
  std::vector<std::string> names;
  for (size_t c = 0; c < std::size(sim::kGpuControls); ++c) {
    for (size_t t = 0; t < std::size(sim::kTyres); ++t) {
      const std::string name = std::string(sim::kLateralNames[c]) + " " + sim::kTyresNames[t];
      if (!options.takes(name)) continue;
      all.push_back({.lateral = sim::kGpuControls[c], .tyres = sim::kTyres[t], .steps = options.tiny ? 50 : 1000});
      names.push_back(name);
    }
  }
  const auto held = GpuDevice::open(options.ordinal);
  const ThreadScope threads(available_processors());
  return each_of(options, go_on, "kinds", names, [&](size_t i, std::vector<std::string>& failures) {
    Json figures = check_world(all[i], options, failures);
    figures["kind"] = names[i];
    return figures;
  });
}

}  // namespace sparkpilot::gpu_check
