// What ran, and how long it took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sparkpilot {

// A kernel that would have come first and did not take the node.
struct DeclinedKernel {
  std::string kernel = {}, reason = {};
};

struct NodeProfile {
  std::string name = {}, op = {}, kernel = {};
  std::vector<DeclinedKernel> declined = {};  // kernels that come before it
  std::string shape = {};                     // of the first output
  int64_t calls = 0;
  int64_t total_ns = 0;
  double flops = 0;         // one call; a multiply-add is two
  double bytes = 0;         // one call: every operand and result once
  double weight_bytes = 0;  // of which constants
  // Share of the machine's measured limit that the node reached: the time that its FLOPs or its bytes need at the
  // measured peak (whichever is longer), over the time it took. Weights come from memory where the model's do not fit
  // the last-level cache; activations from cache.
  double roofline_share = 0;
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
