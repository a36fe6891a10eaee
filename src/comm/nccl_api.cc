#include "comm/nccl_api.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "base/error.h"

namespace sparkpilot::nccl {

NcclApi load_nccl(const std::string& library) {
  const auto give_up = [](const std::string& text) { throw Error(ErrorKind::device, text); };
  // Never closed: its threads may outlive a communicator.
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded) give_up(fmt::format("NCCL cannot be loaded: {}", dlerror()));
  NcclApi api;
  const char* missing = nullptr;
#define SPARKPILOT_FIND(type, name, parameters)                          \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(loaded, #name)); \
  if (!api.name) missing = #name;
  SPARKPILOT_NCCL_FUNCTIONS(SPARKPILOT_FIND)
#undef SPARKPILOT_FIND
  const std::string needed = version_text(kLeastVersion) + " or newer is needed";
  if (missing) give_up(fmt::format("{} has no {}: {}", library, missing, needed));
  if (const int error = api.ncclGetVersion(&api.version); error != kSuccess) {
    give_up(fmt::format("ncclGetVersion: {}", api.ncclGetErrorString(error)));
  }
  if (api.version < kLeastVersion)
    give_up(fmt::format("{} is NCCL {}: {}", library, version_text(api.version), needed));
  return api;
}

const NcclApi& nccl_api() {
  static const NcclApi api = load_nccl("libnccl.so.2");
  return api;
}

std::string version_text(int version) {
  const int major = version < 10000 ? 1000 : 10000;  // until 2.8 the minor version has one digit
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

}  // namespace sparkpilot::nccl
