// Simulated worlds on the GPU: the bits of the processor's, and steps a second beside all of its cores. Rollouts of
// learned plants, where --models has one: the processor's tokens but for the network's rounding.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "networks.h"
#include "part.h"
#include "sim/batch.h"
#include "sim/test_challenge.h"
#include "sim/test_worlds.h"
#include "sim/tinyphysics.h"
#include "sim/tinyphysics_network.h"
#include "sim/world_stepper_gpu.h"

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

// Worlds whose commands come from outside, as of the environment for learning, five steps with each.
class Stepped {
 public:
  Stepped(int64_t count, const sim::StepperOptions& options)
      : worlds_(count, options),
        commands_(static_cast<size_t>(count) * 2),
        seen_(static_cast<size_t>(count) * sim::observed_numbers().size()),
        costs_(static_cast<size_t>(count) * sim::step_costs().size()) {
    worlds_.reset(nullptr, sim::varied);
  }
  void step(int call) {
    const float most = worlds_.options().torque ? 1 : 90;
    for (size_t i = 0; i < commands_.size(); ++i)
      commands_[i] = most * static_cast<float>((i * 7 + static_cast<size_t>(call) * 3) % 21) / 20 - most / 2;
    worlds_.step(commands_.data(), kSteps, seen_.data(), costs_.data());
  }
  // Worlds of which something that was seen last is other.
  int64_t different(const Stepped& other) const {
    int64_t count = 0;
    const size_t seen = sim::observed_numbers().size(), costs = sim::step_costs().size();
    for (size_t i = 0; i < static_cast<size_t>(worlds_.count()); ++i) {
      count += std::memcmp(&seen_[i * seen], &other.seen_[i * seen], seen * sizeof(float)) != 0 ||
               std::memcmp(&costs_[i * costs], &other.costs_[i * costs], costs * sizeof(float)) != 0;
    }
    return count;
  }
  static constexpr int kSteps = 5;

 private:
  sim::WorldStepper worlds_;
  std::vector<float> commands_, seen_, costs_;
};

Json check_stepped(bool torque, const Options& options, std::vector<std::string>& failures) {
  const sim::StepperOptions on_cpu{.torque = torque};
  sim::StepperOptions single = on_cpu, on_gpu = on_cpu;
  single.number = sim::Number::single;
  on_gpu.elsewhere = sim::worlds_on_gpu(GpuDevice::open(options.ordinal));
  const int64_t checked = options.tiny ? 70 : 4001, timed = options.tiny ? 64 : 65536;
  const int calls = options.tiny ? 10 : 100;
  int64_t different = 0;
  {
    Stepped expected(checked, single), got(checked, on_gpu);
    for (int call = 0; call < calls && different == 0; ++call) {
      expected.step(call);
      got.step(call);
      different = got.different(expected);
    }
  }
  if (different > 0) {
    failures.push_back(
        fmt::format("{} of {} worlds stepped from outside have other bits than on the processor", different, checked));
  }
  Stepped cpu(timed, on_cpu), gpu(timed, on_gpu);
  const auto seconds = [&](Stepped& worlds) {
    const int64_t begin = now_ns();
    for (int call = 0; call < calls; ++call) worlds.step(call);
    return static_cast<double>(now_ns() - begin) * 1e-9;
  };
  std::vector<double> of_cpu, of_gpu, ratios;
  for (int64_t round = 0; round < std::max<int64_t>(options.rounds / 3, 2); ++round) {
    of_cpu.push_back(seconds(cpu));
    of_gpu.push_back(seconds(gpu));
    ratios.push_back(of_cpu.back() / of_gpu.back());
  }
  const double steps = static_cast<double>(timed) * calls * Stepped::kSteps;
  return {{"steps", calls * Stepped::kSteps},
          {"checked", checked},
          {"different", different},
          {"worlds", timed},
          {"cpu_threads", thread_count()},
          {"cpu_steps_per_s", steps / median(of_cpu)},
          {"gpu_steps_per_s", steps / median(of_gpu)},
          {"cpu_time_to_gpu", median(ratios)}};
}

// Files whose networks are of TinyPhysics' kind; of the others `no_plants` has the reasons.
std::vector<Network> plants(const Options& options, Json& no_plants) {
  std::vector<Network> out;
  if (options.models.empty()) return out;
  for (const Network& network : networks(options)) {
    if (network.file.empty()) continue;
    try {
      Graph graph = network.load();
      sim::plant_network(graph, network.name, 1);
      out.push_back(network);
    } catch (const Error& error) {
      no_plants.push_back({{"file", network.name}, {"why", error.what()}});
    }
  }
  return out;
}

// The challenge's PID on its routes, with the draws of the CPU's network. A draw at the edge of its bin falls into the
// next one where the network is rounded otherwise, and the rest of its route then differs.
Json check_rollouts(const Network& network, const Options& options, std::vector<std::string>& failures) {
  constexpr double kAllowedToDiffer = 0.05, kAllowedOfCosts = 0.01;
  constexpr int kRows = 240;
  const size_t timed = options.tiny ? 6 : 4096, checked = options.tiny ? 6 : 512;
  std::deque<sim::ChallengeRoute> routes;
  std::vector<sim::TinyPhysicsTask> tasks;
  for (uint32_t i = 0; i < timed; ++i) {
    routes.push_back(sim::parse_challenge_route(sim::integer_route(i + 1, kRows), "a route"));
    tasks.push_back({&routes.back(), i % 10000, "a route"});
  }
  const auto on = [&](const std::string& device) {
    sim::TinyPhysicsOptions plant{.device = device};
    if (options.tiny) plant.batch_on_gpu = 4;
    return std::make_unique<sim::TinyPhysics>(network.load(), network.name, plant);
  };
  const auto cpu = on("cpu"), gpu = on(options.device());
  // Steps of the network in a second.
  const auto steps_per_s = [&](sim::TinyPhysics& plant, size_t count, std::vector<sim::TinyPhysicsRollout>& rollouts) {
    const int64_t begin = now_ns();
    rollouts = plant.run(std::span(tasks).first(count), sim::challenge_controller("pid"));
    return static_cast<double>(count) * (kRows - sim::kChallengeStart) / (static_cast<double>(now_ns() - begin) * 1e-9);
  };
  std::vector<sim::TinyPhysicsRollout> expected, got, again;
  std::vector<double> of_cpu, of_gpu, ratios;
  for (int64_t round = 0; round < std::max<int64_t>(options.rounds / 4, 2); ++round) {
    of_cpu.push_back(steps_per_s(*cpu, checked, expected));
    of_gpu.push_back(steps_per_s(*gpu, timed, round == 0 ? got : again));
    ratios.push_back(of_gpu.back() / of_cpu.back());
  }
  size_t different = 0, repeated = 0;
  double cost = 0, cost_of_cpu = 0;
  for (size_t i = 0; i < checked; ++i) {
    different += got[i].tokens != expected[i].tokens;
    cost += got[i].costs->total;
    cost_of_cpu += expected[i].costs->total;
  }
  for (size_t i = 0; i < timed; ++i) repeated += got[i].tokens == again[i].tokens;
  if (static_cast<double>(different) > kAllowedToDiffer * static_cast<double>(checked)) {
    failures.push_back(fmt::format("{} of {} routes have other tokens than on the processor", different, checked));
  }
  if (!(std::fabs(cost - cost_of_cpu) <= kAllowedOfCosts * cost_of_cpu)) {
    failures.push_back(fmt::format("mean costs of {:.6g}, {:.6g} on the processor", cost / static_cast<double>(checked),
                                   cost_of_cpu / static_cast<double>(checked)));
  }
  if (repeated != timed) failures.emplace_back("other tokens when it is repeated");
  return {{"steps", kRows - sim::kChallengeStart},
          {"checked", checked},
          {"different", different},
          {"worlds", timed},
          {"cpu_threads", thread_count()},
          {"cpu_steps_per_s", median(of_cpu)},
          {"gpu_steps_per_s", median(of_gpu)},
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
  std::vector<bool> stepped;  // whether by torque
  for (const bool torque : {true, false}) {
    const std::string name = torque ? "torque from outside" : "angle from outside";
    if (!options.takes(name)) continue;
    stepped.push_back(torque);
    names.push_back(name);
  }
  Json no_plants = Json::array();
  const std::vector<Network> learned = plants(options, no_plants);
  for (const Network& network : learned) names.push_back(network.name + " pid");
  const auto held = GpuDevice::open(options.ordinal);
  const ThreadScope threads(available_processors());
  Outcome out = each_of(options, go_on, "kinds", names, [&](size_t i, std::vector<std::string>& failures) {
    const size_t by_steps = all.size(), by_network = by_steps + stepped.size();
    Json figures = i < by_steps     ? check_world(all[i], options, failures)
                   : i < by_network ? check_stepped(stepped[i - by_steps], options, failures)
                                    : check_rollouts(learned[i - by_network], options, failures);
    figures["kind"] = names[i];
    return figures;
  });
  if (!no_plants.empty()) out.figures["no_plants"] = std::move(no_plants);
  return out;
}

}  // namespace sparkpilot::gpu_check
