
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "sim/outside_trace.h"
#include "sim/steering-inl.h"
#include "sim/worker_algorithm.h"
#include "sim/world_stepper.h"

namespace sparkpilot::sim {
namespace {

// The numbers of a SparkpilotObservation, in its order.
constexpr std::string_view kSeen[] = {"time",
                                      "speed",
                                      "acceleration",
                                      "wheel_angle",
                                      "desired_curvature",
                                      "curvature_limited",
                                      "target_speed",
                                      "target_acceleration",
                                      "roll",
                                      "lead",
                                      "lead_gap",
                                      "lead_speed",
                                      "offset",
                                      "heading",
                                      "yaw_rate",
                                      "road_curvature",
                                      "road_curvature_500ms",
                                      "road_curvature_1s",
                                      "road_curvature_2s",
                                      "road_curvature_3s",
                                      "command"};
constexpr size_t kSeenNumbers = std::size(kSeen);
static_assert(kSeenNumbers * sizeof(float) == offsetof(SparkpilotObservation, unused));

std::array<size_t, kSeenNumbers> places_of_seen() {
  std::array<size_t, kSeenNumbers> places{};
  const auto all = observed_numbers();
  for (size_t i = 0; i < kSeenNumbers; ++i) {
    const auto found = std::ranges::find(all, kSeen[i], &WorldNumber::name);
    if (found == all.end()) fail_internal("sim: nothing seen is named {}", kSeen[i]);
    places[i] = static_cast<size_t>(found - all.begin());
  }
  return places;
}

SparkpilotCar car_of(const WorldSpec& w) {
  const Vehicle& v = w.vehicle;
  const auto k = scalar::car_constants(v);
  SparkpilotCar car{};
  const auto as = [](double value) { return static_cast<float>(value); };
  car.mass = as(v.mass);
  car.inertia = as(v.inertia);
  car.wheelbase = as(v.wheelbase);
  car.center_to_front = as(v.center_to_front);
  car.stiffness_front = as(v.stiffness_front);
  car.stiffness_rear = as(v.stiffness_rear);
  car.steer_ratio = as(v.steer_ratio);
  car.steer_ratio_rear = as(v.steer_ratio_rear);
  car.slip_factor = as(k.slip_factor);
  car.slip_roll = as(k.slip_roll);
  car.wheel_curvature = as(k.wheel_curvature);
  car.wheel_angle = as(k.wheel_angle);
  car.angle_limit = as(w.steering.angle_limit);
  car.lateral_delay = as(w.lateral_delay);
  car.accel_factor = as(w.lateral.accel_factor);
  car.friction = as(w.lateral.friction);
  car.step = as(kStep);
  return car;
}

}  // namespace

// Worlds first to last - 1 of a run, on one thread.
class WorkerAlgorithm::Batch {
 public:
  Batch(const WorkerAlgorithm& algorithm, const std::function<WorldSpec(int64_t)>& spec, const UserDrive& drive)
      : algorithm_(algorithm), spec_(spec), drive_(drive), places_(places_of_seen()) {}

  // Down to single worlds where the algorithm fails.
  void run(int64_t first, int64_t last, UserWorld* worlds) {
    if (drive_.stopped()) return;
    const std::string failed = attempt(first, last, worlds, [](int, const WorldStepper&) {});
    if (failed.empty()) return;
    if (last - first == 1) {
      worlds[first] = {{}, failed};
      return;
    }
    if (!drive_.stopped()) algorithm_.tell_once(failed, last - first);
    const int64_t middle = first + (last - first) / 2;
    run(first, middle, worlds);
    run(middle, last, worlds);
  }

  // Why the worlds have to be run again; empty if they need not. see(step, worlds) is called behind every step, and
  // before the first one with -1.
  template <class See>
  std::string attempt(int64_t first, int64_t last, UserWorld* worlds, See see) {
    std::unique_ptr<AlgorithmWorker> worker = algorithm_.take(drive_.stop);
    const std::string failed = drive_with(*worker, first, last, worlds, see);
    algorithm_.give_back(std::move(worker));
    return failed.empty() ? failed : algorithm_.name() + ": " + failed;
  }

 private:
  template <class See>
  std::string drive_with(AlgorithmWorker& worker, int64_t first, int64_t last, UserWorld* worlds, See& see) {
    const auto count = static_cast<size_t>(last - first);
    WorldStepper stepper(last - first, {.torque = algorithm_.torque(),
                                        .longitudinal = algorithm_.longitudinal(),
                                        .tyres = drive_.options.tyres,
                                        .seed = drive_.options.seed,
                                        .number = drive_.options.number});
    AlgorithmMemory& shared = worker.memory();
    std::memset(static_cast<void*>(&shared), 0, sizeof(shared));
    std::ranges::copy(drive_.parameters, shared.parameters);
    stepper.reset(nullptr, [&](int64_t i) {
      WorldSpec world = spec_(first + i);
      shared.cars[i] = car_of(world);
      return world;
    });
    if (const std::string wrong = worker.reset(count, drive_.stop); !wrong.empty()) return wrong + ", in reset";

    std::vector<SparkpilotOutput> commands(count);
    std::vector<std::string> failed(count);
    see(-1, stepper);
    for (int step = 0; step < drive_.options.steps && !drive_.stopped(); ++step) {
      show(stepper, shared);
      constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
      std::fill_n(shared.out, count, SparkpilotOutput{kNone, kNone});
      if (const std::string wrong = worker.update(drive_.stop); !wrong.empty()) {
        return fmt::format("{}, in update at {:.2f} s", wrong, step * kStep);
      }
      // Copied before it is checked: the worker may write at any time.
      std::memcpy(commands.data(), shared.out, count * sizeof(SparkpilotOutput));
      for (size_t i = 0; i < count; ++i) {
        const bool counts = failed[i].empty() && !stepper.diverged(static_cast<int64_t>(i));
        if (counts) failed[i] = algorithm_.no_command(&commands[i].lateral, step);
        if (!counts || !failed[i].empty()) commands[i] = {};
      }
      if (count == 1 && !failed[0].empty()) break;  // a trace ends there
      stepper.step(&commands[0].lateral, 1);
      see(step, stepper);
    }
    for (size_t i = 0; i < count; ++i) {
      UserWorld& world = worlds[first + static_cast<int64_t>(i)];
      if (failed[i].empty()) world = {stepper.result(static_cast<int64_t>(i)), {}};
      else world = {{}, failed[i]};
    }
    return {};
  }

  void show(const WorldStepper& stepper, AlgorithmMemory& shared) {
    const size_t numbers = observed_numbers().size();
    rows_.resize(static_cast<size_t>(stepper.count()) * numbers);
    stepper.observe(rows_.data());
    for (size_t i = 0; i < static_cast<size_t>(stepper.count()); ++i) {
      float values[kSeenNumbers];
      for (size_t n = 0; n < kSeenNumbers; ++n) values[n] = rows_[i * numbers + places_[n]];
      std::memcpy(static_cast<void*>(shared.seen + i), values, sizeof values);
    }
  }

  const WorkerAlgorithm& algorithm_;
  const std::function<WorldSpec(int64_t)>& spec_;
  const UserDrive& drive_;
  const std::array<size_t, kSeenNumbers> places_;
  std::vector<float> rows_;
};

void WorkerAlgorithm::tell_once(const std::string& failed, int64_t worlds) const {
  if (!options_.on_failed_batch || told_.exchange(true)) return;
  options_.on_failed_batch(fmt::format("{} ({} together): such worlds are run again in halves, down to single ones",
                                       failed, count_of(worlds, "world")));
}

std::vector<UserWorld> WorkerAlgorithm::run(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                            const UserDrive& drive) const {
  constexpr int64_t kBatch = kWorldsOfWorker;
  std::vector<UserWorld> worlds(static_cast<size_t>(std::max<int64_t>(count, 0)));
  parallel_for((count + kBatch - 1) / kBatch, 1, [&](int64_t begin, int64_t end) {
    Batch batch(*this, spec, drive);
    for (int64_t i = begin; i < end; ++i) batch.run(i * kBatch, std::min((i + 1) * kBatch, count), worlds.data());
  });
  if (drive.stopped()) worlds.clear();
  return worlds;
}

std::pair<Trace, std::string> WorkerAlgorithm::trace(const WorldSpec& world, const UserDrive& drive) const {
  Trace rows;
  UserWorld end;
  const std::function<WorldSpec(int64_t)> spec = [&](int64_t) { return world; };
  std::string failed = Batch(*this, spec, drive).attempt(0, 1, &end, OutsideTrace(rows));
  rows.result = end.result;
  return {std::move(rows), failed.empty() ? end.failed : failed};
}

std::optional<UpdateLatency> WorkerAlgorithm::latency(const WorldSpec& world, const UserDrive& drive) const {
  if (hung_ || drive.stopped()) return std::nullopt;
  std::unique_ptr<AlgorithmWorker> worker = take(drive.stop);
  AlgorithmMemory& shared = worker->memory();
  std::memset(static_cast<void*>(&shared), 0, sizeof(shared));
  std::ranges::copy(drive.parameters, shared.parameters);
  shared.cars[0] = car_of(world);
  for (size_t i = 0; i < kWorldsOfWorker; ++i) {
    const double phase = static_cast<double>(i) * 0.01;
    SparkpilotObservation& seen = shared.seen[i];
    seen.time = static_cast<float>(phase);
    seen.speed = static_cast<float>(20 + 5 * std::cos(phase));
    seen.target_speed = 20;
    seen.wheel_angle = static_cast<float>(10 * std::sin(phase - 0.1));
    seen.desired_curvature = seen.road_curvature = static_cast<float>(0.002 * std::sin(phase));
    seen.roll = 0.01f;
  }
  UpdateLatency latency;
  const bool measured =
      worker->reset(1, drive.stop).empty() && worker->time(latency.p50_us, latency.p99_us, drive.stop).empty();
  give_back(std::move(worker));
  return measured ? std::optional(latency) : std::nullopt;
}

}  // namespace sparkpilot::sim
