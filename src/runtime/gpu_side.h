// Internals of the part of a plan that runs on a GPU, shared by gpu_plan.cc and gpu_states.cc.
#pragma once

#include "runtime/plan_impl.h"
#include "tensor/gpu.h"

namespace sparkpilot {

struct Plan::GpuSide {
  explicit GpuSide(const PlanOptions& options) : stream(options.gpu), on_host(options) { on_host.gpu = nullptr; }

  struct Move {
    std::byte *host, *on_gpu;
    int64_t bytes;
  };
  // Of a stretch: the copies before it, its steps, the copies after it.
  struct Times {
    explicit Times(const std::shared_ptr<GpuDevice>& gpu) : sent(gpu), computed(gpu), fetched(gpu) {}
    GpuTimer sent, computed, fetched;
    double enqueue_ms = 0;
  };
  struct Work {
    std::vector<int> to_gpu, to_host;               // storages, before and after the steps
    std::vector<Move> sent, fetched;                // the same, where they are now
    std::unique_ptr<Times> times;                   // with PlanOptions::gpu_times
    std::vector<std::unique_ptr<GpuTimer>> timers;  // with PlanOptions::profile: of each step
    GpuRecording recording;
  };
  // A state of a plan on a GPU with its own memory.
  struct StateMove {
    GpuState* state;
    size_t index, storage;
    bool read_on_host = false;  // in a run, or after it
    enum { unchanged, on_host, in_place_on_gpu, copied_on_gpu } next = unchanged;
    size_t from = 0;  // copied_on_gpu: the storage of the next value

    // In every run.
    bool is_sent() const { return state->buffer && (state->shown || next == on_host); }
    bool is_fetched() const {
      return (next == in_place_on_gpu || next == copied_on_gpu) && (state->shown || read_on_host);
    }
  };

  GpuStream stream;
  PlanOptions on_host;  // of continuations and bodies, which run on the CPU
  std::vector<std::string> left_to_cpu;
  std::vector<void*> addresses;  // by storage; null: the GPU does not use it
  std::shared_ptr<Buffer> arena, owned, workspace, inputs;
  std::vector<std::shared_ptr<Buffer>> pieces;  // constants
  std::vector<Work> work;                       // by stretch
  std::vector<StateMove> states;                // where the GPU has its own memory
  bool busy = false;                            // something was enqueued and not waited for
};

}  // namespace sparkpilot
