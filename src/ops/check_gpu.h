// Checks the CUDA kernels of ops on a GPU, on the ops' own cases, against the plain references on the CPU.
#pragma once

#include <functional>

#include "ops/check.h"

namespace sparkpilot {

// The kernels of one op that accept the case, each in all its variants, with the case's constants as constants: the
// first result of each is compared with the reference, and a second run must give the same bits. `dtype` other than
// none: the case with its f32 tensors in that type.
std::vector<CheckResult> check_case_on_gpu(const OpDef& op, const OpCase& op_case, uint64_t seed, GpuDevice& gpu,
                                           DType dtype = DType::none);

// All cases of one op, as they are and in f16 and bf16.
std::vector<CheckResult> check_op_on_gpu(const OpDef& op, uint64_t seed, GpuDevice& gpu);

// All cases of all ops whose name contains `filter`, likewise. Ops without a CUDA kernel are
// left out.
std::vector<CheckResult> check_ops_on_gpu(const std::string& filter, uint64_t seed, GpuDevice& gpu);

}  // namespace sparkpilot
