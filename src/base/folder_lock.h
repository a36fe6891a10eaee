// A folder that one process at a time writes into.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sparkpilot {

// Holds a folder until it is destroyed or the process ends, however it ends: the lock is the system's, on a file in the
// folder, so a file that a killed process left there keeps nobody out. Of one process only one object may be for a
// folder at a time: the system grants a process what it already holds.
class FolderLock {
 public:
  // Makes the folder where it is missing. Fails (user) with the process id of the holder where another process has the
  // folder, and where the file cannot be made.
  explicit FolderLock(std::filesystem::path folder, const std::string& name = ".sparkpilot.lock");
  // Removes the file, and of the folders that it made those that are empty.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // False where the file system has no locks: nothing keeps another process out then.
  bool held() const { return held_; }

 private:
  bool open_and_lock();

  std::filesystem::path folder_, file_;
  std::vector<std::filesystem::path> made_;  // the innermost first
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace sparkpilot
