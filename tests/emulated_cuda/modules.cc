// Fat binaries and kernels.
#include <cstring>
#include <optional>

#include "emulated_cuda/driver.h"
#include "ops/cuda/kernel_arguments.h"
#include "stack/fatbin.h"

#define SPARKPILOT_KERNEL(name, Arguments, capability) extern "C" void name(sparkpilot::cuda::Arguments);
#include "ops/cuda/kernels.inc"
#undef SPARKPILOT_KERNEL
#define SPARKPILOT_WORD(name, in, out, capability, last_places) \
  extern "C" void word_##name(sparkpilot::cuda::WordArguments);
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD

namespace emulated_cuda {
namespace {

template <typename Arguments, void (*kKernel)(Arguments)>
Kernel kernel() {
  return {[](const sparkpilot::emulator::LaunchShape& shape, const sparkpilot::emulator::Schedule& schedule,
             const void* arguments) {
            sparkpilot::emulator::launch(shape, schedule, kKernel, *static_cast<const Arguments*>(arguments));
          },
          sizeof(Arguments)};
}

}  // namespace

const std::map<std::string, Kernel>& kernels() {
  using namespace sparkpilot::cuda;
  static const std::map<std::string, Kernel> table = {
#define SPARKPILOT_KERNEL(name, Arguments, capability) {#name, kernel<Arguments, ::name>()},
#include "ops/cuda/kernels.inc"
#undef SPARKPILOT_KERNEL
#define SPARKPILOT_WORD(name, in, out, capability, last_places) {"word_" #name, kernel<WordArguments, ::word_##name>()},
#include "ops/cuda/words.inc"
#undef SPARKPILOT_WORD
  };
  return table;
}

// The best machine code that runs there, else PTX: stack::fit knows the rules.
int choose_image(const void* fat_binary, const GpuKind& gpu, std::string& image) {
  namespace stack = sparkpilot::stack;
  uint32_t magic = 0;
  uint64_t bytes = 0;  // behind the header of 16
  std::memcpy(&magic, fat_binary, 4);
  if (magic != 0xba55ed50) return sparkpilot::cuda::kInvalidImage;
  std::memcpy(&bytes, static_cast<const char*>(fat_binary) + 8, 8);
  const stack::MemorySource source({static_cast<const std::byte*>(fat_binary), 16 + bytes});
  const sparkpilot::ComputeCapability capability{gpu.major, gpu.minor};
  std::optional<stack::CodeTarget> best;
  stack::Fit best_fit = stack::Fit::none;
  stack::find_fatbins(source, 0, source.size(), [&](const stack::Fatbin& found) {
    for (const stack::FatbinImage& candidate : found.images) {
      const stack::Fit fit = stack::fit(candidate.target, capability);
      if (fit > best_fit || (fit == best_fit && fit != stack::Fit::none && candidate.target.number > best->number)) {
        best_fit = fit;
        best = candidate.target;
      }
    }
  });
  if (!best) return sparkpilot::cuda::kNoBinaryForGpu;
  image = best->str();
  return sparkpilot::cuda::kSuccess;
}

}  // namespace emulated_cuda
