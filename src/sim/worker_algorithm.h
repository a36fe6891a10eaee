// A user's algorithm that is a program: a shared library with the interface of sparkpilot/algorithm.h, or a script in
// Python. It runs in worker processes over shared memory, so that whatever it does to its process, ours goes on.
// docs/algorithms.md has protocol and layout.
//
// Worlds go to workers in batches of 512, whatever the number of workers: an algorithm whose worlds do not affect each
// other gives the same results with any number of them. A batch in which a worker crashes, hangs or reports an error
// is run again in halves, down to single worlds.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "sim/algorithm_memory.h"
#include "sim/user_algorithm.h"

namespace sparkpilot::sim {

struct WorkerOptions {
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
  std::string reset(size_t worlds, const std::atomic<bool>* stop = nullptr);
  std::string update(const std::atomic<bool>* stop = nullptr);
  // Times of single updates of one world in microseconds, after a reset of one; it sees memory().seen in turns. No
  // longer than the step timeout.
  std::string time(double& p50_us, double& p99_us, const std::atomic<bool>* stop = nullptr);
  // The process has to be ended: it is gone, or does not answer.
  bool lost() const { return lost_; }
  bool hung() const { return hung_; }  // did not answer in time

 private:
  friend class WorkerAlgorithm;
  AlgorithmWorker(const std::vector<std::string>& command, const WorkerOptions& options);
  std::string ask(const std::string& line, double seconds, std::string* answer = nullptr,
                  const std::atomic<bool>* stop = nullptr);
  // The first line, which describes the algorithm. Fails (user) with the reason if absent.
  std::string description(const std::string& file);

  double step_timeout_;
  bool lost_ = false, hung_ = false;
  AlgorithmMemory* memory_ = nullptr;
  std::unique_ptr<ChildProcess> process_;
};

class WorkerAlgorithm : public UserAlgorithm {
 public:
  // Starts a worker. Fails (user) naming the file on one that is no algorithm.
  explicit WorkerAlgorithm(const std::filesystem::path& file, WorkerOptions options = {});
  ~WorkerAlgorithm() override;

  // Each thread has its own worker. Fails (user) where none can be started, too.
  std::vector<UserWorld> run(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                             const UserDrive& drive) const override;
  std::pair<Trace, std::string> trace(const WorldSpec& world, const UserDrive& drive) const override;
  std::optional<UpdateLatency> latency(const WorldSpec& world, const UserDrive& drive) const override;

 private:
  class Batch;
  // A worker that is idle, else a new one. Fails (user) if none can be started.
  std::unique_ptr<AlgorithmWorker> take() const;
  // For the next take(); a lost one is ended.
  void give_back(std::unique_ptr<AlgorithmWorker> worker) const;
  std::unique_ptr<AlgorithmWorker> start(std::string& description) const;
  void describe(const std::string& description);

  WorkerOptions options_;
  mutable std::atomic<bool> hung_ = false;  // a worker did; the time of an update is then not measured
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<AlgorithmWorker>> idle_;
};

}  // namespace sparkpilot::sim
