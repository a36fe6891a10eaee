// Fat binaries: containers in a library's data that hold the same GPU code for several architectures. docs/stack.md has
// their layout as it was measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stack/gpu.h"
#include "stack/source.h"

namespace sparkpilot::stack {

struct FatbinImage {
  CodeTarget target;
  bool compressed = false;
  uint64_t bytes = 0;                // as it lies in the file
  uint64_t unpacked_bytes = 0;       // as the driver gets it
  int ptx_major = 0, ptx_minor = 0;  // the version of the PTX language; 0 for other code
};

struct Fatbin {
  uint64_t offset = 0;
  bool bare = false;     // machine code that lies there without a container
  bool damaged = false;  // ends too early, or an image in it does
  std::vector<FatbinImage> images;
};

// Calls `found` for every container and every bare image between `begin` and `end`, in order. Only positions that are
// multiples of 8 are looked at: nothing else is ever written. Within a container headers alone are read. Every byte is
// looked at a bounded number of times, whatever the containers claim. Fails (user) where the source cannot be read.
void find_fatbins(const Source& source, uint64_t begin, uint64_t end, const std::function<void(const Fatbin&)>& found);

}  // namespace sparkpilot::stack
