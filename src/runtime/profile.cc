#include "runtime/profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hw/peak.h"

namespace sparkpilot {

double set_roofline(Profile& profile, int threads) {
  const Peak peak = measured_peak(threads);
  double all_weights = 0, limit_sum = 0, time_sum = 0;
  for (const NodeProfile& node : profile.nodes) all_weights += node.weight_bytes;
  const bool in_memory = all_weights > static_cast<double>(last_level_cache_bytes());
  for (NodeProfile& node : profile.nodes) {
    const double weights = node.weight_bytes / (in_memory ? peak.bytes_per_second : peak.cached_bytes_per_second);
    const double activations = (node.bytes - node.weight_bytes) / peak.cached_bytes_per_second;
    const double limit_ns = std::max(node.flops / peak.flops_per_second, weights + activations) * 1e9;
    node.roofline_share = node.mean_ns() > 0 ? limit_ns / node.mean_ns() : 0;
    if (node.calls == 0) continue;
    limit_sum += limit_ns;
    time_sum += node.mean_ns();
  }
  return time_sum > 0 ? limit_sum / time_sum : 0;
}

std::string chrome_trace(const Profile& profile, const std::string& process) {
  using nlohmann::json;
  json events = json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", process}}}});
  const int64_t start = profile.events.empty() ? 0 : profile.events.front().begin_ns;
  for (const TraceEvent& event : profile.events) {
    const NodeProfile& node = profile.nodes[static_cast<size_t>(event.node)];
    events.push_back({{"name", node.name},
                      {"cat", node.op},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", static_cast<double>(event.begin_ns - start) * 1e-3},
                      {"dur", static_cast<double>(event.end_ns - event.begin_ns) * 1e-3},
                      {"args",
                       {{"op", node.op},
                        {"kernel", node.kernel},
                        {"shape", node.shape},
                        {"flops", node.flops},
                        {"bytes", node.bytes}}}});
  }
  return json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump(-1, ' ', false,
                                                                                  json::error_handler_t::replace);
}

}  // namespace sparkpilot
