// What a session keeps for a GPU that has its own memory: states on both sides, and where inputs lie.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "sparkpilot/tensor.h"

namespace sparkpilot {

// A state of a session on a GPU with its own memory. Its tensor in the store is the host's side.
struct GpuState {
  std::shared_ptr<Buffer> buffer = {};  // the GPU's side; null: no kernel there uses it
  bool host_is_newer = true, gpu_is_newer = false;
  bool shown = false;  // the caller has its memory and may read and write it between runs: copied at each
};

struct GpuStates {
  std::map<std::string, GpuState, std::less<>> of = {};  // by name
  bool all_shown = false;                                // the caller has the store
};

// Inputs lie one after another, each at a multiple of this, in their order, on both sides.
constexpr int64_t kInputAlignment = 256;
constexpr int64_t input_space(int64_t bytes) {
  return (bytes + kInputAlignment - 1) / kInputAlignment * kInputAlignment;
}

}  // namespace sparkpilot
