// A WorldStepper's worlds on a GPU.
#pragma once

#include <memory>

#include "sim/world_stepper.h"

namespace sparkpilot {
class GpuDevice;
}

namespace sparkpilot::sim {

// StepperOptions::elsewhere for this GPU: the worlds stay in its memory, a call sends commands and brings back what is
// seen. The same bits as on the processor, with single numbers. reset() fails (user) on worlds with the planner mpc,
// any call (device) on what the GPU cannot do.
StepperPlace worlds_on_gpu(std::shared_ptr<GpuDevice> gpu);

}  // namespace sparkpilot::sim
