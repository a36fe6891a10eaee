// Compiled as src/sim is: it instantiates what the library has, too.
#include "bench/sim/plain_world.h"
#include "sim/alone-inl.h"

namespace sparkpilot::sim {

Beginning beginning_of(const WorldSpec& spec, Tyres tyres) {
  const auto c = scalar::converted<scalar::CourseConstants<float>, float>(
      scalar::prepare<scalar::LateralTorque>(spec, tyres).course);
  return {c.start_wheel,   c.start_command, c.start_lateral,     c.start_yaw_rate,
          c.start_heading, c.start_desired, c.start_acceleration};
}

}  // namespace sparkpilot::sim
