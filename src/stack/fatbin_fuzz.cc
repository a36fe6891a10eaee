// Any bytes as data with fat binaries: containers that lie within it, one after the other; never anything else.
#include <cstddef>
#include <cstdint>

#include "stack/fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sparkpilot::stack::Fatbin, sparkpilot::stack::FatbinImage, sparkpilot::stack::MemorySource;
  const MemorySource source({reinterpret_cast<const std::byte*>(data), size});
  uint64_t next = 0;
  find_fatbins(source, 0, size, [&](const Fatbin& fatbin) {
    if (fatbin.offset < next || fatbin.offset >= size) __builtin_trap();
    next = fatbin.offset + 8;
    for (const FatbinImage& image : fatbin.images) {
      if (image.bytes > size) __builtin_trap();
    }
  });
  return 0;
}
