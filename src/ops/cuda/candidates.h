// What candidates share: ops' records hold them, and each chooses, prepares and enqueues kernels of this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/op.h"
#include "ops/cuda/images.h"

namespace sparkpilot::cuda {

// "f32", "f16", "bf16": how the names of kernels for that storage end; empty for other types.
std::optional<std::string_view> storage_suffix(DType dtype);

// Bytes of what lies in the workspace before something else.
constexpr int64_t workspace_part(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// One kernel that is launched with the same shape each time.
struct OneLaunch : KernelState {
  const GpuFunction* function = nullptr;
  GpuLaunch how;
};

}  // namespace sparkpilot::cuda
