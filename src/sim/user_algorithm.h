// A control algorithm that a user wrote: a shared library with the interface of sparkpilot/algorithm.h, or a script in
// Python. It runs in worker processes over shared memory, so that whatever it does to its process, ours goes on.
// docs/algorithms.md has protocol and layout.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/child_process.h"
#include "sim/algorithm_memory.h"

namespace sparkpilot::sim {

struct UserParameter {
  std::string name, unit, meaning;
  double value = 0;  // if it is not set
};

struct UserAlgorithmOptions {
  double step_timeout = 1;              // s, for one step of all worlds of a worker
  std::string python = "python3";       // what runs scripts
  std::vector<std::string> unset = {};  // variables of the environment that workers do not get
};

// A process with the algorithm in it. One thread at a time.
class AlgorithmWorker {
 public:
  ~AlgorithmWorker();
  AlgorithmWorker(const AlgorithmWorker&) = delete;
  AlgorithmWorker& operator=(const AlgorithmWorker&) = delete;

  // Seen by both processes: what the worker leaves in `out` is not trusted.
  AlgorithmMemory& memory() { return *memory_; }

  // Empty if it was done, else why it was not: an error that the algorithm reports, a signal, a time that is over. What
  // was written to stderr last is in it. `stop`: the wait ends when it is set, and the worker is lost.
  std::string reset(size_t worlds);
  std::string update(const std::atomic<bool>* stop = nullptr);
  // Times of single updates of one world in microseconds, after a reset of one; it sees memory().seen in turns.
  std::string time(double& p50_us, double& p99_us);
  // The process has to be ended: it is gone, or does not answer.
  bool lost() const { return lost_; }

 private:
  friend class UserAlgorithm;
  AlgorithmWorker(const std::vector<std::string>& command, const UserAlgorithmOptions& options);
  std::string ask(const std::string& line, double seconds, std::string* answer = nullptr,
                  const std::atomic<bool>* stop = nullptr);
  // The first line, which describes the algorithm. Fails (user) with why there is none.
  std::string description(const std::string& file);

  double step_timeout_;
  bool lost_ = false;
  AlgorithmMemory* memory_ = nullptr;
  std::unique_ptr<ChildProcess> process_;
};

// Threads may share one.
class UserAlgorithm {
 public:
  // Whether `algorithm` is a file rather than the name of a built-in one: it has a '/', or ends in .so or .py.
  static bool names_file(std::string_view algorithm);

  // Starts a worker. Fails (user) naming the file on one that is no algorithm.
  explicit UserAlgorithm(const std::filesystem::path& file, UserAlgorithmOptions options = {});
  ~UserAlgorithm();

  const std::string& name() const { return name_; }  // the file's, without its folder
  const std::filesystem::path& file() const { return file_; }
  const std::string& hash() const { return hash_; }    // MD5 of the file in hexadecimal digits
  bool torque() const { return torque_; }              // what it steers by; else degrees of the wheel
  bool longitudinal() const { return longitudinal_; }  // it gives acceleration too
  std::span<const UserParameter> parameters() const { return parameters_; }
  const UserAlgorithmOptions& options() const { return options_; }

  // A worker that is idle, else a new one. Fails (user) if none can be started.
  std::unique_ptr<AlgorithmWorker> take() const;
  // For the next take(); a lost one is ended.
  void give_back(std::unique_ptr<AlgorithmWorker> worker) const;

  // Fails (user) if the file is not what it was: workers that start later would be of another algorithm.
  void check_unchanged() const;

 private:
  std::unique_ptr<AlgorithmWorker> start(std::string& description) const;
  void describe(const std::string& description);

  std::filesystem::path file_;
  UserAlgorithmOptions options_;
  std::string name_, hash_;
  bool torque_ = true, longitudinal_ = false;
  std::vector<UserParameter> parameters_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<AlgorithmWorker>> idle_;
};

}  // namespace sparkpilot::sim
