// The worlds of src/sim as anybody would write them for one processor core: what sim_bench compares with.
#pragma once

#include "sim/batch.h"

namespace sparkpilot::sim {

// The equilibrium in which a world begins: rad of the steering wheel, torque, m/s, rad/s, rad, 1/m (right positive) and
// m/s^2.
struct Beginning {
  float wheel, command, lateral, yaw_rate, heading, desired, acceleration;
};
Beginning beginning_of(const WorldSpec& spec, Tyres tyres);

// As run_worlds() for linear or saturating tyres with PID or torque control, without noise: floats, the standard
// library's functions, a world after the other. `begun`: of each world.
namespace plain {
std::vector<WorldResult> run_worlds(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                    const BatchOptions& options, const std::vector<Beginning>& begun);
}
namespace plain_native {  // the same source, compiled for this processor
std::vector<WorldResult> run_worlds(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                    const BatchOptions& options, const std::vector<Beginning>& begun);
}

}  // namespace sparkpilot::sim
