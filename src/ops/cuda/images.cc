#include "ops/cuda/images.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace sparkpilot::cuda {
namespace {

// All others are compiled as for 8.0, without what is newer (cmake/cuda.cmake).
constexpr bool is_for_each_architecture(std::string_view source) {
  return source == "e4m3_conv" || source == "e4m3_gemm" || source == "nvfp4_gemm";
}
#define SPARKPILOT_KERNEL(name, Arguments, capability)                                    \
  static_assert((capability) <= 80 || is_for_each_architecture(SPARKPILOT_KERNEL_SOURCE), \
                #name " needs a source that is compiled for each architecture, as words.cu is");
#include "ops/cuda/kernels.inc"
#undef SPARKPILOT_KERNEL

struct Entry {
  std::string_view source;
  int capability;
};
const std::map<std::string_view, Entry>& entries() {
  static const std::map<std::string_view, Entry> table = {
#define SPARKPILOT_KERNEL(name, Arguments, capability) {#name, {SPARKPILOT_KERNEL_SOURCE, capability}},
#include "ops/cuda/kernels.inc"
#undef SPARKPILOT_KERNEL
#define SPARKPILOT_WORD(name, in, out, capability, last_places) {"word_" #name, {"words", capability}},
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD
  };
  return table;
}

// Whether the driver compiled it: no image is for that architecture.
bool is_from_ptx(const GpuFunction& kernel) {
  return std::ranges::count(image_targets(), fmt::format("sm_{}", kernel.binary)) == 0;
}

}  // namespace

std::string image_of(const GpuFunction& kernel) {
  const std::string machine_code = fmt::format("sm_{}", kernel.binary);
  if (!is_from_ptx(kernel)) return machine_code;
  return fmt::format("{}, compiled from compute_{} by the driver", machine_code, kernel.ptx);
}

const GpuFunction& kernel_on(GpuDevice& gpu, std::string_view name, int64_t dynamic_shared) {
  const auto entry = entries().find(name);
  if (entry == entries().end()) fail_internal("there is no CUDA kernel {}", name);
  if (images().empty()) {
    throw Error(ErrorKind::device, "this program was built without nvcc and holds no GPU code (docs/cuda.md)");
  }
  if (gpu.facts().capability < entry->second.capability) {
    throw Error(ErrorKind::device, fmt::format("{}: kernel {} needs compute capability {}.{}", gpu.facts().name, name,
                                               entry->second.capability / 10, entry->second.capability % 10));
  }
  const auto image =
      std::find_if(images().begin(), images().end(), [&](const Image& i) { return i.source == entry->second.source; });
  if (image == images().end()) fail_internal("no image of {}.cu", entry->second.source);
  return gpu.function(image->begin, std::string(name), dynamic_shared, is_from_ptx);
}

}  // namespace sparkpilot::cuda
