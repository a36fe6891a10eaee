// What sparkpilot::ElementwiseChain may hold: the pass that makes it, the op and its kernels keep to it.
//
// A value x begins as the node's first input, and each step changes it. A step is a text, an op and what it reads, with
// colons between: "Relu", "Mul:1" (x * input 1), "Sub:2:reversed" (input 2 - x), "Keep" (x is kept, too), "Load:3" (x
// becomes input 3), "Add:kept" (x + what was kept), "Where:1:kept" (x ? input 1 : what was kept). A comparison is
// followed by the Where that reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sparkpilot {

constexpr size_t kMostChainInputs = 8, kMostChainSteps = 24;
constexpr int kMostChainRank = 6;  // that a pass makes: a GPU's kernels take it however operands broadcast

struct ChainStep {
  enum Kind : uint8_t { one, two, comparison, where, keep, load };
  static constexpr int kKept = -1;
  Kind kind = one;
  std::string_view op;        // the name of the ONNX op, which lives as long as the program; or "Keep", "Load"
  int first = 0, second = 0;  // inputs of the node that it reads, or kKept: `first` but for `one`, `second` by Where
  bool reversed = false;      // x is the second operand
};

// The step of an ONNX op in its default form, as far as chains have it: its kind and op are set. Null if they do not.
const ChainStep* chain_step(std::string_view op);
std::string to_text(const ChainStep& step);
// Fails (user) naming the text.
ChainStep parse_chain_step(std::string_view text);

}  // namespace sparkpilot
