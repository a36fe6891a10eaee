// Shared memory, the asynchronous copies into it, and wide loads and stores.
#include <cstring>

#include "base/error.h"
#include "emulator/check.h"
#include "emulator/memory_words.h"
#include "emulator/thread.h"

namespace sparkpilot::emulator {
namespace {

constexpr size_t kMostShared = 227 << 10;
constexpr size_t kGap = 64;  // so that a step beyond one array is not in the next

bool is_aligned(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

void perform(const Copy& copy) {
  if (Checker* const checker = current->block->checker) {
    if (copy.from_bytes) checker->access(*current, copy.from, copy.from_bytes, Access::read, {nullptr, copy.place});
    checker->access(*current, copy.to, copy.bytes, Access::write, {nullptr, copy.place});
  }
  std::memcpy(copy.to, copy.from, copy.from_bytes);
  std::memset(static_cast<std::byte*>(copy.to) + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
}

}  // namespace

std::byte* dynamic_shared() {
  Block& block = *current->block;
  if (block.pieces[0].bytes == 0) fail_thread("uses dynamic shared memory, but the launch asked for none");
  return block.shared_begin;
}

std::byte* static_shared(const void* key, size_t bytes) {
  Block& block = *current->block;
  for (const SharedPiece& piece : block.pieces) {
    if (piece.key == key) return block.shared_begin + piece.offset;
  }
  const size_t offset = (block.shared_used + kGap + 127) / 128 * 128;
  if (offset + bytes > kMostShared) fail_thread(fmt::format("needs more than {} bytes of shared memory", kMostShared));
  block.shared_used = offset + bytes;
  block.pieces.push_back({key, offset, bytes});
  return block.shared_begin + offset;
}

void copy_async(const Copy& copy) {
  const bool size_is_known = copy.bytes == 4 || copy.bytes == 8 || copy.bytes == 16;
  if (!size_is_known || copy.from_bytes > copy.bytes) fail_thread(fmt::format("cp.async of {} bytes", copy.bytes));
  if (!is_aligned(copy.to, copy.bytes) || (copy.from_bytes && !is_aligned(copy.from, copy.bytes))) {
    fail_thread(fmt::format("cp.async of an address that is no multiple of {} ({})", copy.bytes, text(copy.place)));
  }
  if (!current->block->late_copies) perform(copy);
  current->copies.push_back(copy);
}

void commit_copies() { current->groups.push_back(current->copies.size()); }

void wait_for_copies(size_t groups_left) {
  Thread& me = *current;
  if (me.groups.size() <= groups_left) return;
  const size_t done = me.groups.size() - groups_left, end = me.groups[done - 1];
  if (me.block->late_copies) {
    for (size_t i = 0; i < end; ++i) perform(me.copies[i]);
  }
  me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(end));
  me.groups.erase(me.groups.begin(), me.groups.begin() + static_cast<std::ptrdiff_t>(done));
  for (size_t& group : me.groups) group -= end;
}

void wide_access(const void* address, size_t bytes, Access kind, Place place) {
  if (!is_aligned(address, bytes)) {
    fail_thread(fmt::format("loads or stores {} bytes at a place that is no multiple of it ({})", bytes, text(place)));
  }
  if (Checker* const checker = current->block->checker)
    checker->access(*current, address, bytes, kind, {nullptr, place});
}

void copy_bytes(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace sparkpilot::emulator
