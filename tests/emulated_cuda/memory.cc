#include "emulated_cuda/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace emulated_cuda {
namespace {

constexpr std::size_t kPage = 4096, kAddresses = std::size_t{1} << 42;

std::uintptr_t addresses() {
  static void* const begin = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return reinterpret_cast<std::uintptr_t>(begin);
}

}  // namespace

std::uintptr_t Memory::allocate(std::size_t bytes, Kind kind) {
  if (kind != Kind::host && (bytes > limit_ || used_[0] + used_[1] + bytes > limit_)) return 0;
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (next_ + pages + kPage > kAddresses) return 0;
  const std::uintptr_t first = addresses() + next_;
  if (mprotect(reinterpret_cast<void*>(first), pages, PROT_READ | PROT_WRITE) != 0) return 0;
  next_ += pages + kPage;
  std::memset(reinterpret_cast<void*>(first), 0xff, pages);
  const std::uintptr_t pointer = first + (pages - bytes) / 256 * 256;
  buffers_[pointer] = {bytes, first, pages, kind};
  used_[static_cast<int>(kind)] += bytes;
  most_used_ = std::max(most_used_, used_[0] + used_[1]);
  if (is_closed(kind)) mprotect(reinterpret_cast<void*>(first), pages, PROT_NONE);
  return pointer;
}

bool Memory::free(std::uintptr_t pointer, bool host) {
  const auto found = buffers_.find(pointer);
  if (found == buffers_.end() || (found->second.kind == Kind::host) != host) return false;
  const Buffer& b = found->second;
  used_[static_cast<int>(b.kind)] -= b.bytes;
  madvise(reinterpret_cast<void*>(b.first_page), b.pages_bytes, MADV_DONTNEED);
  mprotect(reinterpret_cast<void*>(b.first_page), b.pages_bytes, PROT_NONE);
  buffers_.erase(found);
  return true;
}

const Memory::Buffer* Memory::buffer_of(std::uintptr_t pointer, std::size_t bytes) const {
  auto at = buffers_.upper_bound(pointer);
  if (at == buffers_.begin()) return nullptr;
  --at;
  return pointer + bytes <= at->first + at->second.bytes ? &at->second : nullptr;
}

bool Memory::holds(std::uintptr_t pointer, std::size_t bytes, Kind kind) const {
  const Buffer* b = buffer_of(pointer, bytes);
  return b && b->kind == kind;
}

bool Memory::is_closed(Kind kind) const {
  return kind == Kind::device || (kind == Kind::managed && queued_ && !concurrent_);
}

void Memory::protect(const Places& places, int protection) const {
  for (const std::uintptr_t pointer : places) {
    const Buffer* b = buffer_of(pointer, 0);
    if (b && is_closed(b->kind)) mprotect(reinterpret_cast<void*>(b->first_page), b->pages_bytes, protection);
  }
}

void Memory::protect(Kind kind, int protection) const {
  for (const auto& [pointer, b] : buffers_) {
    if (b.kind == kind) mprotect(reinterpret_cast<void*>(b.first_page), b.pages_bytes, protection);
  }
}

void Memory::open(const Places& places) const { protect(places, PROT_READ | PROT_WRITE); }
void Memory::close(const Places& places) const { protect(places, PROT_NONE); }
void Memory::open_for_work() {
  if (open_++ > 0) return;
  protect(Kind::device, PROT_READ | PROT_WRITE);
  if (!concurrent_) protect(Kind::managed, PROT_READ | PROT_WRITE);
}
void Memory::close_after_work() {
  if (--open_ > 0) return;
  protect(Kind::device, PROT_NONE);
  if (!concurrent_ && queued_) protect(Kind::managed, PROT_NONE);
}
void Memory::work_is_queued(bool queued) {
  if (queued == queued_) return;
  queued_ = queued;
  if (!concurrent_) protect(Kind::managed, queued ? PROT_NONE : PROT_READ | PROT_WRITE);
}

}  // namespace emulated_cuda
