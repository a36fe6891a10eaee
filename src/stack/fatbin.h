// Fat binaries: containers in a library's data that hold the same GPU code for several architectures. docs/stack.md
// describes the layout.
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
  uint64_t bytes = 0;                // in the file
  uint64_t unpacked_bytes = 0;       // for the driver
  int ptx_major = 0, ptx_minor = 0;  // the version of the PTX language; 0 for other code
};

struct Fatbin {
  uint64_t offset = 0;
  bool bare = false;     // machine code without a container
  bool damaged = false;  // it or an image in it ends too early
  std::vector<FatbinImage> images;
};

// Calls `found` for every container and every bare image between `begin` and `end`, in order. Only positions that are
// multiples of 8 are examined: containers are never anywhere else. Within a container only headers are read. Every byte
// is read a bounded number of times, whatever the containers claim. Fails (user) if the source cannot be read.
void find_fatbins(const Source& source, uint64_t begin, uint64_t end, const std::function<void(const Fatbin&)>& found);

}  // namespace sparkpilot::stack
