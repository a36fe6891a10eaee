#include "base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot {
namespace {

double now_seconds() { return static_cast<double>(now_ns()) * 1e-9; }

// A pair of ends that children do not inherit.
struct Ends {
  int ours = -1, theirs = -1;
};

Ends pipe_to_us() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) fail("no pipe: {}", std::strerror(errno));
  return {.ours = fds[0], .theirs = fds[1]};
}

// A socket where a pipe would do: writing to one whose other end is closed raises no signal (MSG_NOSIGNAL).
Ends socket_from_us() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) fail("no socket: {}", std::strerror(errno));
  return {.ours = fds[0], .theirs = fds[1]};
}

void close_end(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// This process's environment with the changes that the options ask for, each variable as "NAME=VALUE".
std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> entries;
  for (char** at = environ; *at; ++at) {
    const std::string entry = *at, name = entry.substr(0, entry.find('='));
    const bool is_unset = std::find(options.unset.begin(), options.unset.end(), name) != options.unset.end();
    if (!is_unset && !options.set.contains(name)) entries.push_back(entry);
  }
  for (const auto& [name, value] : options.set) entries.push_back(name + "=" + value);
  return entries;
}

// As execve() takes them; valid as long as `texts` is unchanged.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// What posix_spawn() takes; a program gets its own process group and the signals as they are by default.
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigemptyset(&all);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGQUIT}) sigaddset(&all, signal);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  void move(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void discard(int fd) { posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", O_WRONLY, 0); }
  void enter(const std::filesystem::path& folder) {
    if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
  }
  // Returns the process; fails (user) with the reason.
  pid_t start(const std::vector<std::string>& command, const std::vector<std::string>& variables) {
    const std::vector<char*> words = pointers_to(command), environment = pointers_to(variables);
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, words[0], &actions_, &attributes_, words.data(), environment.data());
    if (error != 0) fail("{}: cannot be started: {}", command[0], std::strerror(error));
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options)
    : longest_line_(options.longest_line), kept_errors_(options.kept_errors) {
  if (options.command.empty()) fail_internal("a child process without a command");
  Ends in = socket_from_us(), out = pipe_to_us(), err = pipe_to_us();
  in_ = in.ours;
  out_ = out.ours;
  err_ = err.ours;
  try {
    Spawn spawn;
    spawn.move(in.theirs, STDIN_FILENO);
    spawn.move(out.theirs, STDOUT_FILENO);
    spawn.move(err.theirs, STDERR_FILENO);
    if (options.shared >= 0) spawn.move(options.shared, kSharedFd);
    spawn.enter(options.folder);
    pid_ = spawn.start(options.command, environment_of(options));
    for (int* end : {&in.theirs, &out.theirs, &err.theirs}) close_end(*end);
    for (const int fd : {in_, out_, err_}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    start_guard(options);
  } catch (...) {
    for (int* end : {&in.theirs, &out.theirs, &err.theirs, &in_, &out_, &err_, &guard_pipe_}) close_end(*end);
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      reap(true);
    }
    throw;
  }
}

ChildProcess::~ChildProcess() {
  ::kill(-pid_, SIGKILL);  // whoever else is in the group, even if the child itself has ended
  reap(true);
  for (int* end : {&in_, &out_, &err_}) close_end(*end);
  // A line instead of the end of the file: nothing is left to do for the guard.
  [[maybe_unused]] const ssize_t said = ::send(guard_pipe_, "\n", 1, MSG_NOSIGNAL);
  close_end(guard_pipe_);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A shell that waits at the other end of a socket: when that is closed without a line, this process was killed.
void ChildProcess::start_guard(const ChildOptions& options) {
  Ends ends = socket_from_us();
  guard_pipe_ = ends.ours;
  try {
    Spawn spawn;
    spawn.move(ends.theirs, STDIN_FILENO);
    spawn.discard(STDOUT_FILENO);
    spawn.discard(STDERR_FILENO);
    const char* script = R"(read -r line && exit; kill -KILL "-$1"; shift; [ $# = 0 ] || rm -rf -- "$@")";
    std::vector<std::string> command{"/bin/sh", "-c", script, "guard", std::to_string(pid_)};
    if (!options.folder.empty()) command.push_back(options.folder.string());
    for (const std::filesystem::path& folder : options.remove_if_killed) command.push_back(folder.string());
    guard_ = spawn.start(command, environment_of({}));
  } catch (...) {
    close_end(ends.theirs);
    throw;
  }
  close_end(ends.theirs);
}

bool ChildProcess::reap(bool block) {
  while (!reaped_) {
    const pid_t ended = ::waitpid(pid_, &status_, block ? 0 : WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) reaped_ = true;
    else if (ended == 0) break;
  }
  return reaped_;
}

void ChildProcess::take_errors() {
  std::array<char, 4096> buffer;
  while (err_ >= 0) {
    const ssize_t count = ::read(err_, buffer.data(), buffer.size());
    if (count > 0) {
      errors_.append(buffer.data(), static_cast<size_t>(count));
      if (errors_.size() > kept_errors_) errors_.erase(0, errors_.size() - kept_errors_);
      if (static_cast<size_t>(count) < buffer.size()) return;
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) close_end(err_);
    return;
  }
}

bool ChildProcess::wait(double until) {
  const double left = until - now_seconds();
  if (left < 0) return false;
  std::array<pollfd, 2> fds{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  const int ms = static_cast<int>(std::ceil(std::min(left, 1e5) * 1e3));
  if (::poll(fds.data(), fds.size(), ms) < 0 && errno != EINTR) fail("poll: {}", std::strerror(errno));
  if (fds[1].revents != 0) take_errors();
  if (fds[0].revents == 0) return true;
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(out_, buffer.data(), buffer.size());
  if (count > 0) received_.append(buffer.data(), static_cast<size_t>(count));
  else if (count == 0) out_ended_ = true;
  return true;
}

ChildProcess::Answer ChildProcess::write_line(std::string_view line, double seconds) {
  const double until = now_seconds() + seconds;
  std::string bytes(line);
  bytes += '\n';
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(in_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EPIPE || errno == ECONNRESET) return Answer::ended;
    if (errno != EAGAIN && errno != EINTR) fail("writing to a child process: {}", std::strerror(errno));
    if (now_seconds() > until) return Answer::late;
    take_errors();
    pollfd writable{in_, POLLOUT, 0};
    ::poll(&writable, 1, 20);  // short, as its stderr must not fill up meanwhile
  }
  return Answer::ok;
}

ChildProcess::Answer ChildProcess::read_line(std::string& line, double seconds) {
  const double until = now_seconds() + seconds;
  while (true) {
    const size_t end = received_.find('\n', searched_);
    if (end != std::string::npos && end <= longest_line_) {
      line = received_.substr(0, end);
      received_.erase(0, end + 1);
      searched_ = 0;
      return Answer::ok;
    }
    searched_ = received_.size();
    if (received_.size() > longest_line_) return Answer::too_long;
    if (out_ended_) {
      take_errors();
      return Answer::ended;
    }
    if (!wait(until)) return Answer::late;
  }
}

std::string ChildProcess::how_it_ended() {
  const double until = now_seconds() + 1;
  while (!reap(false) && now_seconds() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  take_errors();
  if (!reaped_) return "closed its output";
  if (WIFSIGNALED(status_)) return fmt::format("signal {} ({})", WTERMSIG(status_), strsignal(WTERMSIG(status_)));
  return fmt::format("exit code {}", WEXITSTATUS(status_));
}

void ChildProcess::forget_errors() {
  take_errors();
  errors_.clear();
}

std::string ChildProcess::last_error() const {
  constexpr size_t kLongest = 300;
  std::string_view text = errors_;
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const size_t begin = text.find_last_of("\r\n");
  if (begin != std::string_view::npos) text.remove_prefix(begin + 1);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return one_line(text.size() <= kLongest ? text : text.substr(text.size() - kLongest));
}

}  // namespace sparkpilot
