#include "runtime/arena.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "tensor/tensor.h"

namespace sparkpilot {

namespace {

int64_t padded(int64_t bytes) {
  const auto step = static_cast<int64_t>(kAlignment);
  if (bytes > std::numeric_limits<int64_t>::max() - step) fail("the model's buffers exceed any memory");
  return (bytes + step - 1) / step * step;
}

int64_t end_of(int64_t offset, int64_t bytes) {
  if (__builtin_add_overflow(offset, bytes, &offset)) fail("the model's buffers exceed any memory");
  return offset;
}

std::vector<size_t> numbered(size_t count) {
  std::vector<size_t> out(count);
  std::iota(out.begin(), out.end(), size_t{0});
  return out;
}

int64_t place_by_size(std::vector<Lifetime>& buffers) {
  std::vector<size_t> by_size = numbered(buffers.size());
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
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
    total = std::max(total, end_of(offset, padded(buffer.bytes)));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [&](size_t a, size_t b) { return buffers[a].offset < buffers[b].offset; }),
                  at);
  }
  return total;
}

// The free ranges of a block that grows.
class FreeList {
 public:
  // Takes the smallest free range that holds this many bytes, else extends the block.
  int64_t take(int64_t bytes) {
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best != by_size_.end()) {
      const auto [size, offset] = *best;
      drop(offset);
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    int64_t offset = end_;
    if (!by_offset_.empty() && by_offset_.rbegin()->first + by_offset_.rbegin()->second == end_) {
      offset = by_offset_.rbegin()->first;
      drop(offset);
    }
    end_ = end_of(offset, bytes);
    return offset;
  }
  void give_back(int64_t offset, int64_t bytes) {
    const auto behind = by_offset_.lower_bound(offset);
    if (behind != by_offset_.end() && behind->first == offset + bytes) {
      bytes += behind->second;
      drop(behind->first);
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        drop(offset);
      }
    }
    add(offset, bytes);
  }
  int64_t end() const { return end_; }

 private:
  void add(int64_t offset, int64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void drop(int64_t offset) {
    const auto found = by_offset_.find(offset);
    by_size_.erase({found->second, offset});
    by_offset_.erase(found);
  }

  std::map<int64_t, int64_t> by_offset_;  // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

int64_t place_by_time(std::vector<Lifetime>& buffers) {
  std::vector<size_t> starts = numbered(buffers.size());
  std::vector<size_t> ends = starts;
  std::stable_sort(starts.begin(), starts.end(), [&](size_t a, size_t b) {
    return std::pair(buffers[a].first, -buffers[a].bytes) < std::pair(buffers[b].first, -buffers[b].bytes);
  });
  std::stable_sort(ends.begin(), ends.end(), [&](size_t a, size_t b) { return buffers[a].last < buffers[b].last; });
  FreeList free;
  size_t ended = 0;
  for (const size_t at : starts) {
    // Buffers that ended before this step also began before it.
    for (; buffers[ends[ended]].last < buffers[at].first; ++ended) {
      const Lifetime& gone = buffers[ends[ended]];
      if (gone.bytes > 0) free.give_back(gone.offset, padded(gone.bytes));
    }
    buffers[at].offset = buffers[at].bytes > 0 ? free.take(padded(buffers[at].bytes)) : 0;
  }
  return free.end();
}

}  // namespace

int64_t place(std::vector<Lifetime>& buffers) {
  return buffers.size() > kMaxBySize ? place_by_time(buffers) : place_by_size(buffers);
}

}  // namespace sparkpilot
