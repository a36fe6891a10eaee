// What the warps of a block ask of memory at once: sectors of global memory, banks of shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace sparkpilot::emulator {

class TrafficCounter {
 public:
  struct Total {
    bool shared = false, write = false;
    uint64_t requests = 0, bytes = 0, sectors = 0;
    int worst_bank = 0;
  };

  // Thread `thread` of the running block accesses `bytes` at `address` (of shared memory: its offset) by instruction
  // `code`; `matrix`: it is one row of ldmatrix. The n-th time that the threads of a warp come to an instruction is one
  // request.
  void note(uint32_t code, int thread, uint64_t address, size_t bytes, bool shared, bool write, bool matrix);
  void end_block();
  std::map<uint32_t, Total> take();  // by code

 private:
  struct Piece {
    int lane;
    uint64_t address;
    size_t bytes;
  };
  struct Request {
    bool shared, write, matrix;
    std::vector<Piece> pieces;
  };
  std::map<std::tuple<uint32_t, int, uint32_t>, Request> requests_;  // code, warp, how often it came there
  std::map<std::pair<uint32_t, int>, uint32_t> times_;               // code, thread
  std::map<uint32_t, Total> totals_;
};

}  // namespace sparkpilot::emulator
