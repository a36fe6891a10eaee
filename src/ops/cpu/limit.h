// Limits kernels to less than the processor supports: for tests of the op table at each level, and for finding faults.
#pragma once

#include <string_view>

namespace sparkpilot {

// From now on no kernel, oneDNN's included, uses more than the given level of cpu_levels() (hw/cpu.h). Applies to the
// whole process; call it before any kernel is chosen or run. Fails (user) if the processor does not have this level.
void limit_kernels(std::string_view level);

}  // namespace sparkpilot
