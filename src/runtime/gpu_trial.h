// Times the variants of a GPU's kernel at one node, by the GPU's clock and on the node's own constants.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/launch.h"
#include "tensor/gpu.h"

namespace sparkpilot {

class GpuTrial {
 public:
  // `variants` are some of the kernel's for the problem, which it accepts. Inputs that are not constants are filled
  // with one small number; integers that may be indices, with zero. Before each run `cold_bytes` bytes are written, and
  // then the inputs again, so that the node finds its weights in memory and its inputs in the cache, as in a network
  // that reads its other weights in between; 0: everything stays in the cache. No other model is loaded on this GPU
  // meanwhile. `problem` and what it refers to must outlive this object. Fails (device), also if there is too little
  // memory.
  GpuTrial(const std::shared_ptr<GpuDevice>& gpu, const Problem& problem, const Kernel& kernel,
           std::vector<std::string> variants, int64_t cold_bytes);

  // The time of a run, all its launches, in nanoseconds. kNoTime if the variant's result differs from that of the first
  // by more than rounding. Runs are repeated inside a recording if they are short.
  double time_ns(size_t variant);

 private:
  struct Way {
    std::string variant;
    std::unique_ptr<GpuTimer> timer;
    GpuRecording recording = {};
    int64_t runs = 1;
    bool wrong = false;
  };
  void fill_inputs();
  void enqueue();
  bool agrees();
  void record(Way& way);
  double time(Way& way);

  std::shared_ptr<GpuDevice> gpu_;
  const Problem& problem_;
  const Kernel& kernel_;
  int64_t cold_bytes_;
  GpuLoad load_;
  std::unique_ptr<KernelState> state_;
  std::vector<std::shared_ptr<Buffer>> memory_;
  std::shared_ptr<Buffer> workspace_, other_;
  std::vector<ConstView> inputs_;
  std::vector<View> filled_, outputs_;
  std::vector<Tensor> expected_;  // the outputs of the first variant
  GpuStream stream_;
  std::vector<Way> ways_;
};

}  // namespace sparkpilot
