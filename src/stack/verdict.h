// What a library means for one GPU.
#pragma once

#include <string>
#include <string_view>

#include "stack/library.h"

namespace sparkpilot::stack {

enum class Standing {
  native,    // machine code made for this very GPU
  family,    // machine code of its family, or of an older one of the same major version
  jit,       // PTX alone: compiled by the driver when it is first used
  none,      // GPU code, none of which runs
  compiles,  // a compiler that can make code for it
  too_old,   // a compiler that cannot
  no_gpu_code,
  wrong_machine,  // for another processor: it does not load
  unreadable,
};
std::string_view name_of(Standing standing);  // "native", "wrong machine", ...

struct Verdict {
  Standing standing = Standing::no_gpu_code;
  int64_t native = 0, family = 0, jit = 0, none = 0;  // containers, each by the best that it holds
  int64_t jit_bytes = 0;                              // PTX that would be compiled
  std::string cost;                                   // one sentence; empty where it costs nothing
};

// `machine` is the processor that the library has to load on, empty where that is not known. Machine code goes before
// PTX, and of native and family-compatible code what more containers hold names the standing.
Verdict judge(const Library& library, ComputeCapability gpu, std::string_view machine);

}  // namespace sparkpilot::stack
