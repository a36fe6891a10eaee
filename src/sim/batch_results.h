// Results of many worlds, as memory.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "sim/world.h"

namespace sparkpilot::sim {

// Makes `results`, whose capacity is large enough, longer by `count`. All threads touch the new memory first: the
// system's zeroing of new pages takes one thread longer than all of them need for the worlds (measured: 95 ms for a
// million).
inline void add_results(std::vector<WorldResult>& results, int64_t count) {
  constexpr int64_t kPage = 4096;
  if (results.capacity() - results.size() < static_cast<size_t>(count)) fail_internal("sim: no room for results");
  // Behind the last element, but within the memory that was reserved.
  auto* const begin = reinterpret_cast<std::byte*>(results.data() + results.size());
  const int64_t bytes = count * int64_t{sizeof(WorldResult)};
  parallel_for((bytes + kPage - 1) / kPage, 16, [&](int64_t first, int64_t last) {
    for (int64_t page = first; page < last; ++page) begin[page * kPage] = std::byte{0};
  });
  results.resize(results.size() + static_cast<size_t>(count));
}

}  // namespace sparkpilot::sim
