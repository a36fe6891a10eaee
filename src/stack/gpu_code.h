// Counts of the GPU code in one library, sufficient to judge it for any GPU later.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/elf.h"
#include "stack/fatbin.h"

namespace sparkpilot::stack {

// Images of one kind for one architecture in one section.
struct CodeGroup {
  std::string section;
  CodeTarget target;
  bool bare = false;  // machine code outside containers
  int64_t images = 0, compressed = 0, bytes = 0, unpacked_bytes = 0;
};

// Containers that hold images for exactly these targets. A container is one piece of code in several versions, of which
// the driver takes the one that suits the GPU, so a library is judged by its containers.
struct CodeMix {
  std::vector<CodeTarget> targets;  // sorted, each once
  int64_t containers = 0;
};

struct GpuCode {
  std::vector<CodeGroup> groups;  // by section, then target
  std::vector<CodeMix> mixes;
  int64_t damaged = 0;               // containers
  int ptx_major = 0, ptx_minor = 0;  // the newest version of the PTX language; 0 without PTX
  bool empty() const { return groups.empty(); }
};

// Searches all of the file's data. Fails (user) if it cannot be read.
GpuCode find_gpu_code(const Source& source, const Elf& elf);

// The targets that a compiler (ptxas, NVRTC, nvJitLink, nvcc) supports, from the names in its constants, sorted.
std::vector<CodeTarget> find_compiler_targets(const Source& source, const Elf& elf);

}  // namespace sparkpilot::stack
