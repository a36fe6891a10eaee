// A block that runs: its threads, warps and shared memory, as the words of cuda.h and ops/cuda/device.cuh need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulator/launch.h"

// As a last parameter: the caller's place in the source.
#define SPARKPILOT_EMULATOR_HERE ::sparkpilot::emulator::Place here = {__builtin_FILE(), __builtin_LINE()}

namespace sparkpilot::emulator {

struct Place {
  const char* file = "";
  int line = 0;
};
std::string text(const Place& place);

// cp.async: `bytes` are written, those beyond `from_bytes` as zero.
struct Copy {
  void* to;
  const void* from;
  unsigned bytes, from_bytes;
  Place place;
};

struct Block;
struct Warp;

struct Thread {
  Dim3 index{0, 0, 0};
  int number = 0, lane = 0;
  Block* block = nullptr;
  Warp* warp = nullptr;
  void* stack_pointer = nullptr;
  Thread* next = nullptr;          // in the order in which the warp's threads take turns
  const uint64_t* gate = nullptr;  // waits while *gate == closed
  uint64_t closed = 0;
  bool done = false;
  const char* word = "";  // where it waits
  Place place;
  std::vector<Copy> copies;    // not waited for yet
  std::vector<size_t> groups;  // ends of committed groups in `copies`

  bool may_run() const { return !done && (!gate || *gate != closed); }
};

constexpr int kWarpSize = 32, kMaxThreads = 1024;

struct Warp {
  Thread* threads[kWarpSize] = {};
  int order[kWarpSize] = {};
  uint64_t epoch = 0;  // __syncwarp() passed
  // The meeting of all its threads.
  int arrived = 0;
  uint64_t generation = 0;
  const char* word = "";
  Place place;
  void* operands[kWarpSize] = {};
};

struct SharedPiece {
  const void* key;  // the place in the source; null for the memory that the launch asks for
  size_t offset, bytes;
};

struct Block {
  Dim3 index{0, 0, 0}, grid, size;
  uint64_t number = 0;  // of the launch
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<std::byte> shared;  // 128-aligned at shared_begin
  std::byte* shared_begin = nullptr;
  std::vector<SharedPiece> pieces;
  size_t shared_used = 0;
  uint64_t epoch = 0;  // barriers passed
  int live = 0;        // threads that have not ended
  // The barrier that some have come to.
  int arrived = 0;
  Place place;
  int votes[2] = {0, 0};  // of the barriers with even and odd epoch: threads whose predicate held
  bool late_copies = false;
  Checker* checker = nullptr;
  void* scheduler = nullptr;  // stack pointer of what runs when no thread can
  std::string error;
  uint64_t switches = 0, meetings = 0;
};

extern constinit thread_local Thread* current;

// Whether it is a local variable of a kernel that this processor thread runs.
bool is_on_stack_of_kernel(const void* address);

// Ends the launch with an error; `what` is said of the running thread.
[[noreturn]] void fail_thread(const std::string& what);

// __syncthreads(). Returns for how many threads of the block the predicate held.
int barrier(bool predicate, Place place);

// Shared memory. A key stands for a declaration in the source.
std::byte* static_shared(const void* key, size_t bytes);
std::byte* dynamic_shared();

void copy_async(const Copy& copy);
void commit_copies();
void wait_for_copies(size_t groups_left);

}  // namespace sparkpilot::emulator
