// Kernels with less than the processor can do: tests run the table once a level, and who hunts a fault may.
#pragma once

#include <string_view>

namespace sparkpilot {

// From now on no kernel, oneDNN's among them, uses more than a level of hw/cpu.h's cpu_levels(): before any is chosen
// or run, for the whole process. Fails (user) on what is no level of this processor.
void limit_kernels(std::string_view level);

}  // namespace sparkpilot
