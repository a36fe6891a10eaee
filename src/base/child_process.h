// A program that this one starts and talks with by lines of text, and that does not outlive it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

struct ChildOptions {
  std::vector<std::string> command;             // a program, looked up in PATH if it has no '/', and its arguments
  std::filesystem::path folder;                 // where it runs; removed with its contents if this process is killed
  std::vector<std::string> unset = {};          // variables of the environment that it does not get
  std::map<std::string, std::string> set = {};  // and those that it gets beside the others, or with another value
  // Other folders that are removed, too, if this process is killed.
  std::vector<std::filesystem::path> remove_if_killed = {};
  size_t longest_line = 4 << 20;  // bytes of a line that read_line() accepts
  size_t kept_errors = 8 << 10;   // bytes of its stderr that are kept, the last ones
  int shared = -1;                // a descriptor that the child gets as ChildProcess::kSharedFd
};

// The child runs in its own process group, so that Ctrl-C at the terminal reaches this process only; the
// destructor kills the whole group. If this process ends without running destructors, killed by any signal, a small
// shell kills the group and removes `folder`. One thread at a time may use an object.
class ChildProcess {
 public:
  static constexpr int kSharedFd = 3;

  // Fails (user) with the system's reason if the program cannot be started.
  explicit ChildProcess(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  enum class Answer { ok, ended, late, too_long };
  // Writes `line` and a newline to the child's stdin. Not `ok` if the child closed it or did not read it in `seconds`.
  Answer write_line(std::string_view line, double seconds);
  // The next line of the child's stdout, without the newline, in at most `seconds`. After `too_long` the object must
  // not be read again.
  Answer read_line(std::string& line, double seconds);

  // After `ended`: waits up to a second for the child to end; "exit code 3", "signal 11 (Segmentation fault)", or
  // "closed its output" if it still runs.
  std::string how_it_ended();
  // The last line of its stderr that is not empty, as far as it was read; at most 300 bytes, printable. May be empty.
  std::string last_error() const;
  // So that last_error() is of what comes from now on.
  void forget_errors();

 private:
  // Waits until the child has written something and reads it. False: it is later than `until`, in seconds.
  bool wait(double until);
  void take_errors();
  void start_guard(const ChildOptions& options);
  bool reap(bool block);

  pid_t pid_ = -1, guard_ = -1;
  int in_ = -1, out_ = -1, err_ = -1, guard_pipe_ = -1;
  size_t longest_line_, kept_errors_;
  bool out_ended_ = false, reaped_ = false;
  int status_ = 0;
  std::string received_, errors_;
  size_t searched_ = 0;  // bytes of received_ without a newline
};

}  // namespace sparkpilot
