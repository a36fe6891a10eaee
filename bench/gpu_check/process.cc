#include "process.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot::gpu_check {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLongestStart = 9 * 60 * kSecond;
constexpr int64_t kPatience = 20 * kSecond;  // until a process that does not end is killed

// Those that end a program, except what it was started to ignore (nohup). Blocked, so that one thread awaits them.
sigset_t ending_signals() {
  sigset_t out;
  sigemptyset(&out);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&out, signal);
  }
  return out;
}

// The signal that came by then; -1: none.
int await(const sigset_t& signals, int64_t until) {
  const int64_t left = std::max<int64_t>(until - now_ns(), 0);
  const timespec time{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
  return sigtimedwait(&signals, nullptr, &time);
}

// AtomicFile makes a new file each time.
std::pair<ino_t, int64_t> identity(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {info.st_ino, info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec};
}

struct End {
  int code = 0;           // or 128 + the signal that ended it
  bool in_order = false;  // by its own exit, or because its user or the time ended it
};

// A signal once more, a second later, is of a user who does not want to wait.
End end_of(pid_t child, const sigset_t& signals, int64_t until) {
  sigset_t awaited = signals;
  sigaddset(&awaited, SIGCHLD);
  int64_t asked_at = 0, kill_at = until == kNever ? kNever : until + kPatience;
  int asked_by = 0;
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status)) return {WEXITSTATUS(status), WEXITSTATUS(status) != kGoOn};
      if (asked_by > 0) return {128 + asked_by, true};
      if (now_ns() >= until) return {kUnfinished, true};
      return {128 + WTERMSIG(status), false};
    }
    const int signal = await(awaited, std::min(kill_at, now_ns() + 3600 * kSecond));
    const int64_t now = now_ns();
    if (sigismember(&signals, signal) == 1) {
      ::kill(child, asked_by > 0 && now > asked_at + kSecond ? SIGKILL : signal);
      if (asked_by == 0) asked_at = now;
      asked_by = signal;
      kill_at = std::min(kill_at, now + kPatience);
    } else if (signal < 0 && now >= kill_at) {
      ::kill(child, SIGKILL);
      kill_at = now + kPatience;
    }
  }
}

}  // namespace

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void block_signals() {
  sigset_t blocked = ending_signals();
  sigaddset(&blocked, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

int supervise(const std::filesystem::path& file, int64_t until, const std::function<int(bool goes_on)>& work) {
  const sigset_t signals = ending_signals();
  const pid_t parent = getpid();
  for (bool goes_on = false;; goes_on = true) {
    const auto before = identity(file);
    const pid_t child = ::fork();
    if (child < 0) fail("no further process can be made: {}", std::strerror(errno));
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      std::exit(getppid() == parent ? work(goes_on) : 128 + SIGTERM);
    }
    const End end = end_of(child, signals, until);
    if (end.in_order) return end.code;
    std::string how;
    if (end.code != kGoOn) how = fmt::format("ended by signal {} ({})", end.code - 128, strsignal(end.code - 128));
    if (identity(file) == before) {
      std::fprintf(stderr, "gpu_check: %s before it had found anything\n", how.empty() ? "gave up" : how.c_str());
      return 1;
    }
    if (!how.empty()) say(how + "; a new process goes on");
  }
}

Watch::Watch(int64_t until, int64_t item_ns) : state_(std::make_shared<State>()) {
  state_->until = until, state_->item_ns = item_ns, state_->item_until = now_ns() + kLongestStart;
  std::thread([state = state_] { wait(state); }).detach();
}

Watch::~Watch() {
  const std::lock_guard lock(state_->mutex);
  state_->over = true;
}

void Watch::keep(Results& results) {
  const std::lock_guard lock(state_->mutex);
  state_->results = &results;
}

void Watch::begin_item() {
  const std::lock_guard lock(state_->mutex);
  state_->item_until = now_ns() + state_->item_ns;
}

void Watch::wait(const std::shared_ptr<State>& state) {
  const sigset_t signals = ending_signals();
  for (;;) {
    const int signal = await(signals, std::min(state->until, now_ns() + kSecond));  // item_until may become earlier
    const std::lock_guard lock(state->mutex);
    if (state->over) return;
    const int64_t now = now_ns();
    if (signal <= 0 && now < state->until) {
      if (now < state->item_until) continue;
      say("ended because one item took too long (--item-minutes); a new process goes on");
      ::_exit(kGoOn);
    }
    int code = signal > 0 ? 128 + signal : kUnfinished;
    try {
      if (state->results) state->results->stop();
      say(signal > 0 ? "interrupted: call this again to go on" : "the time is over: call this again to go on");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "gpu_check: %s\n", error.what());
      code = 1;
    }
    ::_exit(code);
  }
}

}  // namespace sparkpilot::gpu_check
