// Compiles a graph for a GPU.
#pragma once

#include <optional>
#include <string>

#include "runtime/cpu/compile.h"
#include "tensor/gpu.h"

namespace sparkpilot {

// The GPU that SessionOptions::device names; empty for auto and the CPU. Asks the driver which is the fastest if it is
// "cuda". Fails (user) on other texts.
std::optional<int> gpu_of_device(const std::string& device);

// "NVIDIA B200: the driver compiled kernels from PTX in 812 ms, since this program has no machine code for compute
// capability 10.0"
std::string ptx_text(const GpuFacts& gpu, int64_t ptx_ns);

// As compile_on_cpu, without trials of threads; it also sets `plans.ptx_ns`. Fails (device) before anything large is
// allocated if the GPU's memory is too small. What runs on the CPU all the same uses `options.threads`.
CpuProgram compile_on_gpu(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states);

}  // namespace sparkpilot
