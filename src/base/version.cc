#include "base/version.h"

namespace sparkpilot {

std::string_view program_version() { return SPARKPILOT_VERSION; }

std::string_view compiler_version() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace sparkpilot
