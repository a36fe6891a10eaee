// The environment that makes openpilot's tools (tinygrad and whatever uses CUDA) run on the device of a setting.
//
// What they read, by version: tinygrad until 0.10 the variables CUDA=1 and CPU=1; 0.11 and 0.12 those or DEV=CUDA, and
// they stop if the two name different devices; since 0.13 only DEV. openpilot's build (2026) takes the GPU whenever
// CUDA shows one, whatever DEV says: only CUDA_VISIBLE_DEVICES prevents that.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/device_facts.h"

namespace sparkpilot {

// The device that a value of the setting `device` means on this machine: "cpu", or "cuda:N".
std::string chosen_device(std::string_view device, const DeviceFacts& facts);
// Why there is no such device on this machine; empty if there is.
std::string device_missing(std::string_view device, const DeviceFacts& facts);

struct ToolVariable {
  std::string name = {}, value = {};
  bool operator==(const ToolVariable&) const = default;
};

// `device`: a value of the setting. `visible`, `order`: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as they are set now,
// any bytes: GPUs are numbered among those that the one names, in the order that the other says. Applying the same
// choice again, in the resulting environment, changes nothing.
std::vector<ToolVariable> tool_environment(std::string_view device, const DeviceFacts& facts,
                                           const std::optional<std::string>& visible,
                                           const std::optional<std::string>& order);

enum class Shell { bash, fish };  // bash: any POSIX shell
// Lines for eval; any bytes are allowed and quoted.
std::string shell_lines(const std::vector<ToolVariable>& variables, Shell shell);

}  // namespace sparkpilot
