#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/tensor.h"

namespace sparkpilot {

int64_t place(std::vector<Lifetime>& buffers) {
  std::vector<size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  const auto padded = [](int64_t bytes) {
    return (bytes + static_cast<int64_t>(kAlignment) - 1) / static_cast<int64_t>(kAlignment) *
           static_cast<int64_t>(kAlignment);
  };
  int64_t total = 0;
  std::vector<size_t> placed;  // sorted by offset
  for (const size_t at : by_size) {
    Lifetime& buffer = buffers[at];
    int64_t offset = 0;
    for (const size_t other : placed) {
      const Lifetime& o = buffers[other];
      if (o.last < buffer.first || o.first > buffer.last) continue;
      if (offset + padded(buffer.bytes) <= o.offset) break;
      offset = std::max(offset, o.offset + padded(o.bytes));
    }
    buffer.offset = offset;
    if (__builtin_add_overflow(offset, padded(buffer.bytes), &offset)) fail("the model's buffers exceed any memory");
    total = std::max(total, offset);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [&](size_t a, size_t b) { return buffers[a].offset < buffers[b].offset; }),
                  at);
  }
  return total;
}

}  // namespace sparkpilot
