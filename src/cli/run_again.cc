#include "cli/run_again.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace sparkpilot::cli {
namespace {

// A file in memory, which a child gets as one of its standard streams: unlike a pipe it is never full.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("sparkpilot", MFD_CLOEXEC)) {
    if (fd_ < 0) fail_internal("no file in memory: {}", std::strerror(errno));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }

  void write(const std::string& text) const {
    for (size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(fd_, text.data() + done, text.size() - done);
      if (wrote <= 0) fail_internal("a file in memory cannot be written: {}", std::strerror(errno));
      done += static_cast<size_t>(wrote);
    }
    lseek(fd_, 0, SEEK_SET);
  }
  std::string read() const {
    std::string text(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t got = pread(fd_, text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    text.resize(done);
    return text;
  }

 private:
  int fd_;
};

// The words of this process's command line.
std::vector<std::string> own_words() {
  std::vector<std::string> words;
  std::string word;
  std::string text(1 << 20, '\0');  // /proc has no sizes
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : ::read(fd, text.data(), text.size());
  if (fd >= 0) close(fd);
  for (ssize_t i = 0; i < got; ++i) {
    if (text[static_cast<size_t>(i)] != '\0') {
      word += text[static_cast<size_t>(i)];
    } else {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (words.size() < 2) fail_internal("/proc/self/cmdline does not have the command line");
  return words;
}

}  // namespace

ChildResult run_again(const std::vector<std::string>& words, const std::string& input) {
  std::vector<std::string> all = own_words();
  all.insert(all.begin() + 2, words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);

  const MemoryFile in, out, err;
  in.write(input);
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, in.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&streams, out.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&streams, err.fd(), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &streams, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  if (error != 0) fail_internal("the program cannot be started again: {}", std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail_internal("waiting for a process: {}", std::strerror(errno));
  }
  return {
      .code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .out = out.read(), .err = err.read()};
}

}  // namespace sparkpilot::cli
