// A folder that only one process at a time writes into.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sparkpilot {

// Holds a folder until it is destroyed or the process ends in any way: the lock is the system's, on a file in the
// folder, so a file left by a killed process blocks nobody. A process may have only one object per folder at a time:
// the system grants a process a lock that it already holds.
class FolderLock {
 public:
  // Makes the folder if it is missing. Fails (user) if another process holds the folder, with its process id, and if
  // the file cannot be made.
  explicit FolderLock(std::filesystem::path folder, const std::string& name = ".sparkpilot.lock");
  // Removes the file, and those folders that it made which are empty.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // False if the file system has no locks: other processes are then not kept out.
  bool held() const { return held_; }

 private:
  bool open_and_lock();

  std::filesystem::path folder_, file_;
  std::vector<std::filesystem::path> made_;  // the innermost first
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace sparkpilot
