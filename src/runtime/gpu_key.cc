#include "runtime/gpu_key.h"

#include <fmt/core.h>

#include "ops/cuda/images.h"
#include "runtime/tuning_file.h"

namespace sparkpilot {
namespace {

// All of this program's GPU code.
std::string code_key() {
  std::string code;
  const Graph none;
  for (const cuda::Image& image : cuda::images()) {
    code += content_key(none, {},
                        {reinterpret_cast<const char*>(image.begin), static_cast<size_t>(image.end - image.begin)});
  }
  return content_key(none, {}, code);
}

}  // namespace

std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (text.size() > 300) text.resize(300);
  return text;
}

std::string gpu_key(const GpuFacts& gpu) {
  static const std::string code = code_key();
  return fmt::format("{}, {}.{}, CUDA {}.{}, {}, {}", shortened(gpu.name), gpu.capability / 10, gpu.capability % 10,
                     gpu.driver / 1000, gpu.driver % 1000 / 10, SPARKPILOT_VERSION, code);
}

}  // namespace sparkpilot
