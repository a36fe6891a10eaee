// Memory of worlds on a GPU and on the processor.
#pragma once

#include <memory>

#include "base/error.h"
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

// Waits for the stream when it goes, also after an error: what the GPU still uses may not be given back. It stands
// behind that memory, and the stream before it.
class WaitAtEnd {
 public:
  explicit WaitAtEnd(GpuStream& stream) : stream_(stream) {}
  ~WaitAtEnd() {
    try {
      stream_.wait();
    } catch (const Error&) {
    }
  }
  WaitAtEnd(const WaitAtEnd&) = delete;
  WaitAtEnd& operator=(const WaitAtEnd&) = delete;

 private:
  GpuStream& stream_;
};

}  // namespace sparkpilot::sim
