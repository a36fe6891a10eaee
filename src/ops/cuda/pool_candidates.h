// Pooling on a GPU, for the ops MaxPool and AveragePool in either layout, GlobalMaxPool and GlobalAveragePool: f32, f16
// and bf16; MaxPool and sparkpilot::QAveragePool of bytes.
#pragma once

#include <span>

#include "ir/op.h"

namespace sparkpilot::cuda {

std::span<const Kernel> max_pool_candidates();
std::span<const Kernel> average_pool_candidates();
std::span<const Kernel> q_average_pool_candidates();
std::span<const Kernel> global_max_pool_candidates();
std::span<const Kernel> global_average_pool_candidates();

}  // namespace sparkpilot::cuda
