// The state of the emulated driver: one context, streams whose work is done as late as it may be, graphs, events.
#pragma once

#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emulated_cuda/gpus.h"
#include "emulated_cuda/memory.h"
#include "emulator/check.h"
#include "emulator/launch.h"
#include "hw/cuda_api.h"

namespace emulated_cuda {

struct Kernel {
  void (*run)(const sparkpilot::emulator::LaunchShape&, const sparkpilot::emulator::Schedule&, const void* arguments);
  std::size_t argument_bytes;
};
// Every kernel that is compiled for the emulator, by name.
const std::map<std::string, Kernel>& kernels();

struct Stream;
struct Event {
  Stream* stream = nullptr;  // of the last record
  std::size_t position = 0;  // how much of that stream's work comes before it
  bool recorded = false;
  double seconds = -1;  // when it happened; -1: not yet
};

// A piece of work: returns a CUresult; kNotReady if it waits for something and is to be asked again.
struct Work {
  std::string what;
  std::function<int()> run;
  // In which buffers of the GPU it reads or writes; without a value in any.
  std::optional<Places> reaches = std::nullopt;
};
struct Stream {
  std::deque<Work> queue;
  std::size_t done = 0;  // pieces that have run
  bool capturing = false, spoilt = false;
  std::thread::id capturing_thread;
  std::vector<Work> captured;
};
struct Graph {
  std::vector<Work> nodes;
};
struct Module {
  std::string image;  // the one of the fat binary that was taken: "sm_120f"
};
struct Function {
  std::string name;
  const Kernel* kernel = nullptr;
  Module* module = nullptr;
  int most_dynamic_shared = 48 << 10;
};

// By environment: EMULATED_GPU (keys of gpus.h, separated by commas; gb10), EMULATED_CUDA_FAIL (cuMemAlloc_v2:3:2: the
// third call answers 2; from 700 to 719 it stays so), EMULATED_CUDA_SEED (schedule of the kernels),
// EMULATED_CUDA_WRONG (word_votes: this kernel's answers are wrong; kernels of other sources compute nothing),
// EMULATED_CUDA_TIMES (conv_64x64_f32=500,gemm_f32_32x32:4x1x2=20: microseconds that a kernel takes, there with that
// grid; events then see a clock on which nothing else takes any time, but 10 microseconds for every other kernel),
// EMULATED_CUDA_REPORT (a file that gets report() when the process ends), EMULATED_CUDA_MEMORY (bytes of each GPU, if
// fewer), EMULATED_CUDA_IDLE (1: kernels are checked and counted, and compute nothing).
class Driver {
 public:
  // The context that is current in a thread: that of this GPU, if as many have ended before it.
  struct Current {
    int gpu = -1, ended = 0;
  };
  const GpuKind& current() const;  // the GPU of this thread's context
  static Driver& get();
  static void reset();

  std::recursive_mutex mutex;
  std::vector<const GpuKind*> gpus;
  std::vector<int> retained;  // by GPU: how often its context is held
  std::vector<int> ended;     // by GPU: how many of its contexts ended; the next one has the same handle
  std::unique_ptr<Memory> memory;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs, executables;
  std::set<Module*> modules;
  std::map<std::pair<Module*, std::string>, std::unique_ptr<Function>> functions;
  int sticky = 0;
  bool initialised = false;
  bool idle = false;                                       // kernels are counted and compute nothing
  std::map<std::string, double> times;                     // EMULATED_CUDA_TIMES
  double virtual_seconds = 0;                              // that kernels took by it
  std::map<std::string, int> calls;                        // how often each function was called
  std::map<std::string, size_t> copied;                    // bytes, by function
  std::map<std::string, int> launched;                     // kernels that ran, by name
  std::vector<std::string> images;                         // that were loaded
  std::unique_ptr<sparkpilot::emulator::Checker> checker;  // null: not asked for
  std::map<std::pair<std::string, std::string>, sparkpilot::emulator::Checker::Traffic> traffic;  // by kernel and line
  std::vector<std::string> findings;  // of the checker, with the kernel's name
  // What events see, in seconds.
  double now() const;
  // After a kernel: the time that it took by EMULATED_CUDA_TIMES.
  void take_time(const std::string& kernel, const sparkpilot::emulator::LaunchShape& shape);
  // After a kernel: takes what the checker has seen of it.
  void take_checks(const std::string& kernel);

  // What a call does first: counts it, injects its failure; needs the context unless it is one of those that make it.
  int enter(const char* name, bool needs_context = true);
  // For what a thread may not do while it captures a stream (the mode is thread-local): spoils the capture. 0 or the
  // error.
  int forbidden_in_capture();
  // Appends work to a stream, or to what is captured on it.
  int submit(sparkpilot::cuda::StreamHandle stream, Work work);
  // Runs a stream's work, `count` pieces or all of it. Without `wait`, kNotReady if a piece would have to be waited
  // for.
  int run(Stream& stream, std::size_t until = ~std::size_t{0}, bool wait = true);
  int run_everything();
  void update_queued();
  std::string report() const;

  ~Driver();

 private:
  Driver();
};

// Which image of a fat binary a GPU takes, or an error (kNoBinaryForGpu, kInvalidImage).
int choose_image(const void* fat_binary, const GpuKind& gpu, std::string& image);

}  // namespace emulated_cuda
