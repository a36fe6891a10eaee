#include "emulator/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "emulator/check.h"
#include "emulator/meeting.h"

namespace sparkpilot::emulator {
namespace {

// In [-1, 1], different for neighbouring seeds.
double share(float seed) {
  const uint32_t word = (std::bit_cast<uint32_t>(seed) ^ 0x9e3779b9u) * 2654435761u;
  return static_cast<double>(word) / 2147483647.5 - 1.0;
}

}  // namespace

Dim3 thread_index() { return current->index; }
Dim3 block_index() { return current->block->index; }
Dim3 block_size() { return current->block->size; }
Dim3 grid_size() { return current->block->grid; }

void need_whole_warp(uint32_t mask) {
  if (mask != ~0u) fail_thread(fmt::format("names the threads {:#x} of its warp; here all take part", mask));
}

void warp_barrier(Place place) {
  int none = 0;
  meet("__syncwarp", place, none, [](int* const*) { ++current->warp->epoch; });
}

uint32_t ballot(uint32_t mask, bool predicate, Place place) {
  need_whole_warp(mask);
  struct Operands {
    bool predicate;
    uint32_t votes;
  } mine{predicate, 0};
  meet("a vote", place, mine, [](Operands* const* all) {
    uint32_t votes = 0;
    for (int lane = 0; lane < kWarpSize; ++lane) votes |= static_cast<uint32_t>(all[lane]->predicate) << lane;
    for (int lane = 0; lane < kWarpSize; ++lane) all[lane]->votes = votes;
  });
  return mine.votes;
}

uint32_t shuffle(uint32_t mask, uint32_t value, Lane from, int argument, int width, Place place) {
  need_whole_warp(mask);
  if (width < 1 || width > kWarpSize || !std::has_single_bit(static_cast<unsigned>(width))) {
    fail_thread(fmt::format("shuffles in groups of {} lanes", width));
  }
  struct Operands {
    uint32_t value, result;
    Lane from;
    int argument, width;
  } mine{value, value, from, argument, width};
  meet("a shuffle", place, mine, [](Operands* const* all) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const Operands& o = *all[lane];
      const int in_group = lane & (o.width - 1), group = lane - in_group;
      int other = lane;
      switch (o.from) {
        case Lane::index: other = group | (o.argument & (o.width - 1)); break;
        case Lane::exclusive_or:
          other = (lane ^ o.argument) / o.width > lane / o.width ? lane : lane ^ o.argument;
          break;
        case Lane::down: other = in_group + o.argument < o.width ? lane + o.argument : lane; break;
        case Lane::up: other = in_group >= o.argument ? lane - o.argument : lane; break;
      }
      if (other < 0 || other >= kWarpSize) fail_thread(fmt::format("shuffles from lane {}", other));
      all[lane]->result = all[other]->value;
    }
  });
  return mine.result;
}

uint32_t atomic(void* address, uint32_t value, Change change, Place place) {
  auto* const word = static_cast<uint32_t*>(address);
  if (Checker* const checker = current->block->checker) {
    checker->access(*current, address, sizeof *word, Access::atomic, {nullptr, place});
  }
  if (change == Change::add) return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
  uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (static_cast<int32_t>(old) < static_cast<int32_t>(value) &&
         !__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

float erring_by(double exact, double most, float seed) {
  const double wrong = exact + share(seed) * most;
  return static_cast<float>(exact >= 0 && wrong < 0 ? 0.0 : wrong);
}

float erring(double exact, double most_last_places, float seed) {
  if (!std::isfinite(exact) || exact == 0) return static_cast<float>(exact);
  const int exponent = std::max(std::ilogb(exact), -126);
  return erring_by(exact, (most_last_places - 0.5) * std::ldexp(1.0, exponent - 23), seed);
}

}  // namespace sparkpilot::emulator
