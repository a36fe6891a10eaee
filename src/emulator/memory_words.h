// Loads and stores of 8 and 16 bytes, which compilers for the processor would split.
#pragma once

#include <cstring>

#include "emulator/check.h"
#include "emulator/thread.h"

namespace sparkpilot::emulator {

// Fails unless `address` is a multiple of `bytes`; tells the checker.
void wide_access(const void* address, size_t bytes, Access kind, Place place);

// The copies are calls, so that a checked kernel does not report their pieces again.
void copy_bytes(void* to, const void* from, size_t bytes);

template <typename T>
T load(const void* from, Place place) {
  T out;
  wide_access(from, sizeof out, Access::read, place);
  copy_bytes(&out, from, sizeof out);
  return out;
}

template <typename T>
void store(void* to, const T& value, Place place) {
  wide_access(to, sizeof value, Access::write, place);
  copy_bytes(to, &value, sizeof value);
}

}  // namespace sparkpilot::emulator
