// Looks at every access to memory of a kernel: races, reads and writes outside of what the kernel was given, sectors
// that a warp asks for, conflicts of banks. The kernel must be compiled by g++ with -fsanitize=thread, whose calls are
// answered by check_calls.cc instead of by the sanitizer's own library (the CMake target kernels_checked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/thread.h"

namespace sparkpilot::emulator {

enum class Access : uint8_t { read, write, atomic, matrix_read };

// The instruction that reads or writes: its address, or the place of a word of device.cuh.
struct Code {
  const void* address = nullptr;
  Place place;
  bool operator==(const Code& other) const {
    return address == other.address && place.line == other.place.line && place.file == other.place.file;
  }
};

// One launch at a time, on one thread of the processor.
class Checker {
 public:
  Checker();
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // Global memory that kernels may read, and write if `writable`. Without any, only shared memory is looked at.
  void add_memory(const void* data, size_t bytes, bool writable);
  void remove_memory(const void* data);

  // What was found since the last call, each pair of lines once, at most 20.
  //
  // Shared memory, and global memory within a block: two accesses to a byte by two threads, one of them a write, with
  // neither a barrier nor, within a warp, __syncwarp() between. Global memory between blocks: any two accesses, one of
  // them a write, since nothing orders the blocks of a launch. Two atomics are no race.
  std::vector<std::string> take_findings();

  // The accesses of each line: how many requests warps made, the bytes they wanted, the sectors of 32 bytes of global
  // memory that were moved for them, and for shared memory how often the worst request went to one bank (1: no
  // conflict).
  struct Traffic {
    std::string line;
    bool shared = false, write = false;
    uint64_t requests = 0, bytes = 0, sectors = 0;
    int worst_bank = 0;
    double used() const { return sectors ? static_cast<double>(bytes) / (32.0 * static_cast<double>(sectors)) : 1.0; }
  };
  std::vector<Traffic> take_traffic();
  void count_traffic(bool on);  // off at first: it costs more than the rest

  // For the emulator.
  void begin_launch();
  void begin_block(const Block& block);
  void end_block();
  void access(const Thread& thread, const void* address, size_t bytes, Access kind, const Code& code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkpilot::emulator
