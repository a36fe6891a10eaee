// The machine that this process runs on, or another file tree.
#include <dirent.h>
#include <fcntl.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/resolve_in_root.h"
#include "hw/source.h"

namespace sparkpilot {
namespace fs = std::filesystem;
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::optional<std::string> read_link(const std::string& path) {
  std::string target(4096, '\0');
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0 || static_cast<size_t>(length) == target.size()) return std::nullopt;
  target.resize(static_cast<size_t>(length));
  return target;
}

class SystemSource : public Source {
 public:
  explicit SystemSource(const SourceOptions& options) : options_(options), here_(options.root == "/") {
    if (here_) return;
    std::error_code error;
    const fs::path root = fs::canonical(options.root, error);
    if (error || !fs::is_directory(root)) fail("{}: expected the folder of a file tree", options.root.string());
    here_ = root == "/";
    if (!here_) root_ = root.string();
  }

  std::optional<std::string> read(const std::string& path, size_t limit) override {
    const std::optional<std::string> file = inside(path);
    if (!file) return std::nullopt;
    // Opening a pipe or a device must not block.
    const Descriptor fd(open(file->c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (fd.get() < 0 || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    std::string text;
    while (text.size() < limit) {
      const size_t had = text.size();
      text.resize(had + std::min<size_t>(limit - had, 16384));
      const ssize_t got = ::read(fd.get(), text.data() + had, text.size() - had);
      text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && had == 0) return std::nullopt;
      if (got <= 0) break;
    }
    return text;
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    const std::optional<std::string> path = inside(folder);
    DIR* const dir = path ? opendir(path->c_str()) : nullptr;
    if (!dir) return names;
    while (const dirent* entry = readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (names.size() >= kListLimit) break;
      names.emplace_back(name);
    }
    closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::optional<std::string> link(const std::string& path) override {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash + 1 == path.size()) return std::nullopt;
    const std::optional<std::string> folder = inside(path.substr(0, slash + 1));
    if (!folder) return std::nullopt;
    return read_link(*folder + "/" + path.substr(slash + 1));
  }

  Access access(const std::string& path) override {
    const std::optional<std::string> file = inside(path);
    if (!file) return Access::absent;
    const auto may = [&](int mode) { return faccessat(AT_FDCWD, file->c_str(), mode, AT_EACCESS) == 0; };
    if (!may(F_OK)) return errno == EACCES ? Access::denied : Access::absent;
    if (!may(R_OK)) return Access::denied;
    return may(W_OK) ? Access::read_write : Access::read_only;
  }

  std::optional<Space> space(const std::string& path) override {
    const std::optional<std::string> file = inside(path);
    struct statvfs status = {};
    if (!file || statvfs(file->c_str(), &status) != 0) return std::nullopt;
    const auto bytes = [&](fsblkcnt_t blocks) {
      int64_t product = 0;
      const bool overflow = __builtin_mul_overflow(blocks, status.f_frsize, &product);
      return overflow ? INT64_MAX : product;
    };
    return Space{bytes(status.f_blocks), bytes(status.f_bavail)};
  }

  std::optional<std::string> variable(const std::string& name) override {
    const char* value = here_ ? std::getenv(name.c_str()) : nullptr;
    return value ? std::optional<std::string>(value) : std::nullopt;
  }

  std::string architecture() override {
    if (here_) {
      utsname names = {};
      return uname(&names) == 0 ? names.machine : "";
    }
    for (const char* program : {"/bin/sh", "/usr/bin/env", "/sbin/init"}) {
      const std::optional<std::string> head = read(program, 20);
      if (!head || head->size() < 20 || head->compare(0, 4, "\177ELF") != 0) continue;
      const int machine = static_cast<unsigned char>((*head)[18]) | static_cast<unsigned char>((*head)[19]) << 8;
      if (machine == 62) return "x86_64";
      if (machine == 183) return "aarch64";
    }
    return {};
  }

  GpuDriverAnswers nvml() override {
    if (here_) nvml_ = ask_nvml(options_.driver_wait_seconds, nvml_);
    return nvml_;
  }
  GpuDriverAnswers cuda() override { return here_ ? ask_cuda(options_.driver_wait_seconds) : GpuDriverAnswers{}; }

  std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>& words) override {
    constexpr int kReadAll = 3, kSizeOfBuffer = 10;
    const int size = here_ ? klogctl(kSizeOfBuffer, nullptr, 0) : -1;
    if (size <= 0) return std::nullopt;
    std::string log(static_cast<size_t>(size), '\0');
    const int got = klogctl(kReadAll, log.data(), size);
    if (got < 0) return std::nullopt;
    log.resize(static_cast<size_t>(got));
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < log.size();) {
      const size_t end = std::min(log.find('\n', begin), log.size());
      const std::string line = log.substr(begin, end - begin);
      const auto in_line = [&](const std::string& word) { return line.find(word) != std::string::npos; };
      if (std::any_of(words.begin(), words.end(), in_line)) lines.push_back(line);
      begin = end + 1;
    }
    return lines;
  }

 private:
  // The path on this machine of a path in the tree; it need not exist.
  std::optional<std::string> inside(const std::string& path) const {
    if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) return std::nullopt;
    if (here_) return path;
    const std::optional<fs::path> found = resolve_in_root(root_, path);
    return found ? std::optional(root_ + found->string()) : std::nullopt;
  }

  SourceOptions options_;
  bool here_;
  std::string root_;
  GpuDriverAnswers nvml_;  // the previous answers
};

}  // namespace

std::unique_ptr<Source> system_source(const SourceOptions& options) { return std::make_unique<SystemSource>(options); }

}  // namespace sparkpilot
