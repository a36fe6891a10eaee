#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace sparkpilot {
namespace fs = std::filesystem;
namespace {

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The process that held the lock may have removed the file after we opened it and before we locked it.
bool still_there(int fd, const fs::path& file) {
  struct stat ours {
  }, there{};
  return ::fstat(fd, &ours) == 0 && ::lstat(file.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

}  // namespace

FolderLock::FolderLock(fs::path folder, const std::string& name) : folder_(std::move(folder)), file_(folder_ / name) {
  std::error_code ignored;
  for (fs::path at = folder_; !at.empty() && !fs::exists(at, ignored); at = at.parent_path()) made_.push_back(at);
  while (!open_and_lock()) {
  }
}

// False if the file was removed meanwhile.
bool FolderLock::open_and_lock() {
  make_folders(folder_);
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0 && errno == ENOENT) return false;
  if (fd_ < 0) fail("{}: cannot write: {}", file_.string(), std::strerror(errno));
  struct flock lock = whole_file();
  if (::fcntl(fd_, F_SETLK, &lock) == 0) {
    held_ = still_there(fd_, file_);
    if (!held_) ::close(fd_);
    return held_;
  }
  if (errno != EACCES && errno != EAGAIN) return true;  // the file system has no locks
  lock = whole_file();
  const bool told = ::fcntl(fd_, F_GETLK, &lock) == 0;
  ::close(fd_);
  if (told && lock.l_type == F_UNLCK) return false;
  // A process of another container or machine has no id in this one.
  const std::string holder = told && lock.l_pid > 0 ? fmt::format("process {}", lock.l_pid) : "another process";
  fail("{}: {} is writing into this folder: wait until it ends, or choose another folder", folder_.string(), holder);
}

FolderLock::~FolderLock() {
  if (held_) ::unlink(file_.c_str());
  ::close(fd_);
  for (const fs::path& folder : made_) {
    if (::rmdir(folder.c_str()) != 0) break;
  }
}

}  // namespace sparkpilot
