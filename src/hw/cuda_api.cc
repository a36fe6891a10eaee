#include "hw/cuda_api.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "base/error.h"
#include "hw/gpu_driver.h"

namespace sparkpilot::cuda {
namespace {

struct Loaded {
  CudaApi api;
  std::string why_not;
};

Loaded load() {
  Loaded out;
  void* library = nullptr;
  std::string problem;
  for (const std::string& name : cuda_libraries()) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    if (problem.empty()) problem = dlerror();
  }
  if (!library) {
    out.why_not = fmt::format("libcuda cannot be loaded: {}", problem);
    return out;
  }
  const char* missing = nullptr;
#define SPARKPILOT_FIND(name, parameters)                                         \
  out.api.name = reinterpret_cast<decltype(out.api.name)>(dlsym(library, #name)); \
  if (!out.api.name) missing = #name;
  SPARKPILOT_CUDA_FUNCTIONS(SPARKPILOT_FIND)
#undef SPARKPILOT_FIND
  if (missing) {
    out.why_not = fmt::format("libcuda has no {}: the driver is too old (CUDA 12.0 or newer is needed)", missing);
  } else if (const int error = out.api.cuInit(0); error != kSuccess) {
    out.why_not = fmt::format("libcuda does not start: {}", cuda_error_name(error));
  }
  return out;
}

}  // namespace

const CudaApi* cuda_api(std::string& why_not) {
  static const Loaded loaded = load();  // never closed: a driver does not support that
  why_not = loaded.why_not;
  return why_not.empty() ? &loaded.api : nullptr;
}

void fail_cuda(const char* call, int error) {
  throw Error(ErrorKind::device, fmt::format("{}: {}", call, cuda_error_name(error)));
}

}  // namespace sparkpilot::cuda
