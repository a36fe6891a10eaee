#include "tensor/huge_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <iterator>

namespace sparkpilot {
namespace {

int64_t rounded(int64_t bytes) {
  return (bytes + HugePages::kAlignment - 1) / HugePages::kAlignment * HugePages::kAlignment;
}

}  // namespace

HugePages& HugePages::shared() {
  static auto* const pages = new HugePages;
  return *pages;
}

HugePages::~HugePages() {
  for (const auto& [chunk, used] : chunks_) std::free(chunk);
}

std::byte* HugePages::allocate(int64_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(mutex_);
  auto at = free_.begin();
  while (at != free_.end() && at->second < bytes) ++at;
  if (at == free_.end()) {
    auto* const chunk = static_cast<std::byte*>(std::aligned_alloc(kPage, kChunk));
    if (!chunk) return nullptr;
    ::madvise(chunk, kChunk, MADV_HUGEPAGE);
    chunks_[chunk] = 0;
    at = free_.emplace(chunk, kChunk).first;
  }
  const auto [memory, room] = *at;
  free_.erase(at);
  if (room > bytes) free_[memory + bytes] = room - bytes;
  std::prev(chunks_.upper_bound(memory))->second += bytes;
  return memory;
}

void HugePages::free(std::byte* memory, int64_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(mutex_);
  const auto chunk = std::prev(chunks_.upper_bound(memory));
  chunk->second -= bytes;
  std::byte *first = memory, *end = memory + bytes;
  const auto after = free_.lower_bound(memory);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first >= chunk->first && before->first + before->second == first) {
      first = before->first;
      free_.erase(before);
    }
  }
  if (after != free_.end() && after->first == end && end < chunk->first + kChunk) {
    end += after->second;
    free_.erase(after);
  }
  if (chunk->second > 0) {
    free_[first] = end - first;
    return;
  }
  std::free(chunk->first);
  chunks_.erase(chunk);
}

int64_t HugePages::chunks() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(chunks_);
}

}  // namespace sparkpilot
