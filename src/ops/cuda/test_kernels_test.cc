// The table of kernels for tests. Each name of kernels.inc must be defined, or this does not link.
#include "ops/cuda/test_kernels.h"
#include "ops/cuda/kernel_arguments.h"

#define SPARKPILOT_KERNEL(name, Arguments, capability) extern "C" void name(sparkpilot::cuda::Arguments);
#include "ops/cuda/kernels.inc"
#undef SPARKPILOT_KERNEL

namespace sparkpilot::cuda {

const std::map<std::string, KernelEntry>& kernels_by_name() {
  static const std::map<std::string, KernelEntry> table = {
#define SPARKPILOT_KERNEL(name, Arguments, capability)                                                        \
  {#name, [](const emulator::LaunchShape& shape, const emulator::Schedule& schedule, const void* arguments) { \
     emulator::launch(shape, schedule, ::name, *static_cast<const Arguments*>(arguments));                    \
   }},
#include "ops/cuda/kernels.inc"
#undef SPARKPILOT_KERNEL
  };
  return table;
}

}  // namespace sparkpilot::cuda
