#include "sim/world_stepper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/test_error.h"
#include "hwy/targets.h"
#include "sim/alone-inl.h"
#include "sim/test_worlds.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

size_t column(std::string_view name) {
  const auto found = std::ranges::find(observed_numbers(), name, &WorldNumber::name);
  EXPECT_NE(found, observed_numbers().end()) << name;
  return static_cast<size_t>(found - observed_numbers().begin());
}

// What a world tells, by name.
class Row {
 public:
  Row(const std::vector<float>& all, int64_t world)
      : row_(all.data() + static_cast<size_t>(world) * observed_numbers().size()) {}
  float operator[](std::string_view name) const { return row_[column(name)]; }

 private:
  const float* row_;
};

// openpilot's controllers of a world, computed in N outside of it from what is seen.
template <class N, class Control>
class Driver {
 public:
  Driver(const WorldSpec& spec, Tyres tyres)
      : k_(converted<WorldConstants<N, Control>, N>(prepare<Control>(spec, tyres))),
        requests_(kRequests,
                  Control::begin(k_.course.start_desired * k_.course.speed * k_.course.speed, N(0), lateral_)) {}
  void command(const Row& see, float* out) {
    const bool no = false, yes = true;
    const LateralInput<N> in{-see["desired_curvature"],
                             see["speed"],
                             see["wheel_angle"],
                             N(0),
                             see["roll"],
                             static_cast<N>(delay_frames(static_cast<double>(see["lateral_delay"]))),
                             yes,
                             no,
                             no,
                             see["curvature_limited"] > 0.5f};
    bool saturated;
    out[0] = static_cast<float>(
        Control::update(k_.lateral, k_.car, in, Ring<N, kRequests>{requests_.data(), 1}, step_++, lateral_, saturated));
    const N speed = see["speed"], target = see["target_acceleration"];
    const bool stop = speed < N(0.3) && target < N(0.1);
    out[1] = static_cast<float>(longitudinal_control(
        k_.longitudinal, {speed, see["acceleration"], see["target_speed"], target, yes, stop, no, no}, longitudinal_));
  }

 private:
  WorldConstants<N, Control> k_;
  typename Control::template State<N> lateral_{};
  LongitudinalState<N> longitudinal_{2, 0, 0};
  std::vector<N> requests_;
  int step_ = 0;
};

// Runs worlds `count` steps with drivers outside. World i begins anew in step restarts[i], if there is such a number.
template <class N, class Control>
WorldStepper driven(int64_t worlds, const StepperOptions& o, int count, const std::vector<int>& restarts = {},
                    WorldSpec (*spec)(int64_t) = varied) {
  WorldStepper stepper(worlds, o);
  stepper.reset(nullptr, spec);
  std::vector<Driver<N, Control>> drivers;
  for (int64_t i = 0; i < worlds; ++i) drivers.emplace_back(spec(i), o.tyres);
  std::vector<float> seen(static_cast<size_t>(worlds) * observed_numbers().size()),
      commands(static_cast<size_t>(worlds) * 2);
  for (int step = 0; step < count; ++step) {
    std::vector<uint8_t> again(static_cast<size_t>(worlds));
    for (size_t i = 0; i < restarts.size(); ++i) {
      if (restarts[i] != step) continue;
      again[i] = 1;
      drivers[i] = Driver<N, Control>(spec(static_cast<int64_t>(i)), o.tyres);
    }
    stepper.reset(again.data(), spec);
    stepper.observe(seen.data());
    for (int64_t i = 0; i < worlds; ++i) {
      drivers[static_cast<size_t>(i)].command({seen, i}, commands.data() + i * 2);
    }
    stepper.step(commands.data(), 1);
  }
  return stepper;
}

// Calls do_it(number) for vectors of each instruction set and for single floats.
template <class Do>
void for_each_number(const Do& do_it) {
  do_it(Number::single);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    do_it(Number::lanes);
  }
  hwy::SetSupportedTargetsForTest(0);
}

template <class Control>
void expect_controller_outside_is_inside(Lateral lateral) {
  constexpr int64_t kWorlds = 37;
  constexpr int kSteps = 120;
  for (const Tyres tyres : kTyres) {
    const BatchOptions inside{.lateral = lateral, .tyres = tyres, .steps = kSteps, .seed = 5, .number = Number::single};
    const auto expected = run_worlds(kWorlds, varied, inside);
    for_each_number([&](Number number) {
      for (const bool longitudinal : {false, true}) {
        const StepperOptions o{
            .torque = Control::kTorque, .longitudinal = longitudinal, .tyres = tyres, .seed = 5, .number = number};
        const WorldStepper got = driven<float, Control>(kWorlds, o, kSteps);
        for (int64_t i = 0; i < kWorlds; ++i) {
          EXPECT_EQ(got.result(i), expected[static_cast<size_t>(i)])
              << fmt::format("world {}, tyres {}", i, static_cast<int>(tyres));
        }
      }
    });
  }
}

// As varied(), but most have the planner mpc, and some of these limits that plans break.
WorldSpec planned(int64_t i) {
  WorldSpec w = varied(i);
  if (i % 4 != 1) w.following.planner = Planner::mpc;
  if (i % 2 == 0) w.mpc.danger_cost = 1e5, w.mpc.danger_factor = 1, w.mpc.limit_cost = 1;
  return w;
}

TEST(WorldStepper, HasThePlannerMpc) {
  constexpr int64_t kWorlds = 37;
  constexpr int kSteps = 203, kRestart = 63;  // one ends between plans, one with a plan that is not its own
  const auto expected =
      run_worlds(kWorlds, planned, {.tyres = Tyres::saturating, .steps = kSteps, .seed = 5, .number = Number::single});
  const auto expected_late = run_worlds(
      kWorlds, planned, {.tyres = Tyres::saturating, .steps = kSteps - kRestart, .seed = 5, .number = Number::single});
  EXPECT_GT(std::ranges::count_if(expected, [](const WorldResult& r) { return r.infeasible_plans.value_or(0) > 0; }),
            3);
  std::vector<int> restarts(kWorlds, -1);
  for (size_t i = 0; i < restarts.size(); i += 3) restarts[i] = kRestart;  // at other times within a planner's step
  for_each_number([&](Number number) {
    const WorldStepper got =
        driven<float, LateralTorque>(kWorlds, {.seed = 5, .number = number}, kSteps, restarts, planned);
    for (int64_t i = 0; i < kWorlds; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(got.result(i), (i % 3 == 0 ? expected_late : expected)[at]) << fmt::format("world {}", i);
    }
  });
  // A world that had the planner and begins anew without it.
  WorldStepper stepper(3, {.seed = 5});
  stepper.reset(nullptr, planned);
  stepper.reset(nullptr, varied);
  WorldStepper without(3, {.seed = 5});
  without.reset(nullptr, varied);
  const std::vector<float> commands(6, 0.01F);
  for (WorldStepper* each : {&stepper, &without}) each->step(commands.data(), 100);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(stepper.result(i), without.result(i)) << i;
}

TEST(WorldStepper, AControllerOutsideIsTheOneInside) {
  expect_controller_outside_is_inside<LateralPid>(Lateral::pid);
  expect_controller_outside_is_inside<LateralTorque>(Lateral::torque);
  expect_controller_outside_is_inside<LateralAngle>(Lateral::angle);
}

// The reference keeps doubles; what is seen and commanded is rounded to floats on the way.
TEST(WorldStepper, IsNearTheReference) {
  constexpr int kSteps = 400;
  const BatchOptions inside{.lateral = Lateral::pid, .steps = kSteps, .seed = 5, .number = Number::reference};
  const auto expected = run_worlds(20, varied, inside);
  const WorldStepper got =
      driven<double, LateralPid>(20, {.tyres = Tyres::linear, .seed = 5, .number = Number::reference}, kSteps);
  for (int64_t i = 0; i < 20; ++i) {
    const WorldResult &a = got.result(i), &b = expected[static_cast<size_t>(i)];
    EXPECT_NEAR(a.tracking_rmse, b.tracking_rmse, 1e-3 * b.tracking_rmse + 1e-5) << i;
    EXPECT_NEAR(a.distance, b.distance, 1e-4) << i;
  }
}

// Worlds of one vector at different times, also with plans at different steps.
TEST(WorldStepper, EachWorldHasItsOwnTime) {
  constexpr int64_t kWorlds = 37;
  constexpr int kSteps = 250;
  std::vector<int> restarts(kWorlds, -1);
  for (size_t i = 0; i < kWorlds; i += 2) restarts[i] = 83 + static_cast<int>(i) * 3;
  for_each_number([&](Number number) {
    const WorldStepper got = driven<float, LateralTorque>(kWorlds, {.number = number}, kSteps, restarts);
    for (int64_t i = 0; i < kWorlds; ++i) {
      const int steps = kSteps - std::max(restarts[static_cast<size_t>(i)], 0);
      ASSERT_EQ(got.steps(i), steps);
      const BatchOptions o{.tyres = Tyres::saturating, .steps = steps, .number = Number::single};
      const WorldResult want = run_worlds(
          1, [&](int64_t) { return varied(i); }, o)[0];
      EXPECT_EQ(got.result(i), want) << fmt::format("world {}", i);
    }
  });
}

TEST(WorldStepper, DependsOnNoOtherWorldAndNoThreads) {
  const StepperOptions o{.seed = 7};
  const WorldStepper whole = driven<float, LateralPid>(70, o, 60);
  for (const int threads : {1, 3}) {
    const ThreadScope scope(threads);
    const WorldStepper few = driven<float, LateralPid>(5, o, 60);
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(few.result(i), whole.result(i));
  }
}

// Ten steps at once are ten steps of one with the same commands, and the costs are their means.
TEST(WorldStepper, HoldsCommandsForSeveralSteps) {
  constexpr size_t kWorlds = 20;
  const size_t numbers = observed_numbers().size(), costs = step_costs().size();
  for (const int steps : {3, 10, 57}) {
    WorldStepper one(kWorlds, {.longitudinal = true}), many(kWorlds, {.longitudinal = true});
    one.reset(nullptr, varied);
    many.reset(nullptr, varied);
    std::vector<float> commands(kWorlds * 2), a(kWorlds * numbers), b(a), sum(kWorlds * costs), each(sum), mean(sum);
    for (int round = 0; round < 4; ++round) {
      for (size_t i = 0; i < commands.size(); ++i) commands[i] = std::sin(static_cast<float>(i + 7 * round)) * 0.3f;
      std::ranges::fill(sum, 0.0f);
      for (int i = 0; i < steps; ++i) {
        one.step(commands.data(), 1, nullptr, each.data());
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += each[c] / static_cast<float>(steps);
      }
      many.step(commands.data(), steps, b.data(), mean.data());
      one.observe(a.data());
      EXPECT_EQ(a, b) << steps;
      for (size_t c = 0; c < sum.size(); ++c) EXPECT_NEAR(mean[c], sum[c], 1e-4f * sum[c] + 1e-9f) << c;
    }
  }
}

// What is said of a world against what is known of it.
TEST(WorldStepper, TellsWhatIsThere) {
  const auto spec = [](int64_t i) {
    WorldSpec w;
    w.course.curvature = 0.004;
    w.course.speed = 12;
    w.course.roll = 0.01;
    w.course.start_offset = -0.4;
    w.lateral_delay = 0.25;
    if (i == 1) {
      w.lead = {.there = true, .gap = 33, .speed = 9};
      w.course.turn = 0.003, w.course.turn_at = 1, w.course.turn_ramp = 1;
    }
    return w;
  };
  WorldStepper stepper(2, {});
  stepper.reset(nullptr, spec);
  std::vector<float> seen(2 * observed_numbers().size());
  stepper.observe(seen.data());
  const Row alone(seen, 0), led(seen, 1);
  EXPECT_EQ(alone["time"], 0);
  EXPECT_EQ(alone["speed"], 12);
  EXPECT_EQ(alone["target_speed"], 12);
  EXPECT_EQ(alone["roll"], 0.01f);
  EXPECT_EQ(alone["offset"], -0.4f);
  EXPECT_EQ(alone["road_curvature"], 0.004f);
  EXPECT_EQ(alone["road_curvature_3s"], 0.004f);
  EXPECT_EQ(alone["lateral_delay"], 0.25f);
  EXPECT_GT(alone["desired_curvature"], 0);  // openpilot's limit of jerk lets it grow
  EXPECT_EQ(alone["lead"], 0);
  EXPECT_EQ(alone["lead_gap"], 0);
  EXPECT_EQ(led["lead"], 1);
  EXPECT_EQ(led["lead_gap"], 33);
  EXPECT_EQ(led["lead_speed"], 9);
  EXPECT_EQ(led["road_curvature_1s"], 0.004f);
  EXPECT_NEAR(led["road_curvature_2s"], 0.007f, 1e-7f);
  const float commands[] = {0.5f, 0, 0.5f, 0};
  stepper.step(commands, 20);
  stepper.observe(seen.data());
  EXPECT_EQ(led["time"], 0.2f);
  EXPECT_EQ(led["command"], 0.5f);
  EXPECT_GT(led["wheel_angle"], 0);  // left
  EXPECT_GT(led["yaw_rate"], 0);
  EXPECT_LT(led["lead_gap"], 33);
}

TEST(WorldStepper, SquaresWhatAGapLacks) {
  WorldStepper stepper(1, {});
  stepper.reset(nullptr, [](int64_t) {
    WorldSpec w;
    w.course.speed = 12;
    w.lead = {.there = true, .gap = 10, .speed = 12};
    return w;
  });
  const float commands[] = {0, 0};
  std::vector<float> costs(step_costs().size());
  stepper.step(commands, 1, nullptr, costs.data());
  const double lacks = 1 - 10 / (4 + 1.45 * 12);
  EXPECT_NEAR(costs.back(), lacks * lacks, 1e-6);
  EXPECT_TRUE(std::string_view(step_costs().back().meaning).starts_with("square of "));
}

// radard's filter of the speeds that are told, in double.
TEST(WorldStepper, EstimatesHowTheLeadBrakes) {
  const auto spec = [](int64_t i) {
    WorldSpec w;
    w.course.speed = 20;
    w.following.planner = i == 0 ? Planner::idm : Planner::mpc;
    w.lead = {.there = true, .gap = 60, .speed = 20, .change = -12, .change_at = 1, .change_ramp = 4, .from = 0.3};
    return w;
  };
  WorldStepper stepper(2, {});
  stepper.reset(nullptr, spec);
  std::vector<float> seen(2 * observed_numbers().size());
  const std::vector<float> commands(4, 0);
  double speed = 0, acceleration = 0, most = 0;
  bool there = false;
  for (int plan = 0; plan < 100; ++plan) {
    stepper.observe(seen.data());
    const Row row(seen, 0);
    const double told = row["lead_speed"];
    if (row["lead"] > 0 && there) {
      const double expected = speed + 0.05 * acceleration, wrong = told - expected;
      speed = expected + 0.1988689 * wrong, acceleration += 0.28555364 * wrong;
    } else {
      speed = told, acceleration = 0;
    }
    there = row["lead"] > 0;
    EXPECT_NEAR(row["lead_acceleration"], acceleration, 1e-4) << plan;
    EXPECT_EQ(row["lead_acceleration"], Row(seen, 1)["lead_acceleration"]) << plan << ": whichever the planner";
    most = std::min(most, acceleration);
    stepper.step(commands.data(), 5);
  }
  EXPECT_LT(most, -2.9) << "it brakes by 3 m/s2 for four seconds, and more while the ramp bends";
  EXPECT_LT(std::abs(acceleration), 3.5);
}

TEST(WorldStepper, SaysWhatIsWrong) {
  WorldStepper stepper(3, {.longitudinal = true});
  std::vector<float> commands(6);
  EXPECT_EQ(error_of([&] { stepper.step(commands.data(), 1); }), "sim: world 0 was never begun: reset() comes first");
  stepper.reset(nullptr, varied);
  commands[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_of([&] { stepper.step(commands.data(), 1); }),
            "sim: the lateral command of world 1 is nan, expected a finite number");
  commands[2] = 0, commands[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of([&] { stepper.step(commands.data(), 1); }),
            "sim: the acceleration command of world 2 is inf, expected a finite number");
  commands[5] = 0;
  EXPECT_EQ(stepper.steps(0), 0) << "a step was made";
  EXPECT_EQ(error_of([&] { stepper.step(commands.data(), 0); }), "sim: 0 steps, expected 1 or more");
  EXPECT_EQ(error_of([&] { stepper.step(commands.data(), (1 << 24) + 1); }),
            "sim: world 0 is at step 0, 16777217 more are beyond 2^24");
  const auto bad = [](int64_t) {
    WorldSpec w;
    w.course.speed = -1;
    return w;
  };
  EXPECT_EQ(error_of([&] { stepper.reset(nullptr, bad); }), "sim: course.speed [m/s] is -1, expected 0 to 100");
  EXPECT_EQ(error_of([] { WorldStepper(0, {}); }), "sim: 0 worlds, expected 1 to 2^24");
}

// Whatever is commanded: nothing that is told is NaN or out of its bounds, and the others go on.
TEST(WorldStepper, TellsNoNaNOfWorldsThatDiverge) {
  const auto spec = [](int64_t i) {
    WorldSpec w = varied(i);
    if (i % 2) w.longitudinal.max_accel = 1e6, w.steering.torque_rate = 1e4, w.steering.accel_factor = 100;
    return w;
  };
  constexpr size_t kWorlds = 40;
  WorldStepper stepper(kWorlds, {.longitudinal = true, .tyres = Tyres::linear});
  stepper.reset(nullptr, spec);
  std::vector<float> commands(kWorlds * 2), seen(kWorlds * observed_numbers().size()),
      costs(kWorlds * step_costs().size());
  for (size_t i = 0; i < kWorlds; ++i) commands[2 * i] = i % 4 ? 0.1f : 0, commands[2 * i + 1] = i % 2 ? 1e30f : 0;
  for (int step = 0; step < 40; ++step) {
    stepper.step(commands.data(), 25, seen.data(), costs.data());
    const auto expect_bounded = [&](const std::vector<float>& all, std::span<const WorldNumber> table) {
      for (size_t i = 0; i < all.size(); ++i) {
        const WorldNumber& number = table[i % table.size()];
        EXPECT_TRUE(all[i] >= static_cast<float>(number.low) && all[i] <= static_cast<float>(number.high))
            << number.name << " " << all[i];
      }
    };
    expect_bounded(seen, observed_numbers());
    expect_bounded(costs, step_costs());
  }
  for (int64_t i = 0; i < static_cast<int64_t>(kWorlds); ++i) {
    EXPECT_EQ(stepper.diverged(i), i % 2 == 1) << i;
    EXPECT_EQ(stepper.result(i).diverged.has_value(), i % 2 == 1);
  }
}

}  // namespace
}  // namespace sparkpilot::sim
