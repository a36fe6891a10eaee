// Pooling by oneDNN.
#pragma once

#include "ops/cpu/conv/pool_shape.h"
#include "ops/cpu/onednn/onednn.h"

namespace sparkpilot {

enum class PoolKind { max, average, average_with_padding };

// f32, and bf16 if the processor supports it, in both layouts; windows without dilation.
Acceptance pool_onednn_accepts(const Problem& p, const PoolShape& s, PoolKind kind);
// `largest`: for PoolKind::max, runs instead of oneDNN if there may be NaN, whose maximum oneDNN computes as a number.
std::unique_ptr<KernelState> pool_onednn_prepare(const Problem& p, const PoolShape& s, PoolKind kind,
                                                 std::function<void(const Call&)> largest = {});

}  // namespace sparkpilot
