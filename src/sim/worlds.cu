// Worlds on a GPU: a thread for each, which keeps constants and state in registers for all of a launch's steps. Only
// the rings of delayed values stay in memory. The steps are the CPU's (sim/world-inl.h) and so are their bits.
#include "ops/cuda/worlds.h"

#include <cstddef>

#include "ops/cuda/device.cuh"
#include "sim/outside-inl.h"
#include "sim/world-inl.h"

namespace {

using namespace sparkpilot::sim::scalar;
using sparkpilot::cuda::kWorldsOfGroup;
using sparkpilot::cuda::kWorldsThreads;
using sparkpilot::cuda::PutWorldsArguments;
using sparkpilot::cuda::SteppedWorldsArguments;
using sparkpilot::cuda::WorldsArguments;

// T holds nothing but floats; a world's are kWorldsOfGroup apart.
template <class T>
constexpr int kFields = sizeof(T) / sizeof(float);

template <class T>
__device__ __forceinline__ T load_fields(const float* from) {
  T out;
  float* fields = reinterpret_cast<float*>(&out);
#pragma unroll
  for (int i = 0; i < kFields<T>; ++i) fields[i] = from[i * kWorldsOfGroup];
  return out;
}

template <class T>
__device__ __forceinline__ void store_fields(const T& from, float* to) {
  const float* fields = reinterpret_cast<const float*>(&from);
#pragma unroll
  for (int i = 0; i < kFields<T>; ++i) to[i * kWorldsOfGroup] = fields[i];
}

// All but kCount fields from kFirst on.
template <int kFirst, int kCount, class T>
__device__ __forceinline__ void store_fields_but(const T& from, float* to) {
  const float* fields = reinterpret_cast<const float*>(&from);
#pragma unroll
  for (int i = 0; i < kFields<T>; ++i) {
    if (i < kFirst || i >= kFirst + kCount) to[i * kWorldsOfGroup] = fields[i];
  }
}

// The constants that only plans read, so that no register keeps them in between.
template <class Constants>
__device__ __forceinline__ void read_again(const float* constants, Constants& k) {
  k.course =
      load_fields<CourseConstants<float>>(constants + kWorldsOfGroup * (offsetof(Constants, course) / sizeof(float)));
  k.lead = load_fields<LeadConstants<float>>(constants + kWorldsOfGroup * (offsetof(Constants, lead) / sizeof(float)));
}

template <class Control, class Tyres>
__device__ __forceinline__ void advance(const WorldsArguments& p) {
  using Constants = WorldConstants<float, Control>;
  using State = WorldState<float, Control>;
  const int thread = static_cast<int>(blockIdx.x) * kWorldsThreads + static_cast<int>(threadIdx.x);
  const int group = thread / kWorldsOfGroup, world = thread % kWorldsOfGroup;
  if (group >= p.groups) return;
  const auto place = [&](int fields) { return static_cast<long long>(group) * fields * kWorldsOfGroup + world; };
  const float* const constants = p.constants + place(kFields<Constants>);
  auto k = load_fields<Constants>(constants);
  const WorldRings<float> rings(p.rings + place(sparkpilot::sim::scalar::kRingSlots), kWorldsOfGroup);
  State s = beginning<float, Control>(k.course, rings);
  const RunSettings run{p.seed, p.warm_up, p.noise != 0, p.leads != 0, p.rich_courses != 0};
  const CourseRows<float> table{p.tables ? p.tables[thread] : nullptr, 1};
#pragma unroll 1
  for (int step = 0; step < p.steps; ++step) {
    if (step % sparkpilot::sim::kStepsPerPlan == 0) {
      read_again<Constants>(constants, k);
      plan(run, step, k, table, s);
    }
    step_car(run, step, k, rings, s, Tyres());
  }
  store_fields(s, p.states + place(kFields<State>));
}

template <class Control>
__device__ __forceinline__ void advance_stepped(const SteppedWorldsArguments& p) {
  using namespace sparkpilot::sim;  // NOLINT(google-build-using-namespace): the call's types
  using Constants = WorldConstants<float, Control>;
  using State = WorldState<float, Control>;
  const int thread = static_cast<int>(blockIdx.x) * kWorldsThreads + static_cast<int>(threadIdx.x);
  const int group = thread / kWorldsOfGroup, world = thread % kWorldsOfGroup;
  if (group >= p.groups) return;
  const auto place = [&](int fields) { return static_cast<long long>(group) * fields * kWorldsOfGroup + world; };
  const float* const constants = p.constants + place(kFields<Constants>);
  const float* const inputs = p.inputs + place(kFields<OutsideInput<float>>);
  float* const states = p.states + place(kFields<State>);
  auto k = load_fields<Constants>(constants);
  auto in = load_fields<OutsideInput<float>>(inputs);
  State s = load_fields<State>(states);
  const WorldRings<float> rings(p.rings + place(kRingSlots), kWorldsOfGroup);
  const OutsideCall call{.tyres = static_cast<Tyres>(p.tyres),
                         .seed = p.seed,
                         .noise = p.noise != 0,
                         .leads = p.leads != 0,
                         .rich_courses = p.rich_courses != 0,
                         .tables = p.tables != 0,
                         .longitudinal = p.longitudinal != 0,
                         .first = p.first != 0,
                         .last = p.last != 0,
                         .slot = p.slot,
                         .steps = p.steps,
                         .due = 0};
  const RunSettings run{call.seed, 0, call.noise, call.leads, call.rich_courses};
  // What only a plan reads is read there, and what only it writes is written there, so that no register keeps it.
  constexpr int kUnplanned = offsetof(State, lateral.unplanned) / sizeof(float);
  advance_steps(call, run, in, k, rings, s, [&](int i) {
    if (in.until != static_cast<float>(i + 1)) return;
    read_again<Constants>(constants, k);
    in.row =
        load_fields<CourseRow<float>>(inputs + kWorldsOfGroup * (offsetof(OutsideInput<float>, row) / sizeof(float)));
    for (int at = 0; at < kPreviews; ++at)
      in.ahead[at] = inputs[kWorldsOfGroup * (offsetof(OutsideInput<float>, ahead) / sizeof(float) + at)];
    plan_outside(run, in, call.tables, k, s);
    store_fields(s.lateral.unplanned, states + kWorldsOfGroup * kUnplanned);
  });
  store_fields_but<kUnplanned, kFields<Metrics<float>>>(s, states);
  if (!call.last) return;
  SteppedNumbers<float> seen;
  features_outside(k, s, seen.features);
  for (int i = 0; i < kOutsideCosts; ++i) seen.costs[i] = s.lateral.costs[i];
  seen.alive = s.metrics.alive;
  seen.collided = s.metrics.collided;
  store_fields(seen, p.seen + place(kFields<SteppedNumbers<float>>));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kWorldsThreads)
    stepped_worlds_torque(const __grid_constant__ SteppedWorldsArguments p) {
  device::begin_kernel();
  advance_stepped<LateralOutside<true>>(p);
}
extern "C" __global__ void __launch_bounds__(kWorldsThreads)
    stepped_worlds_angle(const __grid_constant__ SteppedWorldsArguments p) {
  device::begin_kernel();
  advance_stepped<LateralOutside<false>>(p);
}

extern "C" __global__ void __launch_bounds__(kWorldsThreads) put_worlds(const __grid_constant__ PutWorldsArguments p) {
  device::begin_kernel();
  const long long i = static_cast<long long>(blockIdx.x) * kWorldsThreads + threadIdx.x;
  const int row = static_cast<int>(i / p.fields), field = static_cast<int>(i % p.fields);
  if (row >= p.count) return;
  const int world = p.world[row];
  p.to[(static_cast<long long>(world / kWorldsOfGroup) * p.fields + field) * kWorldsOfGroup + world % kWorldsOfGroup] =
      p.rows[i];
}

#define SPARKPILOT_WORLDS(name, Control, Tyres)                                                                  \
  extern "C" __global__ void __launch_bounds__(kWorldsThreads) name(const __grid_constant__ WorldsArguments p) { \
    device::begin_kernel();                                                                                      \
    advance<Control, Tyres>(p);                                                                                  \
  }
SPARKPILOT_WORLDS(worlds_pid_kinematic, LateralPid, NoSlip)
SPARKPILOT_WORLDS(worlds_pid_linear, LateralPid, LinearTyres)
SPARKPILOT_WORLDS(worlds_pid_saturating, LateralPid, SaturatingTyres)
SPARKPILOT_WORLDS(worlds_torque_kinematic, LateralTorque, NoSlip)
SPARKPILOT_WORLDS(worlds_torque_linear, LateralTorque, LinearTyres)
SPARKPILOT_WORLDS(worlds_torque_saturating, LateralTorque, SaturatingTyres)
SPARKPILOT_WORLDS(worlds_angle_kinematic, LateralAngle, NoSlip)
SPARKPILOT_WORLDS(worlds_angle_linear, LateralAngle, LinearTyres)
SPARKPILOT_WORLDS(worlds_angle_saturating, LateralAngle, SaturatingTyres)
