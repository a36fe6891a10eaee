#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/mpc-inl.h"
#include "sim/mpc_planner-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

constexpr double kCruiseMin = -1.2, kCruiseMax = 1.6;  // m/s^2

// As in bench/sim/make_mpc_goldens.py, which made mpc_golden.txt with OSQP.
class Generator {
 public:
  explicit Generator(int seed) : state_(static_cast<uint32_t>(seed) * 2654435761u + 12345u) {}
  double uniform(double low, double high) {
    state_ = state_ * 1664525u + 1013904223u;
    return low + (high - low) * (state_ >> 8) / 16777216.0;
  }

 private:
  uint32_t state_;
};

template <class N>
struct Problem {
  MpcConstants<N> constants;
  MpcInput<N> input;
  MpcState<N> around;
};

template <class N>
Problem<N> problem(int number) {
  Generator g(number);
  Problem<N> p;
  const double v = g.uniform(0, 40), a = g.uniform(-3, 2), max_accel = g.uniform(0.6, 2);
  MpcTuning tuning;
  tuning.t_follow = g.uniform(1.2, 1.8);
  tuning.jerk_factor = g.uniform(0.5, 1);
  const double distance = g.uniform(2, 150), speed = g.uniform(-1, 40);
  const double acceleration = g.uniform(-4, 2), tau = g.uniform(0, 1.5), cruise = g.uniform(0, 40);
  const double around = std::max(v + g.uniform(-2, 2), 0.0);
  const MpcConstants<double> k = mpc_constants(tuning);
  p.constants = {static_cast<N>(k.t_follow),      static_cast<N>(k.jerk),     static_cast<N>(k.obstacle),
                 static_cast<N>(k.accel_change),  static_cast<N>(k.limit),    static_cast<N>(k.danger),
                 static_cast<N>(k.danger_factor), static_cast<N>(k.min_accel)};
  p.input.speed = static_cast<N>(v), p.input.acceleration = static_cast<N>(a);
  p.input.max_accel = static_cast<N>(max_accel);
  for (int i = 0; i <= kMpcSteps; ++i) {
    p.around.at[i] = {static_cast<N>(around * mpc_time(i)), static_cast<N>(around), N(0)};
    p.input.before[i] = static_cast<N>(g.uniform(-2, 1));
  }
  N lead[kMpcSteps + 1], set[kMpcSteps + 1];
  mpc_lead<N>(static_cast<N>(distance), static_cast<N>(speed), static_cast<N>(acceleration), static_cast<N>(tau),
              static_cast<N>(v), static_cast<N>(tuning.min_accel), lead);
  mpc_cruise<N>(static_cast<N>(cruise), static_cast<N>(v), static_cast<N>(kCruiseMin), static_cast<N>(kCruiseMax),
                p.constants.t_follow, set);
  for (int i = 0; i <= kMpcSteps; ++i) p.input.obstacle[i] = min(lead[i], set[i]);
  return p;
}

struct Golden {
  double cost, jerk, speed, acceleration, broken, danger;
};
std::vector<Golden> goldens() {
  std::ifstream in(SPARKPILOT_SOURCE_DIR "/src/sim/mpc_golden.txt");
  std::vector<Golden> out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Golden g;
    words >> g.cost >> g.jerk >> g.speed >> g.acceleration >> g.broken >> g.danger;
    EXPECT_TRUE(words) << line;
    out.push_back(g);
  }
  EXPECT_EQ(out.size(), 1000u);
  return out;
}

template <class N>
void compare(double cost_bound, double danger_bound) {
  const std::vector<Golden> all = goldens();
  int unsolved = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    Problem<N> p = problem<N>(static_cast<int>(i));
    const MpcResult<N> got = mpc_step(p.constants, p.input, p.around);
    const Golden& want = all[i];
    unsolved += !got.solved;
    const double cost = std::fabs(static_cast<double>(got.cost) / want.cost - 1);
    const double limit = std::fabs(static_cast<double>(got.broken) - want.broken);
    const double danger = std::fabs(static_cast<double>(got.danger) - want.danger);
    EXPECT_LE(cost, cost_bound) << i << ": " << got.cost << " " << want.cost << " " << got.solved;
    EXPECT_LE(limit, 1e-4) << i;
    EXPECT_LE(danger, danger_bound) << i;
    EXPECT_NEAR(static_cast<double>(got.jerk[0]), want.jerk, 1e-2 * (1 + std::fabs(want.jerk))) << i;
  }
  EXPECT_EQ(unsolved, 0);
}

TEST(Mpc, SolvesWhatOsqpSolves) { compare<double>(1e-3, 1e-4); }
// The danger constraint is soft: the slacks that it is compared in are up to 4.
TEST(Mpc, SolvesItInFloats) { compare<float>(1e-3, 1e-2); }

TEST(Mpc, TellsOfLimitsThatCannotBeKeptAndOfTooFewIterations) {
  Problem<double> p = problem<double>(2);
  p.input.speed = 0.1;
  p.input.acceleration = -3;  // 0.2 s until it stands, and a limit of jerk by its cost alone
  MpcState<double> around = p.around;
  const auto stopped = mpc_step(p.constants, p.input, around);
  EXPECT_TRUE(stopped.solved);
  p.input.acceleration = 0;
  around = p.around;
  EXPECT_LT(mpc_step(p.constants, p.input, around).broken, kMpcTolerance);
  p.constants.limit = 10;  // too cheap to be kept
  p.input.acceleration = -3;
  around = p.around;
  EXPECT_GT(mpc_step(p.constants, p.input, around).broken, kMpcTolerance);
  around = p.around;
  EXPECT_FALSE(mpc_step(p.constants, p.input, around, 3).solved);
}

struct Drive {
  double speed, gap, least_gap, hardest = 0;
};
// 20 Hz; the car does what the plan says. The lead car changes its speed by `brake` from 2 s on.
Drive drive(double speed, double gap, double lead_speed, double brake, double cruise, double seconds) {
  const MpcTuning tuning;
  const MpcConstants<double> k = mpc_constants(tuning);
  MpcState<double> s = {};
  double v = speed, a = 0;
  Drive out{v, gap, gap};
  for (int step = 0; step < seconds / 0.05; ++step) {
    const double lead_accel = step * 0.05 >= 2 && lead_speed > 0 ? -brake : 0;
    MpcInput<double> in;
    in.speed = v, in.acceleration = a, in.max_accel = kCruiseMax;
    double set[kMpcSteps + 1];
    mpc_lead(out.gap, lead_speed, lead_accel, kLeadTau, v, tuning.min_accel, in.obstacle);
    mpc_cruise(cruise, v, kCruiseMin, kCruiseMax, tuning.t_follow, set);
    for (int i = 0; i <= kMpcSteps; ++i) {
      in.obstacle[i] = std::min(in.obstacle[i], set[i]);
      in.before[i] = mpc_accel_at(s, mpc_time(i) + 0.05);
    }
    EXPECT_TRUE(mpc_step(k, in, s).solved) << step;
    a = mpc_accel_at(s, 0.05);
    out.hardest = std::min(out.hardest, a);
    const double before = v;
    v = std::max(0.0, v + a * 0.05);
    const double lead_before = lead_speed;
    lead_speed = std::max(0.0, lead_speed + lead_accel * 0.05);
    out.gap += 0.025 * (lead_before + lead_speed - before - v);
    out.least_gap = std::min(out.least_gap, out.gap);
  }
  out.speed = v;
  return out;
}

TEST(Mpc, FollowsStopsAndCruises) {
  const Drive stop = drive(20, 35, 20, 3, 30, 40);
  EXPECT_LT(stop.speed, 0.1);
  EXPECT_GT(stop.least_gap, 3.5);
  EXPECT_LT(stop.gap, 7);
  EXPECT_GT(stop.hardest, -3.6);
  const Drive follow = drive(25, 60, 20, 0, 30, 60);
  EXPECT_NEAR(follow.speed, 20, 0.1);
  EXPECT_NEAR(follow.gap, 1.45 * 20 + 6, 1.5);
  const Drive alone = drive(15, 1000, 40, 0, 25, 60);
  EXPECT_NEAR(alone.speed, 25, 0.3);
}

TEST(MpcPlannerLimits, AreOpenpilotsInTurns) {
  // By hand: sqrt(1.7^2 - 1.5^2) and sqrt(2.45^2 - 2.4^2); openpilot's fastest at 15 m/s is 1.2 - 0.4 / 3.
  MpcPlannerConstants<double> k{};
  k.turn = 1 / (14.0 * 2.7);
  const auto limit = [&](double speed, double a, double before) {
    return fastest_in_turn(k, speed, a / (speed * speed * k.turn), before);
  };
  EXPECT_NEAR(limit(15, 1.5, 0.81), 0.8, 1e-12);
  EXPECT_NEAR(limit(15, -1.5, 0.81), 0.8, 1e-12);
  EXPECT_NEAR(limit(30, 2.4, 0.5), 0.492442890089805, 1e-12);
  EXPECT_NEAR(limit(15, 0, 1.05), 1.2 - 0.4 / 3, 1e-12);
  EXPECT_NEAR(limit(15, 5, 0.02), 0, 1e-12);
  EXPECT_NEAR(limit(15, 5, 1), 0.95, 1e-12);  // by 0.05 a plan
  EXPECT_NEAR(limit(15, 0, 0.2), 0.25, 1e-12);
}

}  // namespace
}  // namespace sparkpilot::sim
