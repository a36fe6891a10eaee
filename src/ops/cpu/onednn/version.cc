#include "ops/cpu/onednn/version.h"

#include <fmt/core.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace sparkpilot {

std::string onednn_version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace sparkpilot
