// The environment that makes openpilot's own tools compute where a setting says: tinygrad and whatever uses CUDA.
//
// What they read, by version: tinygrad until 0.10 the variables CUDA=1 and CPU=1; 0.11 and 0.12 those or DEV=CUDA, and
// they stop where the two name different devices; since 0.13 DEV alone. openpilot's own build (2026) takes the GPU
// wherever CUDA shows one, whatever DEV says: only CUDA_VISIBLE_DEVICES keeps it from that.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/driver.h"

namespace sparkpilot {

// What of the machine the choice depends on.
struct DeviceFacts {
  std::vector<int> gpus = {};  // NVIDIA GPUs that programs can compute on, as CUDA counts
  int best_gpu = 0;            // the fastest of them
  bool comma_device = false;   // openpilot's tools compute with QCOM there
  std::string problem = {};    // why libcuda shows no GPU; empty where it does, or where there is no libcuda
};
// libcuda shows what CUDA_VISIBLE_DEVICES names; without those that are closed to programs.
DeviceFacts device_facts(const DriverAnswers& cuda);

// The device that a value of the setting `device` means on this machine: "cpu", or "cuda:N".
std::string chosen_device(std::string_view device, const DeviceFacts& facts);
// Why there is no such device on this machine; empty where there is.
std::string device_missing(std::string_view device, const DeviceFacts& facts);

struct ToolVariable {
  std::string name = {}, value = {};
  bool operator==(const ToolVariable&) const = default;
};

// `device`: a value of the setting. `visible`: CUDA_VISIBLE_DEVICES as it is set now, any bytes: GPUs are counted among
// those it names. Taking the same choice again, in the environment that these make, changes nothing.
std::vector<ToolVariable> tool_environment(std::string_view device, const DeviceFacts& facts,
                                           const std::optional<std::string>& visible);

enum class Shell { bash, fish };  // bash: any shell of POSIX's
// Lines for eval; any bytes are quoted.
std::string shell_lines(const std::vector<ToolVariable>& variables, Shell shell);

}  // namespace sparkpilot
