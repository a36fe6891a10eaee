#include "cli/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace sparkpilot::cli {

AppendFile::AppendFile(std::string path, std::string_view heading) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  struct stat status = {};
  if (fd_ < 0 || fstat(fd_, &status) != 0) fail("{}: cannot be written: {}", path_, std::strerror(errno));
  if (!S_ISREG(status.st_mode) || status.st_size == 0) {
    append(heading);
    return;
  }
  std::string begin(heading.size(), '\0');
  const bool same = pread(fd_, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) && begin == heading;
  char last = '\n';
  const bool readable = pread(fd_, &last, 1, status.st_size - 1) == 1;
  if (!same || !readable) {
    close(fd_);
    fd_ = -1;
    fail("{}: the file is there and has other columns; remove it or name another", path_);
  }
  if (last != '\n') append("\n");  // ends a line left incomplete by a full disk or a power cut
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) close(fd_);
}

void AppendFile::append(std::string_view line) {
  struct stat before = {};
  const bool known = fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  off_t part = 0;
  while (!line.empty()) {
    const ssize_t written = ::write(fd_, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      // A part of a line would stay between those of a later run. Not where another program has written since.
      struct stat now = {};
      const bool ours = known && part > 0 && fstat(fd_, &now) == 0 && now.st_size == before.st_size + part;
      if (ours && ftruncate(fd_, before.st_size) != 0)
        fail("{}: cannot be written: {}; its last line is cut short", path_, std::strerror(error));
      fail("{}: cannot be written: {}", path_, std::strerror(error));
    }
    line.remove_prefix(static_cast<size_t>(written));
    part += written;
  }
}

}  // namespace sparkpilot::cli
