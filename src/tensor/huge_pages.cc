#include "tensor/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
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

HugePages::Pieces::iterator HugePages::add_chunk() {
  Pieces whole{{nullptr, kChunk}};
  Pieces chunk{{nullptr, 0}};
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, kChunk));
  if (!memory) return free_.end();
  ::madvise(memory, kChunk, MADV_HUGEPAGE);
  auto node = chunk.extract(chunk.begin());
  node.key() = memory;
  chunks_.insert(std::move(node));
  node = whole.extract(whole.begin());
  node.key() = memory;
  return free_.insert(std::move(node)).position;
}

std::byte* HugePages::allocate(int64_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(mutex_);
  auto at = free_.begin();
  while (at != free_.end() && at->second < bytes) ++at;
  if (at == free_.end()) at = add_chunk();
  if (at == free_.end()) return nullptr;
  std::byte* const memory = at->first;
  if (at->second == bytes) {
    used_.insert(free_.extract(at));
  } else {
    used_.emplace(memory, bytes);
    auto rest = free_.extract(at);
    rest.key() += bytes;
    rest.mapped() -= bytes;
    free_.insert(std::move(rest));
  }
  std::prev(chunks_.upper_bound(memory))->second += bytes;
  return memory;
}

void HugePages::free(std::byte* memory) noexcept {
  const std::lock_guard lock(mutex_);
  auto piece = used_.extract(memory);
  const auto chunk = std::prev(chunks_.upper_bound(memory));
  chunk->second -= piece.mapped();
  const auto after = free_.lower_bound(memory);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first >= chunk->first && before->first + before->second == memory) {
      piece.key() = before->first;
      piece.mapped() += before->second;
      free_.erase(before);
    }
  }
  if (after != free_.end() && after->first == piece.key() + piece.mapped() && after->first < chunk->first + kChunk) {
    piece.mapped() += after->second;
    free_.erase(after);
  }
  const auto is_empty = [](const auto& each) { return each.second == 0; };
  if (chunk->second > 0 || std::ranges::count_if(chunks_, is_empty) == 1) {
    free_.insert(std::move(piece));
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
