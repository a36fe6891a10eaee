#include "base/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.h"

namespace sparkpilot {

ScratchFolder::ScratchFolder() {
  std::error_code none;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(none);
  if (none) fail("no folder for temporary files (TMPDIR): {}", none.message());
  std::string name = (parent / "sparkpilot_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail("{}: cannot make a temporary folder: {}", parent.string(), std::strerror(errno));
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sparkpilot
