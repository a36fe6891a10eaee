// The process that a user's program runs in: lines of text both ways, and memory that both see.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace sparkpilot::sim {

struct WorkerOptions {
  double step_timeout = 1;              // s, for one step of all worlds of a worker
  std::string python = "python3";       // what runs scripts
  std::vector<std::string> unset = {};  // variables of the environment that workers do not get
  // Told once, on any thread, why the worlds of a batch are run again, which may take long.
  std::function<void(const std::string&)> on_failed_batch = {};
};

// Python's program that runs a script: `python -u -c kScriptRunner FILE`, or with more arguments
// (algorithm_runner.inc).
extern const char* const kScriptRunner;

// One thread at a time.
class WorkerProcess {
 public:
  // The memory has `bytes` and begins as zeros. Fails (user) with the system's reason if it cannot be started.
  WorkerProcess(const std::vector<std::string>& command, const WorkerOptions& options, size_t bytes);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Seen by both processes: what the worker leaves there is not trusted.
  void* memory() { return memory_; }
  // The worker's first line, which describes the program. Fails (user) with the reason if absent, naming the file.
  // `stop`: as of ask(), and empty.
  std::string description(const std::string& file, const std::atomic<bool>* stop = nullptr);
  // Sends a line. Empty if the answer is "ok", or with `answer` begins so, which then gets it; else why not: an error
  // that the program reports, a signal, a time that is over. What was written to stderr last is in it. `stop`: the wait
  // ends when it is set, and the worker is lost.
  std::string ask(const std::string& line, double seconds, std::string* answer = nullptr,
                  const std::atomic<bool>* stop = nullptr);
  // A reset, which may take longer than a step: "reset N". Forgets what was written to stderr before.
  std::string reset(size_t worlds, const std::atomic<bool>* stop = nullptr);
  std::string update(const std::atomic<bool>* stop = nullptr, std::string* answer = nullptr);
  // The process has to be ended: it is gone, or does not answer.
  bool lost() const { return lost_; }
  bool hung() const { return hung_; }  // did not answer in time

 protected:
  double step_timeout() const { return step_timeout_; }

 private:
  double step_timeout_;
  size_t bytes_;
  bool lost_ = false, hung_ = false;
  void* memory_ = nullptr;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace sparkpilot::sim
