#include "config/tool_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace sparkpilot {
namespace {

// The N of "cuda:N".
std::optional<int> index_of(std::string_view device) {
  if (!device.starts_with("cuda:")) return std::nullopt;
  int index = 0;
  std::from_chars(device.data() + 5, device.data() + device.size(), index);
  return index;
}

// Element `index` of a comma-separated list; empty if it has fewer.
std::string part(std::string_view list, int index) {
  for (; index > 0; --index) {
    const size_t comma = list.find(',');
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
  return std::string(list.substr(0, list.find(',')));
}

bool has(const DeviceFacts& facts, int gpu) {
  return std::find(facts.gpus.begin(), facts.gpus.end(), gpu) != facts.gpus.end();
}

std::string quoted(std::string_view text, Shell shell) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += shell == Shell::bash ? "'\\''" : "\\'";
    else if (c == '\\' && shell == Shell::fish) out += "\\\\";
    else out += c;
  }
  return out + "'";
}

}  // namespace

std::string chosen_device(std::string_view device, const DeviceFacts& facts) {
  if (device == "cpu" || facts.gpus.empty()) return "cpu";
  const std::optional<int> index = index_of(device);
  return fmt::format("cuda:{}", index && has(facts, *index) ? *index : facts.best_gpu);
}

std::string device_missing(std::string_view device, const DeviceFacts& facts) {
  if (!device.starts_with("cuda")) return {};
  if (facts.gpus.empty()) return "no usable NVIDIA GPU" + (facts.problem.empty() ? "" : " (" + facts.problem + ")");
  const std::optional<int> index = index_of(device);
  if (!index || has(facts, *index)) return {};
  return fmt::format("no such usable NVIDIA GPU; there is cuda:{}", fmt::join(facts.gpus, ", cuda:"));
}

std::vector<ToolVariable> tool_environment(std::string_view device, const DeviceFacts& facts,
                                           const std::optional<std::string>& visible,
                                           const std::optional<std::string>& order) {
  const std::optional<int> gpu = index_of(chosen_device(device, facts));
  const std::string_view tool = gpu ? "CUDA" : facts.comma_device && device != "cpu" ? "QCOM" : "CPU";
  std::vector<ToolVariable> out{{"DEV", std::string(tool)}};
  for (const std::string_view each : {"CUDA", "CPU", "QCOM"}) {
    if (each != "QCOM" || facts.comma_device) out.push_back({std::string(each), each == tool ? "1" : "0"});
  }
  if (gpu) {
    const std::string named = visible ? part(*visible, *gpu) : "";
    out.push_back({"CUDA_VISIBLE_DEVICES", named.empty() ? std::to_string(*gpu) : named});
    if (order) out.push_back({"CUDA_DEVICE_ORDER", *order});
  } else if (!facts.gpus.empty() || facts.older_gpu) {
    out.push_back({"CUDA_VISIBLE_DEVICES", "-1"});
  }
  // The only GPU that stays visible becomes the first. SPARKPILOT_DEVICE takes precedence over CUDA, which is for the
  // tools.
  out.push_back({"SPARKPILOT_DEVICE", gpu && index_of(device) ? "cuda:0" : std::string(device)});
  return out;
}

std::string shell_lines(const std::vector<ToolVariable>& variables, Shell shell) {
  std::string out;
  for (const ToolVariable& variable : variables) {
    const std::string value = quoted(variable.value, shell);
    out += shell == Shell::bash ? fmt::format("export {}={}\n", variable.name, value)
                                : fmt::format("set -gx {} {}\n", variable.name, value);
  }
  return out;
}

}  // namespace sparkpilot
