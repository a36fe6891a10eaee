// The machine's limits, measured: what a perfect kernel could reach here and now.
//
// A limit is the largest value measured, as disturbances only lower a measurement. To compare times with limits,
// measure right before and right after: clocks change, and the best counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

// The type of products: units for narrower numbers are faster.
enum class Arithmetic { f32, f16, bf16, i8 };
std::string_view arithmetic_name(Arithmetic arithmetic);  // "fp32", "fp16", "bf16", "int8"

// Multiply-adds in registers, by all threads independently.
struct UnitPeak {
  std::string name = {};  // "avx512_bf16", "amx_int8"; on a GPU "mma fp16"
  Arithmetic arithmetic = Arithmetic::f32;
  double flops_per_second = 0;  // a multiply-add is two
};

// A level of cache, or memory.
struct LevelPeak {
  std::string name = {};        // "L2", "memory"
  double bytes = 0;             // capacity for all threads together; memory: infinity
  double reads_per_second = 0;  // bytes; 0: not measured
  double bytes_per_second = 0;  // read and written, in the faster of two mixes; not below reads_per_second
};

struct Peak {
  int threads = 1;
  std::vector<UnitPeak> units = {};
  std::vector<LevelPeak> levels = {};  // the nearest first; the last is memory
  // The fastest unit for such numbers. Units for wider numbers count too, as numbers can be widened.
  const UnitPeak& unit(Arithmetic arithmetic) const;
};

// Raises the values of `best` to those of `other`, if larger: units and levels by name.
void keep_best(Peak& best, const Peak& other);

// Measures now (about 30 ms) and returns the best that this process has measured with `threads` threads. Memory is
// measured only if `working_set` bytes do not fit the caches; that takes some tenths of a second. Thread-safe.
Peak measure_peak(int threads, double working_set = 0);

}  // namespace sparkpilot
