// From the epilogue attribute of sparkpilot::Conv and sparkpilot::Gemm to what kernels read.
#pragma once

#include "ops/cpu/vector/epilogue.h"
#include "ops/cuda/epilogue.h"

namespace sparkpilot::cuda {

// "f32", "f16", "bf16" as kernels know them; fails (internal) for other types.
Storage storage_of(DType dtype);

// Whether kernels can apply it: empty, or why not.
Acceptance takes_epilogue(const sparkpilot::Epilogue& epilogue);

// With the operands of this call; `columns` is the length of a row of the output.
Epilogue bound_epilogue(const sparkpilot::Epilogue& epilogue, const Call& call, int64_t columns);

}  // namespace sparkpilot::cuda
