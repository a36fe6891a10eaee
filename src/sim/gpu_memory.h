// Memory of worlds on a GPU and on the processor.
#pragma once

#include <memory>

#include "tensor/gpu.h"

namespace sparkpilot::sim {

// Memory on both sides: one buffer twice where they share it.
struct TwoSides {
  std::shared_ptr<Buffer> host, gpu;
};
inline TwoSides on_both_sides(GpuDevice& gpu, int64_t bytes) {
  TwoSides out{gpu.allocate_kept(bytes, gpu.shared_place()), nullptr};
  out.gpu = gpu.unified() ? out.host : gpu.allocate_kept(bytes, Place::device);
  return out;
}
inline void send(GpuStream& stream, const TwoSides& memory, int64_t bytes) {
  if (memory.host != memory.gpu) stream.copy_to_gpu(memory.gpu->data(), memory.host->data(), bytes);
}

}  // namespace sparkpilot::sim
