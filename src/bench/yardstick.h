// A yardstick for times that are not taken at the same time: a fixed piece of work that is timed in turns with a model.
//
// Two measurements of a model, days apart and by different versions of the program, can only be compared if the machine
// was in the same state. The yardstick says so: work that never changes, written as assembly so that compilers do not
// change it either. If its times differ, the machine does, and not the model.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace sparkpilot {

// Times of different versions cannot be compared.
inline constexpr int kYardstickVersion = 1;

struct YardstickTimes {
  double arithmetic_ms = 0;  // multiply-adds in registers: the clock, and whether each thread has a core to itself
  double near_ms = 0;        // each thread reads its own 256 KiB again and again: what shares a core's caches
  double far_ms = 0;         // each thread reads its own 8 MiB: what shares the other caches and the memory
};

// One thread uses an object at a time.
class Yardstick {
 public:
  // For a model that runs on that number of threads. Takes 8.25 MiB for each.
  explicit Yardstick(int threads);
  ~Yardstick();
  Yardstick(const Yardstick&) = delete;
  Yardstick& operator=(const Yardstick&) = delete;

  // Measures each part a few times, after runs that warm it up; takes about 5 ms.
  YardstickTimes measure();

  // The instruction set of the arithmetic: "avx512", "avx2", "sse2", "neon". Times of different ones cannot be
  // compared.
  static std::string_view code();

 private:
  void read(size_t bytes, int times);

  int threads_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* pages_;  // in it, where a page begins
};

}  // namespace sparkpilot
