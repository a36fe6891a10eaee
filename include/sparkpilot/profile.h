// The nodes that ran, and how long they took.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sparkpilot/tensor.h"

namespace sparkpilot {

// A kernel that comes before the chosen one and did not accept the node.
struct DeclinedKernel {
  std::string kernel = {}, reason = {};
};

// What decided between the kernels of a node.
enum class ChosenBy : uint8_t {
  rules,     // the op's own rules of shape, or only one accepts
  asked,     // SessionOptions::kernels
  measured,  // times that were taken on this machine, now or earlier
  restored,  // SessionOptions::choices
};
// "rules", "asked", "measured", "restored".
std::string_view name(ChosenBy by);

// Which kernel nodes of one kind run. Two nodes are of one kind where op, types, attributes, constness of the inputs
// and number of threads are the same; on a GPU, its name instead of the threads. Or, with a graph instead of a node:
// how many entries of its batch run at a time.
struct KernelDecision {
  std::string node = {};  // all that in one line of printable ASCII
  // Or the number of entries. On a GPU with how it is launched: "tiles 64x64 in 4 parts".
  std::string kernel = {};
  ChosenBy by = ChosenBy::rules;
  std::string note = {};  // why a kernel that was to be restored is not taken; else empty
};

// A kernel that a node launched on a GPU. Its name holds its type and, of some, its tile: "conv_64x64_f16".
struct LaunchProfile {
  std::string kernel = {};
  int64_t blocks = 0, shared_bytes = 0;
  int threads = 0, registers = 0;  // of a block; of a thread
};

struct NodeProfile {
  std::string name = {}, op = {}, kernel = {};
  ChosenBy chosen_by = ChosenBy::rules;
  std::string kind = {};                      // KernelDecision::node; empty if the op has one kernel
  std::vector<DeclinedKernel> declined = {};  // the kernels before it
  std::string shape = {};                     // of the first output
  int64_t calls = 0;
  int64_t total_ns = 0;
  double flops = 0;  // one call; a multiply-add is two
  double bytes = 0;  // one call: every operand and result once; if an op only selects from an operand, the selection
  double weight_bytes = 0;  // constants' share of `bytes`
  // The part of `flops` and `weight_bytes` that every kernel has to take: without windows over padding and masked keys.
  double needed = 1;
  // The type of its products, which decides which of the processor's units they can use: i8, bf16 or f32.
  DType products = DType::f32;
  std::vector<LaunchProfile> launches = {};  // of a call on a GPU
  double slices = 1;                         // equal parts that a call was run in, each by one thread
  // Share of the machine's measured limit that the node reached: the least time that its FLOPs or its bytes need
  // (whichever is longer), divided by the time it took. The limit is a unit of the processor ("avx512_bf16") or the
  // level that the bytes come from ("L2", "memory"). Both are empty until `sparkpilot bench` measures them.
  double roofline_share = 0;
  std::string roofline_limit = {};
  double mean_ns() const { return calls ? static_cast<double>(total_ns) / static_cast<double>(calls) : 0; }
};

// One executed node, for a trace.
struct TraceEvent {
  int node = 0;  // index into the profile
  int64_t begin_ns = 0, end_ns = 0;
};

struct Profile {
  std::vector<NodeProfile> nodes = {};  // in execution order; nodes of later plan segments follow
  std::vector<TraceEvent> events = {};  // only while tracing is on
};

}  // namespace sparkpilot
