// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// The same (key, counter) gives the same bits on every machine, in any order and on any number of threads.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace sparkpilot {

// Four independent 32-bit words for one counter value.
inline std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter) {
  std::array<uint32_t, 4> c{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  std::array<uint32_t, 2> k{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

// A sequential view of the generator, for seeding weights and test inputs. Not for several threads at once.
class Random {
 public:
  explicit Random(uint64_t seed) : key_(seed) {}

  uint32_t bits() {
    if (used_ == 4) {
      block_ = philox4x32(key_, counter_++);
      used_ = 0;
    }
    return block_[used_++];
  }
  // Uniform in [0, 1).
  double uniform() { return (bits() >> 5) * 0x1p-27 + (bits() >> 6) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Uniform integer in [low, high].
  int64_t integer(int64_t low, int64_t high) {
    const uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
    const uint64_t word = (uint64_t{bits()} << 32) | bits();
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (width == 0 ? word : word % width));
  }
  // Standard normal (Box-Muller).
  double normal() {
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace sparkpilot
