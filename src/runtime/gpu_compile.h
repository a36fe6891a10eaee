// Compiles a graph for a GPU.
#pragma once

#include <optional>
#include <string>

#include "runtime/cpu/compile.h"

namespace sparkpilot {

// The GPU that SessionOptions::device names; empty for the CPU. Fails (user) on other texts.
std::optional<int> gpu_of_device(const std::string& device);

// An input's memory, written by the processor and read by the GPU.
Tensor shared_zeros(GpuDevice& gpu, DType dtype, const Shape& shape);

// As compile_on_cpu, without trials. What runs on the CPU all the same uses `options.threads`.
CpuProgram compile_on_gpu(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states);

}  // namespace sparkpilot
