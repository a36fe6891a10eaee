// sim_bench: worlds in vectors, compared with plain scalar code of the same formulas (bench/sim/plain_world.cc) at
// equal threads.
//
//   sim_bench [--worlds N] [--steps N] [--rounds N] [--threads N] [--cpu LEVEL] [--scale | --planners | --stepped N]
//
// Three cases: PID with linear tyres, PID with saturating tyres, torque control with its buffer of 1 s. In each round
// both run all worlds, in turns; printed are medians in million steps of a world a second, and the median of the
// rounds' ratios with its interval. `native` is the plain code compiled for this processor. Before that, results of
// both are compared. --scale: from 1 to 1,048,576 worlds instead (bench/sim/plot_scaling.py draws it). --planners:
// worlds behind a car ahead by each planner, in turns. --stepped: the same worlds stepped from outside
// (sim/world_stepper.h), N steps with each command and everything observed behind them, beside run_worlds().
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "bench/sim/plain_world.h"
#include "hw/cpu.h"
#include "ops/cpu/limit.h"
#include "sim/world_stepper.h"

namespace sparkpilot::sim {
namespace {

struct Case {
  const char* name;
  Lateral lateral;
  Tyres tyres;
};
constexpr Case kCases[] = {{"PID, linear tyres, RK4", Lateral::pid, Tyres::linear},
                           {"PID, saturating tyres", Lateral::pid, Tyres::saturating},
                           {"torque control, 1 s buffer, linear tyres", Lateral::torque, Tyres::linear}};

WorldSpec spec(int64_t i) {
  static const auto cars = vehicle_presets();
  WorldSpec w;
  w.number = static_cast<uint64_t>(i);
  w.vehicle = cars[static_cast<size_t>(i) % cars.size()].vehicle;
  const auto part = [i](int64_t steps) { return static_cast<double>(i % steps) / static_cast<double>(steps); };
  w.course.speed = 10 + 20 * part(97);
  w.course.wave = 2 * (part(13) - 0.5) / (w.course.speed * w.course.speed);
  w.course.frequency = 0.2 + part(31);
  w.course.turn = 2 * (part(17) - 0.5) / (w.course.speed * w.course.speed);
  w.course.turn_at = 2;
  w.course.grip = 0.5 + 0.5 * part(7);
  w.course.roll = 0.04 * (part(11) - 0.5);
  return w;
}

struct Times {
  std::vector<double> wall, cpu;  // s
};

template <class Run>
void time(Run run, int64_t worlds, const BatchOptions& o, Times& times, std::vector<WorldResult>& results) {
  const int64_t start = now_ns();
  const std::clock_t cpu = std::clock();
  results = run(worlds, spec, o);
  times.wall.push_back(static_cast<double>(now_ns() - start) * 1e-9);
  times.cpu.push_back(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
}

// The greatest difference of tracking errors, in m/s^2.
double difference(const std::vector<WorldResult>& a, const std::vector<WorldResult>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i].tracking_rmse - b[i].tracking_rmse));
  return most;
}

void compare(const Case& c, int64_t worlds, int steps, int rounds) {
  const BatchOptions o{.lateral = c.lateral, .tyres = c.tyres, .steps = steps};
  std::vector<Beginning> begun;  // no part of the plain code, and not of its time
  for (int64_t i = 0; i < worlds; ++i) begun.push_back(beginning_of(spec(i), c.tyres));
  const auto from = [&](const auto& plain_worlds) {
    return [&](int64_t count, const auto& of, const BatchOptions& options) {
      return plain_worlds(count, of, options, begun);
    };
  };
  Times ours, plain, native;
  std::vector<WorldResult> r, p, n;
  for (int round = 0; round < rounds; ++round) {
    time(run_worlds, worlds, o, ours, r);
    time(from(plain::run_worlds), worlds, o, plain, p);
    time(from(plain_native::run_worlds), worlds, o, native, n);
  }
  const double all = static_cast<double>(worlds) * steps * 1e-6;
  const auto times_faster = [](const std::vector<double>& theirs, const std::vector<double>& own) {
    const Ratio x = ratio_of(theirs, own);
    return fmt::format("{:.1f} ({:.1f} to {:.1f})", x.median, x.low, x.high);
  };
  fmt::print("{}: {:.1f} million steps a second; tracking differs from plain by {:.1e} m/s^2 at most\n", c.name,
             all / median(ours.wall), difference(r, p));
  fmt::print("  plain  {:6.1f} M/s: {} times; by CPU time {}\n", all / median(plain.wall),
             times_faster(plain.wall, ours.wall), times_faster(plain.cpu, ours.cpu));
  fmt::print("  native {:6.1f} M/s: {} times; by CPU time {}\n", all / median(native.wall),
             times_faster(native.wall, ours.wall), times_faster(native.cpu, ours.cpu));
}

void planners(int64_t worlds, int steps, int rounds) {
  constexpr size_t kPlanners = std::size(kPlannerNames);
  Times times[kPlanners];
  for (int round = 0; round < rounds; ++round) {
    for (size_t p = 0; p < kPlanners; ++p) {
      const auto run = [&](int64_t count, const auto& worlds_of, const BatchOptions& o) {
        return run_worlds(
            count,
            [&](int64_t i) {
              WorldSpec w = worlds_of(i);
              w.lead = {.there = true, .gap = 2 * w.course.speed, .speed = w.course.speed - 3, .wave = 2};
              w.lead.frequency = 0.3;
              w.following.planner = static_cast<Planner>(p);
              return w;
            },
            o);
      };
      std::vector<WorldResult> r;
      time(run, worlds, {.steps = steps}, times[p], r);
    }
  }
  const double all = static_cast<double>(worlds) * steps * 1e-6;
  for (size_t p = 0; p < kPlanners; ++p) {
    const Ratio cost = ratio_of(times[p].cpu, times[0].cpu);
    fmt::print("{:7} {:7.2f} M/s, {:7.2f} by CPU time of all threads; CPU time {:.2f} ({:.2f} to {:.2f}) of {}'s\n",
               kPlannerNames[p], all / median(times[p].wall), all / median(times[p].cpu), cost.median, cost.low,
               cost.high, kPlannerNames[0]);
  }
}

void scale(int steps) {
  constexpr double kSeconds = 0.5;  // of each number of worlds, at least
  for (const Case& c : kCases) {
    for (int64_t worlds = 1; worlds <= 1 << 20; worlds *= 4) {
      Times times;
      std::vector<WorldResult> r;
      for (double spent = 0; spent < kSeconds; spent += times.wall.back()) {
        time(run_worlds, worlds, {.lateral = c.lateral, .tyres = c.tyres, .steps = steps}, times, r);
      }
      fmt::print("{:42} {:8} worlds {:8.2f} M/s\n", c.name, worlds,
                 static_cast<double>(worlds) * steps * 1e-6 / median(times.wall));
    }
  }
}

// Commands are 0: what a controller would cost is not in it.
void compare_stepped(int64_t worlds, int steps, int each, int rounds) {
  const BatchOptions o{.lateral = Lateral::pid, .tyres = Tyres::saturating, .steps = steps};
  Times inside, outside;
  std::vector<WorldResult> r;
  WorldStepper stepper(worlds, {.tyres = o.tyres});
  std::vector<float> commands(static_cast<size_t>(worlds) * 2),
      seen(static_cast<size_t>(worlds) * observed_numbers().size());
  const auto run_stepped = [&](int64_t, const auto&, const BatchOptions&) {
    stepper.reset(nullptr, spec);
    for (int step = 0; step < steps; step += each) {
      stepper.step(commands.data(), std::min(each, steps - step), seen.data());
    }
    return std::vector<WorldResult>{};
  };
  for (int round = 0; round < rounds; ++round) {
    time(run_worlds, worlds, o, inside, r);
    time(run_stepped, worlds, o, outside, r);
  }
  const double all = static_cast<double>(worlds) * steps * 1e-6;
  const Ratio wall = ratio_of(outside.wall, inside.wall), cpu = ratio_of(outside.cpu, inside.cpu);
  fmt::print("{} worlds: stepped from outside by {}: {:.1f} million steps a second; run_worlds {:.1f}\n", worlds, each,
             all / median(outside.wall), all / median(inside.wall));
  fmt::print("  the time of run_worlds {:.2f} ({:.2f} to {:.2f}) times; by CPU time {:.2f} ({:.2f} to {:.2f})\n",
             wall.median, wall.low, wall.high, cpu.median, cpu.low, cpu.high);
}

}  // namespace
}  // namespace sparkpilot::sim

int main(int argc, char** argv) {
  using namespace sparkpilot;
  CLI::App app{"Simulated worlds in vectors, compared with plain scalar code"};
  int64_t worlds = 65536;
  int steps = 1000, rounds = 5, threads = 0, stepped = 0;
  std::string cpu;
  bool scaling = false, planning = false;
  app.add_option("--worlds", worlds, "worlds")->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "steps of 10 ms")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "rounds")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "threads; 0: all");
  app.add_option("--cpu", cpu, "the instructions to use: avx512 or avx2");
  app.add_flag("--scale", scaling, "from 1 to 1,048,576 worlds, ours alone");
  app.add_flag("--planners", planning, "behind a car ahead, by each planner");
  app.add_option("--stepped", stepped, "worlds stepped from outside, as many steps at once")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!cpu.empty()) limit_kernels(cpu);
    const ThreadScope scope(threads);
    fmt::print("{}: {}; {} threads, {} steps\n", cpu_features().model, cpu_features().isa(), thread_count(), steps);
    if (planning) return sim::planners(worlds, steps, rounds), 0;
    if (stepped) return sim::compare_stepped(worlds, steps, stepped, rounds), 0;
    if (scaling) return sim::scale(steps), 0;
    for (const auto& c : sim::kCases) sim::compare(c, worlds, steps, rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
