// Worlds on a GPU: a thread for each, which keeps constants and state in registers for all of a launch's steps. Only
// the rings of delayed values stay in memory. The steps are the CPU's (sim/world-inl.h) and so are their bits.
#include "ops/cuda/worlds.h"

#include <cstddef>

#include "ops/cuda/device.cuh"
#include "sim/world-inl.h"

namespace {

using namespace sparkpilot::sim::scalar;
using sparkpilot::cuda::kWorldsOfGroup;
using sparkpilot::cuda::kWorldsThreads;
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
  State s = beginning<float, Control>(k.course);
  const WorldRings<float> rings(p.rings + place(sparkpilot::sim::scalar::kRingSlots), kWorldsOfGroup);
  const RunSettings run{p.seed, p.warm_up, p.noise != 0, p.leads != 0, p.rich_courses != 0};
  const CourseRows<float> table{p.tables ? p.tables[thread] : nullptr, 1};
#pragma unroll 1
  for (int step = 0; step < p.steps; ++step) {
    if (step % sparkpilot::sim::kStepsPerPlan == 0) {
      // These are read again each time, so that no register keeps them in between.
      k.course = load_fields<CourseConstants<float>>(constants +
                                                     kWorldsOfGroup * (offsetof(Constants, course) / sizeof(float)));
      k.lead =
          load_fields<LeadConstants<float>>(constants + kWorldsOfGroup * (offsetof(Constants, lead) / sizeof(float)));
      plan(run, step, k, table, s);
    }
    step_car(run, step, k, rings, s, Tyres());
  }
  store_fields(s, p.states + place(kFields<State>));
}

}  // namespace

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
