// Any bytes as a .npy file: an array or an Error, never anything else.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "tensor/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    sparkpilot::parse_npy({reinterpret_cast<const std::byte*>(data), size}, "fuzz.npy");
  } catch (const sparkpilot::Error&) {
  }
  return 0;
}
