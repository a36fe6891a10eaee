// Loads and stores of 8 and 16 bytes, which compilers for the processor would split.
#pragma once

#include <cstring>

#include "emulator/check.h"
#include "emulator/thread.h"

namespace sparkpilot::emulator {

// Fails unless `address` is a multiple of `bytes`; tells the checker.
void wide_access(const void* address, size_t bytes, Access kind, Place place);

// As calls, so that a checked kernel does not report their pieces again.
void copy_bytes(void* to, const void* from, size_t bytes);

inline void before_access(const void* address, size_t bytes, Access kind, Place place) {
#ifndef __SANITIZE_THREAD__
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0 && !current->block->checker) return;  // nothing to say
#endif
  wide_access(address, bytes, kind, place);
}
inline void copy(void* to, const void* from, size_t bytes) {
#ifdef __SANITIZE_THREAD__
  copy_bytes(to, from, bytes);
#else
  std::memcpy(to, from, bytes);
#endif
}

template <typename T>
T load(const void* from, Place place) {
  T out;
  before_access(from, sizeof out, Access::read, place);
  copy(&out, from, sizeof out);
  return out;
}

template <typename T>
void store(void* to, const T& value, Place place) {
  before_access(to, sizeof value, Access::write, place);
  copy(to, &value, sizeof value);
}

}  // namespace sparkpilot::emulator
