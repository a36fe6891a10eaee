// What a session keeps for a GPU that has its own memory: states on both sides, and where inputs lie.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "sparkpilot/tensor.h"

namespace sparkpilot {

class GpuDevice;
class GpuStream;

// The memory of a state on a GPU with its own memory, or of several states that lie in one piece. The tensors in the
// store are the host's side.
struct GpuState {
  std::shared_ptr<Buffer> host = {};
  std::shared_ptr<Buffer> buffer = {};  // the GPU's side; null: no kernel there uses it
  bool host_is_newer = true, gpu_is_newer = false;
  bool shown = false;  // the caller has its memory and may read and write it between runs: copied at each

  // The GPU's side of what lies at `on_host` in the host's.
  std::byte* on_gpu(const void* on_host) const {
    return buffer->data() + (static_cast<const std::byte*>(on_host) - host->data());
  }
  // Enqueues a copy of all of it to the host, if the GPU's side is newer; true if there was one.
  bool fetch(GpuStream& stream);
};

// Of a session, or of all sessions with one StateStore whose states stay on the GPU.
struct GpuStates {
  explicit GpuStates(std::shared_ptr<GpuDevice> device) : gpu(std::move(device)) {}
  std::shared_ptr<GpuDevice> gpu;
  std::map<const Buffer*, GpuState> of = {};  // by the host's side
  bool all_shown = false;                     // the caller has the store and may use it at any time

  GpuState& at(const Tensor& state);
  // The host's side holds what the last run left, and is sent before the next.
  void show(const Tensor& state);
  void clear(Tensor& state);
  // Where the state lies on the GPU, with what the last run left or show() was followed by. It may be changed there
  // until the next run, which uses that. Fails (internal) if no session on the GPU uses the state.
  std::byte* address(const Tensor& state);
};

// Inputs lie one after another, each at a multiple of this, in their order, on both sides.
constexpr int64_t kInputAlignment = 256;
constexpr int64_t input_space(int64_t bytes) {
  return (bytes + kInputAlignment - 1) / kInputAlignment * kInputAlignment;
}

}  // namespace sparkpilot
