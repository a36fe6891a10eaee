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
  lto,   // input from which nvJitLink makes code
  other,
};

// The target of a piece of GPU code.
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
// Parses the result of str(); empty for anything else.
std::optional<CodeTarget> parse_target(std::string_view text);

// How well code suits a GPU, from not at all to best.
enum class Fit { none, jit, family, native };

// The general rules of CUDA: machine code runs on the same major version with a minor not below its own; `a` only on
// exactly its own; `f` within its family. PTX is compiled for anything not below it; with `a` and `f` as above. LTO
// code does not run by itself.
Fit fit(const CodeTarget& code, ComputeCapability gpu);

// A named GPU, and its machine's processor if there is only one kind.
struct NamedGpu {
  std::string name;
  ComputeCapability capability;
  std::string machine;  // "aarch64" for GB10; empty if there are several
};
// "gb10", "H200", "RTX 5090", "sm_121", "12.1"; fails (user) with the known names.
NamedGpu parse_gpu(std::string_view text);

}  // namespace sparkpilot::stack
