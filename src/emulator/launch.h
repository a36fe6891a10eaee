// CUDA kernels on the processor, for tests: a launch runs every block of a grid to its end.
//
// A block runs on one processor thread, as fibers, one for each CUDA thread, which take turns only where CUDA threads
// meet: barriers, shuffles, votes, ldmatrix, mma. So a run is deterministic, and another schedule gives another order.
// What a kernel may not rely on is made to fail: shared memory begins as NaN, asynchronous copies are made as late as
// they may be, and threads that do not all come to a meeting are an error that names their lines. What cannot be shown:
// weak memory order, blocks that run side by side, time.
//
// Kernels are compiled by g++ and clang from the same source as by nvcc (ops/cuda/device.cuh).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sparkpilot::emulator {

class Checker;

// CUDA's dim3 and uint3.
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Dim3 grid, block;
  size_t dynamic_shared_bytes = 0;
};

struct Schedule {
  unsigned seed = 0;         // 0: blocks, warps and threads in order; else in an order that changes at every barrier
  bool late_copies = false;  // cp.async copies when it is waited for; else at once
  Checker* checker =
      nullptr;  // for kernels that are compiled to be checked (check.h); blocks then run one after another
};

// What all launches of the process did, for tests and measurements.
struct Counters {
  uint64_t blocks = 0, switches = 0, meetings = 0;
};
Counters counters();

using KernelBody = void (*)(const void* arguments);

// Runs body(arguments) in each thread; blocks on up to thread_count() processor threads. Fails (internal) with the
// first thing that went wrong, naming block, thread and line, or with the limit of CUDA that the shape breaks.
void launch(const LaunchShape& shape, const Schedule& schedule, KernelBody body, const void* arguments);

// A kernel takes one argument, a struct that can be copied as bytes.
template <typename Arguments>
void launch(const LaunchShape& shape, const Schedule& schedule, void (*kernel)(Arguments),
            const std::type_identity_t<Arguments>& arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= 4096);
  struct Call {
    void (*kernel)(Arguments);
    const Arguments* arguments;
  } const call{kernel, &arguments};
  launch(
      shape, schedule,
      [](const void* p) {
        const Call& c = *static_cast<const Call*>(p);
        c.kernel(*c.arguments);
      },
      &call);
}

}  // namespace sparkpilot::emulator
