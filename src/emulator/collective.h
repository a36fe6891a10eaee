// Shuffles, votes, atomics and approximate functions, for cuda.h.
#pragma once

#include <bit>
#include <cstdint>

#include "emulator/thread.h"

namespace sparkpilot::emulator {

Dim3 thread_index();
Dim3 block_index();
Dim3 block_size();
Dim3 grid_size();

// CUDA's masks name the threads that take part. Ours are always whole warps: anything else is an error.
void need_whole_warp(uint32_t mask);
void warp_barrier(Place place);
uint32_t ballot(uint32_t mask, bool predicate, Place place);

// Functions rather than templates: what is compiled with a checked kernel is seen by the checker, and this touches
// memory of the emulator. Lane l gets the value of lane from(l, argument, width).
enum class Lane { index, exclusive_or, down, up };
uint32_t shuffle(uint32_t mask, uint32_t value, Lane from, int argument, int width, Place place);
template <typename T>
T shuffle_value(uint32_t mask, T value, Lane from, int argument, int width, Place place) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(shuffle(mask, std::bit_cast<uint32_t>(value), from, argument, width, place));
}

// Of blocks that run at the same time on other processor threads, too. The old value.
enum class Change { add, max };
uint32_t atomic(void* address, uint32_t value, Change change, Place place);

// `exact` rounded to float, off by up to `most` of its own last places or by `most`, more or less as the bits of `seed`
// fall.
float erring(double exact, double most_last_places, float seed);
float erring_by(double exact, double most, float seed);

}  // namespace sparkpilot::emulator
