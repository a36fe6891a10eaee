#include "sim/world_stepper.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "hw/cpu.h"
#include "sim/batch_lanes.h"
#include "sim/stepped_worlds-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

// `time` and then features_outside() (sim/outside-inl.h).
constexpr WorldNumber kObserved[] = {
    {"time", "s", 0, 167773, 10, "since the world's beginning"},
    {"speed", "m/s", 0, 250, 20, "of the car, measured"},
    {"acceleration", "m/s^2", -100, 100, 1, "of the car, measured"},
    {"wheel_angle", "deg", -60000, 60000, 10, "of the steering wheel, measured"},
    {"desired_curvature", "1/m", -0.2, 0.2, 0.005, "asked of the lateral controller, after openpilot's limits"},
    {"curvature_limited", "", 0, 1, 1, "1 where those limits of acceleration changed it"},
    {"target_speed", "m/s", 0, 100, 20, "asked for"},
    {"target_acceleration", "m/s^2", -100, 100, 1, "asked for by the planner"},
    {"roll", "rad", -1, 1, 0.02, "of the road"},
    {"lead", "", 0, 1, 1, "1 if there is a car ahead"},
    {"lead_gap", "m", -1e7, 1e7, 40, "to it, from bumper to bumper; 0 without"},
    {"lead_speed", "m/s", 0, 400, 20, "of it; 0 without"},
    {"lead_acceleration", "m/s^2", -100, 100, 1, "of it, as openpilot's radard estimates it from speeds; 0 without"},
    {"offset", "m", -1e5, 1e5, 0.3, "from the middle of the lane"},
    {"heading", "rad", -1e4, 1e4, 0.02, "against the lane"},
    {"yaw_rate", "rad/s", -20, 20, 0.1, "of the car"},
    {"road_curvature", "1/m", -2, 2, 0.005, "of the lane"},
    {"road_curvature_500ms", "1/m", -2, 2, 0.005, "half a second later"},
    {"road_curvature_1s", "1/m", -2, 2, 0.005, "a second later"},
    {"road_curvature_2s", "1/m", -2, 2, 0.005, "two seconds later"},
    {"road_curvature_3s", "1/m", -2, 2, 0.005, "three seconds later"},
    {"command", "", -2000, 2000, 1, "of the steering after its limits: torque of -1 to 1, or degrees of the wheel"},
    {"lateral_delay", "s", 0, 10, 0.2, "from a command to lateral acceleration, as openpilot believes"},
};
static_assert(std::size(kObserved) == kOutsideFeatures + 1);

constexpr double kMost = 1e12;
constexpr WorldNumber kCosts[] = {
    {"lateral_error", "m^2/s^4", 0, kMost, 0.1,
     "of lateral acceleration, the road's curvature times speed squared asked"},
    {"lateral_jerk", "m^2/s^6", 0, kMost, 1, "of lateral acceleration over 10 ms"},
    {"offset", "m^2", 0, kMost, 0.1, "from the middle of the lane"},
    {"speed_error", "m^2/s^2", 0, kMost, 1, "from the speed asked for"},
    {"acceleration_error", "m^2/s^4", 0, kMost, 0.1, "from the acceleration that the planner asks for"},
    {"longitudinal_jerk", "m^2/s^6", 0, kMost, 1, "of acceleration over 10 ms"},
    {"gap_lacking", "", 0, 1, 0.1,
     "square of the share that the gap lacks of standstill + time_gap times speed; 0 with no car ahead"},
};
static_assert(std::size(kCosts) == kOutsideCosts);

}  // namespace

std::span<const WorldNumber> observed_numbers() { return kObserved; }
std::span<const WorldNumber> step_costs() { return kCosts; }

// On the processor.
template <class Control, class Real>
class KeptWorlds final : public SteppedWorlds {
 public:
  KeptWorlds(int64_t count, const StepperOptions& o)
      : SteppedWorlds(count, o),
        lanes_(o.number == Number::lanes ? lane_count() : 1),
        groups_((count + lanes_ - 1) / lanes_),
        inputs_(numbers(kInputs)),
        constants_(numbers(kConstants)),
        states_(numbers(kStates)),
        rings_(numbers(kRingSlots)),
        features_(numbers(kOutsideFeatures)),
        mpc_(static_cast<size_t>(groups_)),
        others_(static_cast<size_t>(count)) {}

  void reset(const uint8_t* mask, const std::function<WorldSpec(int64_t)>& spec) override {
    parallel_for(groups_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * lanes_; i < std::min(end * lanes_, count_); ++i) {
        if (!mask || mask[i]) reset_world(i, spec(i));
      }
    });
  }

  void step(const float* commands, int steps, float* observations, float* costs) override {
    check_step(commands, steps);
    parallel_for(groups_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        step_group(group, commands, steps);
        for (int64_t i = group * lanes_; i < std::min((group + 1) * lanes_, count_); ++i) {
          steps_[static_cast<size_t>(i)] += steps;
          if (observations) write_observations(i, features_of(i), observations + i * kObservedNumbers);
          if (costs) write_costs(costs_of(i), steps, costs + i * kOutsideCosts);
        }
      }
    });
    slot_ = static_cast<int>((slot_ + int64_t{steps}) % kSlots);
  }

  void observe(float* out, const uint8_t* mask) const override {
    parallel_for(count_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!mask || mask[i]) write_observations(i, features_of(i), out + i * kObservedNumbers);
      }
    });
  }

  bool diverged(int64_t i) const override { return states_.get()[place(i, kStates, kAliveField)] < Real(0.5); }
  bool collided(int64_t i) const override { return states_.get()[place(i, kStates, kCollidedField)] > Real(0.5); }
  WorldResult result(int64_t i) const override {
    WorldResult r =
        outside_result<Control>(get_fields<WorldState<double, Control>>(states_.get(), i, lanes_), steps(i));
    const Planned& group = mpc_[static_cast<size_t>(i / lanes_)];
    const int64_t lane = i % lanes_;
    if (!group.states || get_fields<MpcPlannerConstants<double>>(group.constants.get(), lane, lanes_).plans < 0.5) {
      return r;
    }
    // As for its other figures, the plan behind a last step that ends on a plan's time is none of its own.
    tell_plans(get_fields<MpcPlanner<double>>(group.states.get(), lane, lanes_), steps(i) % kStepsPerPlan != 0, r);
    return r;
  }
  std::array<double, kTraceColumns> trace_row(int64_t i) const override {
    return scalar::trace_row(steps(i) - 1, get_fields<WorldConstants<double, Control>>(constants_.get(), i, lanes_),
                             get_fields<WorldState<double, Control>>(states_.get(), i, lanes_));
  }

 private:
  using Constants = WorldConstants<Real, Control>;
  using State = WorldState<Real, Control>;
  using Mpc = MpcPlanner<Real>;
  static constexpr int64_t kInputs = kFieldsOf<OutsideInput<Real>, Real>;
  static constexpr int64_t kConstants = kFieldsOf<Constants, Real>;
  static constexpr int64_t kStates = kFieldsOf<State, Real>;
  static constexpr int64_t kCostsField = offsetof(State, lateral.costs) / sizeof(Real);
  static constexpr int64_t kAliveField = offsetof(State, metrics.alive) / sizeof(Real);
  static constexpr int64_t kCollidedField = offsetof(State, metrics.collided) / sizeof(Real);

  // The planner mpc of a group; null if none of its worlds ever had it.
  struct Planned {
    AlignedNumbers<Real> constants, states;
  };

  AlignedNumbers<Real> numbers(int64_t fields) const { return aligned_numbers<Real>(groups_ * lanes_ * fields); }
  int64_t place(int64_t world, int64_t fields, int64_t field) const {
    return (world / lanes_ * fields + field) * lanes_ + world % lanes_;
  }
  auto features_of(int64_t world) const {
    return
        [from = features_.get() + place(world, kOutsideFeatures, 0), lanes = lanes_](int f) { return from[f * lanes]; };
  }
  auto costs_of(int64_t world) const {
    return
        [from = states_.get() + place(world, kStates, kCostsField), lanes = lanes_](int f) { return from[f * lanes]; };
  }
  // A group that is not full computes its last world more than once.
  int64_t world_at(int64_t lane) const { return std::min(lane, count_ - 1); }
  int64_t behind(int64_t world) const { return world + 1 == count_ ? groups_ * lanes_ : world + 1; }

  void reset_world(int64_t world, const WorldSpec& spec) {
    auto begun = begin_outside<Real, Control>(spec, options, others_[static_cast<size_t>(world)],
                                              [&](State& s) { begin_mpc(world, spec, s); });
    for (int64_t i = world; i < behind(world); ++i) {
      put_fields<Real>(begun.constants, i, lanes_, constants_.get());
      put_fields<Real>(begun.state, i, lanes_, states_.get());
      put_fields<Real>(begun.features, i, lanes_, features_.get());
      put_fields<Real>(begun.slots, i, lanes_, rings_.get());
    }
    steps_[static_cast<size_t>(world)] = 0;
  }

  // The planner mpc's first plan. Worlds without it that share a vector with one that has it are computed and not used.
  void begin_mpc(int64_t world, const WorldSpec& spec, State& s) {
    Planned& group = mpc_[static_cast<size_t>(world / lanes_)];
    const bool plans = spec.following.planner == Planner::mpc, new_here = plans && !group.states;
    if (new_here) {
      group.constants = aligned_numbers<Real>(lanes_ * kFieldsOf<MpcPlannerConstants<Real>, Real>);
      group.states = aligned_numbers<Real>(lanes_ * kFieldsOf<Mpc, Real>);
    }
    if (!group.states) return;
    const auto begun = converted<Mpc, Real>(beginning_mpc(spec));
    auto k = converted<MpcPlannerConstants<Real>, Real>(prepare_mpc(spec));
    Mpc planned = begun;
    if (plans) {
      plan_by_mpc(k, s.motion, s.steering.wheel, s.lead, s.target_speed, s.metrics.alive, planned, s.target);
    }
    const int64_t first = world - world % lanes_;
    for (int64_t i = new_here ? first : world; i < (new_here ? first + lanes_ : behind(world)); ++i) {
      const bool own = i >= world && i < behind(world);
      k.plans = Real(own && plans);
      put_fields<Real>(k, i - first, lanes_, group.constants.get());
      put_fields<Real>(own ? planned : begun, i - first, lanes_, group.states.get());
    }
  }

  void step_group(int64_t group, const float* commands, int steps) {
    OutsideCall call{.tyres = options.tyres, .seed = options.seed, .longitudinal = options.longitudinal};
    for (int64_t i = group * lanes_; i < (group + 1) * lanes_; ++i) {
      const OtherOfWorld& other = others_[static_cast<size_t>(world_at(i))];
      call.noise |= other.noise;
      call.leads |= other.lead;
      call.rich_courses |= other.rich;
      call.tables |= other.table != nullptr;
    }
    // No world plans twice in a call.
    for (int done = 0; done < steps; done += call.steps) {
      call.steps = std::min(steps - done, kStepsPerPlan);
      call.first = done == 0;
      call.last = done + call.steps == steps;
      call.slot = static_cast<int>((slot_ + int64_t{done}) % kSlots);
      call.due = 0;
      for (int64_t i = group * lanes_; i < (group + 1) * lanes_; ++i) {
        const int64_t world = world_at(i);
        const auto in = input<Real>(others_[static_cast<size_t>(world)], world, commands, done, call.steps);
        if (in.until <= Real(call.steps)) call.due |= 1u << (static_cast<int>(in.until) - 1);
        put_fields<Real>(in, i, lanes_, inputs_.get());
      }
      advance(group, call);
    }
  }

  void advance(int64_t group, const OutsideCall& call) {
    const auto of = [&](const AlignedNumbers<Real>& all, int64_t fields) {
      return all.get() + group * fields * lanes_;
    };
    Real *inputs = of(inputs_, kInputs), *constants = of(constants_, kConstants), *states = of(states_, kStates),
         *rings = of(rings_, kRingSlots), *features = of(features_, kOutsideFeatures);
    const Planned& mpc = mpc_[static_cast<size_t>(group)];
    if constexpr (std::is_same_v<Real, float>) {
      if (options.number == Number::lanes) {
        const OutsideArrays arrays{inputs, constants, states, rings, features, mpc.constants.get(), mpc.states.get()};
        return Control::kTorque ? advance_outside_torque(call, arrays) : advance_outside_angle(call, arrays);
      }
    }
    advance_outside<Real, Control>(
        call, *reinterpret_cast<const OutsideInput<Real>*>(inputs), *reinterpret_cast<const Constants*>(constants),
        WorldRings<Real>(rings, 1), *reinterpret_cast<State*>(states), features,
        reinterpret_cast<Mpc*>(mpc.states.get()), [&](State& s, Mpc& planner) {
          plan_by_mpc(*reinterpret_cast<MpcPlannerConstants<Real>*>(mpc.constants.get()), s.motion, s.steering.wheel,
                      s.lead, s.target_speed, s.metrics.alive, planner, s.target);
        });
  }

  const int64_t lanes_, groups_;
  AlignedNumbers<Real> inputs_, constants_, states_, rings_, features_;
  std::vector<Planned> mpc_;  // of groups
  std::vector<OtherOfWorld> others_;
  int slot_ = 0;  // of the rings, for all worlds
};

WorldStepper::WorldStepper(int64_t count, const StepperOptions& o) {
  require_processor(cpu_features());
  if (count < 1 || count > int64_t{1} << 24) fail("sim: {} worlds, expected 1 to 2^24", count);
  if (o.elsewhere) {
    worlds_ = o.elsewhere(count, o);
    return;
  }
  const auto make = [&]<class Control>() -> std::unique_ptr<SteppedWorlds> {
    if (o.number == Number::reference) return std::make_unique<KeptWorlds<Control, double>>(count, o);
    return std::make_unique<KeptWorlds<Control, float>>(count, o);
  };
  worlds_ = o.torque ? make.operator()<LateralOutside<true>>() : make.operator()<LateralOutside<false>>();
}
WorldStepper::~WorldStepper() = default;
WorldStepper::WorldStepper(WorldStepper&&) noexcept = default;
WorldStepper& WorldStepper::operator=(WorldStepper&&) noexcept = default;

int64_t WorldStepper::count() const { return worlds_->count(); }
const StepperOptions& WorldStepper::options() const { return worlds_->options; }
void WorldStepper::reset(const uint8_t* mask, const std::function<WorldSpec(int64_t)>& spec) {
  worlds_->reset(mask, spec);
}
void WorldStepper::step(const float* commands, int steps, float* observations, float* costs) {
  worlds_->step(commands, steps, observations, costs);
}
void WorldStepper::observe(float* out, const uint8_t* mask) const { worlds_->observe(out, mask); }
int64_t WorldStepper::steps(int64_t world) const { return worlds_->steps(world); }
bool WorldStepper::diverged(int64_t world) const { return worlds_->diverged(world); }
bool WorldStepper::collided(int64_t world) const { return worlds_->collided(world); }
WorldResult WorldStepper::result(int64_t world) const { return worlds_->result(world); }
std::array<double, kTraceColumns> WorldStepper::trace_row(int64_t world) const { return worlds_->trace_row(world); }

}  // namespace sparkpilot::sim
