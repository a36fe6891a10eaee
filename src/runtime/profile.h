// What each node of a session cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sparkpilot {

struct NodeProfile {
  std::string name, op, kernel;
  std::string shape;  // of the first output
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
  std::vector<NodeProfile> nodes;  // in execution order; nodes of later plan segments follow
  std::vector<TraceEvent> events;  // only while tracing is on
};

// Fills roofline_share from the limits of this machine for `threads` threads; returns the whole run's share.
double set_roofline(Profile& profile, int threads);

// Chrome's trace format (JSON object with `traceEvents`), which Perfetto's viewer reads too.
std::string chrome_trace(const Profile& profile, const std::string& process);

}  // namespace sparkpilot
