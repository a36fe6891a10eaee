#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot {
namespace fs = std::filesystem;

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail("{}: {}", path_.string(), std::strerror(errno));
  try {
    check();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

InputFile::InputFile(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}

InputFile::InputFile(InputFile&& other) noexcept : fd_(other.fd_), size_(other.size_), path_(std::move(other.path_)) {
  other.fd_ = -1;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::check() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail("{}: {}", path_.string(), std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail("{}: is a folder, expected a file", path_.string());
  if (!S_ISREG(info.st_mode)) fail("{}: is not a regular file", path_.string());
  size_ = info.st_size;
}

InputFile InputFile::open_beneath(const fs::path& folder, const std::string& relative) {
  const fs::path inner(relative);
  const std::string shown = (folder / inner).string();
  if (relative.empty()) fail("{}: external data has an empty location", folder.string());
  if (relative.find('\0') != std::string::npos) fail("{}: external data location holds a zero byte", folder.string());
  if (inner.is_absolute()) fail("external data location \"{}\" is an absolute path", relative);
  for (const auto& part : inner) {
    if (part == "..") fail("external data location \"{}\" leaves the model's folder", relative);
  }
  // Walk one component at a time with O_NOFOLLOW, so no link on the way is ever followed.
  int dir = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) fail("{}: {}", folder.string(), std::strerror(errno));
  std::vector<fs::path> parts;
  for (const auto& part : inner) {
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    const int next = ::openat(dir, parts[i].c_str(), flags);
    const int error = errno;
    ::close(dir);
    if (next < 0) {
      if (error == ELOOP) fail("external data \"{}\" is a symbolic link", shown);
      fail("external data \"{}\": {}", shown, std::strerror(error));
    }
    dir = next;
  }
  InputFile file(dir, fs::path(shown));
  file.check();
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0 || info.st_nlink != 1) {
    fail("external data \"{}\" has {} hard links, expected 1", shown, info.st_nlink);
  }
  return file;
}

void InputFile::read_at(int64_t offset, std::span<std::byte> out) const {
  if (offset < 0 || offset > size_ || static_cast<int64_t>(out.size()) > size_ - offset) {
    fail("{}: {} bytes wanted at offset {}, the file has {}", path_.string(), out.size(), offset, size_);
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: {}", path_.string(), std::strerror(errno));
    if (got == 0) fail("{}: the file was cut while it was read", path_.string());
    done += static_cast<size_t>(got);
  }
}

std::string read_file(const fs::path& path, int64_t limit) {
  const InputFile file(path);
  if (file.size() > limit) fail("{}: {} bytes, more than the {} allowed", path.string(), file.size(), limit);
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  return bytes;
}

namespace {

// The temporary files being written, for abandon_all(). Never destroyed: a signal may arrive while the process exits.
struct Unfinished {
  std::mutex mutex;
  std::set<fs::path> asides;
};
Unfinished& unfinished() {
  static Unfinished* const instance = new Unfinished;
  return *instance;
}

// The file that writing to the path would write: links are followed, and the last may point to a file that does not
// exist yet.
fs::path behind_links(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // Linux's limit
  fs::path target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    const fs::path next = fs::read_symlink(target, error);
    if (error) return target;  // not a link, or does not exist
    target = target.parent_path() / next;
  }
  fail("{}: cannot write: {}", path.string(), std::strerror(ELOOP));
}

// The kernel's path of an open file, whether or not it has a name.
std::string own_link(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

}  // namespace

void refuse_to_replace(const fs::path& out, const fs::path& input) {
  std::error_code not_there;
  if (!fs::is_regular_file(out, not_there) || !fs::equivalent(out, input, not_there)) return;
  const std::string also = out == input ? "" : fmt::format(" (also called {})", input.string());
  fail("{}: is read and would be replaced{}: choose another name for what is written", out.string(), also);
}

void sync_folder(const fs::path& folder) {
  const auto sync = [](const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool synced = fd >= 0 && ::fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0) ::close(fd);
    // EINVAL: a file system that has nothing to wait for.
    if (!synced && error != EINVAL) fail("{}: cannot write: {}", path.string(), std::strerror(error));
  };
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code not_there;
    if (entry.symlink_status(not_there).type() == fs::file_type::regular) sync(entry.path());
  }
  if (error) fail("{}: {}", folder.string(), error.message());
  sync(folder);
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail("{}: cannot make this folder: {}", path.string(), error.message());
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  if (open_stream()) return;
  target_ = behind_links(path_);
  const std::lock_guard lock(unfinished().mutex);
  if (open_unnamed()) return;
  std::string name = target_.string() + ".XXXXXX";
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
  aside_ = name;
  unfinished().asides.insert(aside_);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(fd_, 0666 & ~mask);
}

bool AtomicFile::open_stream() {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return false;
  if (S_ISDIR(info.st_mode)) fail("{}: is a folder, expected a file", path_.string());
  if (!S_ISCHR(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    fail("{}: is a {}, expected a file", path_.string(), S_ISSOCK(info.st_mode) ? "socket" : "block device");
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd_ < 0) fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
  return true;
}

// Not every file system supports unnamed files.
bool AtomicFile::open_unnamed() {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (fd_ < 0) return false;
  unnamed_ = ::access(own_link(fd_).c_str(), F_OK) == 0;
  if (unnamed_) return true;
  ::close(fd_);
  return false;
}

// An existing file cannot be replaced by linking, so the new one first gets a temporary name next to it.
void AtomicFile::give_name() {
  int failed = EEXIST;
  for (auto i = static_cast<uint64_t>(now_ns()); failed == EEXIST; ++i) {
    aside_ = fmt::format("{}.{:06x}", target_.string(), i & 0xffffff);
    failed = ::linkat(AT_FDCWD, own_link(fd_).c_str(), AT_FDCWD, aside_.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  }
  if (failed != 0) {
    aside_.clear();
    fail("{}: cannot write: {}", path_.string(), std::strerror(failed));
  }
  unnamed_ = false;
  unfinished().asides.insert(aside_);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (aside_.empty()) return;
  const std::lock_guard lock(unfinished().mutex);
  ::unlink(aside_.c_str());
  unfinished().asides.erase(aside_);
}

void AtomicFile::write(const void* data, size_t bytes) {
  const char* cursor = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(fd_, cursor, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
    cursor += put;
    bytes -= static_cast<size_t>(put);
  }
}

void AtomicFile::commit() {
  const std::lock_guard lock(unfinished().mutex);
  if (unnamed_) give_name();
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
  if (aside_.empty()) return;
  if (::rename(aside_.c_str(), target_.c_str()) != 0)
    fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
  unfinished().asides.erase(aside_);
  aside_.clear();
}

void AtomicFile::abandon_all() {
  unfinished().mutex.lock();  // never unlocked
  for (const fs::path& aside : unfinished().asides) ::unlink(aside.c_str());
}

}  // namespace sparkpilot
