// A private temporary folder that is removed with the object.
#pragma once

#include <filesystem>

namespace sparkpilot {

class ScratchFolder {
 public:
  // Makes it where the system keeps temporary files ($TMPDIR), for this user only. Fails (user) with the reason.
  ScratchFolder();
  // Removes it with all that is in it.
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sparkpilot
