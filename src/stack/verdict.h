// How well a library suits one GPU.
#pragma once

#include <string>
#include <string_view>

#include "stack/library.h"

namespace sparkpilot::stack {

enum class Standing {
  native,    // machine code made for this very GPU
  family,    // machine code for its family, or for an older GPU of the same major version
  jit,       // only PTX: compiled by the driver at first use
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
  int64_t native = 0, family = 0, jit = 0, none = 0;  // containers, by the best code in each
  int64_t jit_bytes = 0;                              // PTX that would be compiled
  std::string cost;                                   // one sentence; empty if it costs nothing
};

// `machine` is the processor that the library has to load on, empty if unknown. Machine code takes precedence over PTX;
// of native and family-compatible code the kind in more containers decides.
Verdict judge(const Library& library, ComputeCapability gpu, std::string_view machine);

}  // namespace sparkpilot::stack
