// Which GPU code runs on which GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "sparkpilot/machine.h"

namespace sparkpilot::stack {

std::string text_of(ComputeCapability capability);  // "12.1"

enum class CodeKind {
  sass,  // machine code
  ptx,   // assembly that the driver compiles
  lto,   // what nvJitLink makes code of
  other,
};

// What a piece of GPU code was made for.
struct CodeTarget {
  CodeKind kind = CodeKind::other;
  int number = 0;      // 121 for compute capability 12.1
  char suffix = '\0';  // 'a': this architecture only; 'f': its family
  bool operator==(const CodeTarget&) const = default;
  bool operator<(const CodeTarget& other) const {
    return std::tie(kind, number, suffix) < std::tie(other.kind, other.number, other.suffix);
  }
  std::string str() const;  // "sm_121a", "compute_120", "lto_75"
};
// What str() wrote; empty for anything else.
std::optional<CodeTarget> parse_target(std::string_view text);

// How code serves a GPU, from not at all to best.
enum class Fit { none, jit, family, native };

// The general rules of CUDA: machine code runs on the same major version with a minor not below its own; `a` on exactly
// its own; `f` within its family. PTX is compiled for anything not below it; with `a` and `f` as above. LTO code is no
// program.
Fit fit(const CodeTarget& code, ComputeCapability gpu);

// A GPU that was named, and the processor beside it where there is but one.
struct NamedGpu {
  std::string name;
  ComputeCapability capability;
  std::string machine;  // "aarch64" for GB10; empty where there are several
};
// "gb10", "H200", "RTX 5090", "sm_121", "12.1"; fails (user) naming those that it knows.
NamedGpu parse_gpu(std::string_view text);

}  // namespace sparkpilot::stack
