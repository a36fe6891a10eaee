// run_worlds() on a GPU.
#pragma once

#include "sim/batch.h"

namespace sparkpilot::sim {

// As run_worlds(), on options.gpu.
std::vector<WorldResult> run_worlds_on_gpu(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                           const BatchOptions& options);

}  // namespace sparkpilot::sim
