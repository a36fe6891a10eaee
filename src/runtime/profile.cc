#include "runtime/profile.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sparkpilot {

std::string chrome_trace(const Profile& profile, const std::string& process) {
  using nlohmann::json;
  json events = json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", process}}}});
  const int64_t start = profile.events.empty() ? 0 : profile.events.front().begin_ns;
  for (const TraceEvent& event : profile.events) {
    const NodeProfile& node = profile.nodes[static_cast<size_t>(event.node)];
    std::string kernels = node.kernel;
    for (const LaunchProfile& launch : node.launches) kernels += " " + launch.kernel;
    events.push_back({{"name", node.name},
                      {"cat", node.op},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", static_cast<double>(event.begin_ns - start) * 1e-3},
                      {"dur", static_cast<double>(event.end_ns - event.begin_ns) * 1e-3},
                      {"args",
                       {{"op", node.op},
                        {"kernel", kernels},
                        {"shape", node.shape},
                        {"flops", node.flops},
                        {"bytes", node.bytes}}}});
  }
  return json_text(json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}});
}

}  // namespace sparkpilot
