#include "hw/gpu_driver.h"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace sparkpilot {
namespace {

using Names = std::pair<int, const char*>;

constexpr std::array<Names, 21> kNvmlErrors = {{
    {1, "NVML_ERROR_UNINITIALIZED"},
    {2, "NVML_ERROR_INVALID_ARGUMENT"},
    {3, "NVML_ERROR_NOT_SUPPORTED"},
    {4, "NVML_ERROR_NO_PERMISSION"},
    {6, "NVML_ERROR_NOT_FOUND"},
    {7, "NVML_ERROR_INSUFFICIENT_SIZE"},
    {8, "NVML_ERROR_INSUFFICIENT_POWER"},
    {9, "NVML_ERROR_DRIVER_NOT_LOADED"},
    {10, "NVML_ERROR_TIMEOUT"},
    {11, "NVML_ERROR_IRQ_ISSUE"},
    {12, "NVML_ERROR_LIBRARY_NOT_FOUND"},
    {13, "NVML_ERROR_FUNCTION_NOT_FOUND"},
    {14, "NVML_ERROR_CORRUPTED_INFOROM"},
    {15, "NVML_ERROR_GPU_IS_LOST"},
    {16, "NVML_ERROR_RESET_REQUIRED"},
    {17, "NVML_ERROR_OPERATING_SYSTEM"},
    {18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"},
    {19, "NVML_ERROR_IN_USE"},
    {20, "NVML_ERROR_MEMORY"},
    {21, "NVML_ERROR_NO_DATA"},
    {999, "NVML_ERROR_UNKNOWN"},
}};
constexpr std::array<Names, 32> kCudaErrors = {{
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {218, "CUDA_ERROR_INVALID_PTX"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {999, "CUDA_ERROR_UNKNOWN"},
}};

template <size_t N>
std::string name_of(const std::array<Names, N>& names, const char* library, int error) {
  for (const auto& [number, name] : names) {
    if (number == error) return name;
  }
  return fmt::format("{} error {}", library, error);
}

const Answer* find(const Answers& answers, std::string_view question) {
  const auto found = answers.find(question);
  return found == answers.end() ? nullptr : &found->second;
}

}  // namespace

std::optional<int64_t> integer(const Answers& answers, std::string_view question) {
  const Answer* answer = find(answers, question);
  const int64_t* value = answer ? std::get_if<int64_t>(&answer->value) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<std::string> text(const Answers& answers, std::string_view question) {
  const Answer* answer = find(answers, question);
  const std::string* value = answer ? std::get_if<std::string>(&answer->value) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

int error_of(const Answers& answers, std::string_view question) {
  const Answer* answer = find(answers, question);
  return answer ? answer->error : 0;
}

std::string nvml_error_name(int error) { return name_of(kNvmlErrors, "NVML", error); }
std::vector<std::string> nvml_libraries() { return {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"}; }
std::vector<std::string> cuda_libraries() { return {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}; }

std::string cuda_error_name(int error) { return name_of(kCudaErrors, "CUDA", error); }

}  // namespace sparkpilot
