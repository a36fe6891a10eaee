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

#include "sim/algorithm_memory.h"
#include "sim/user_algorithm.h"
#include "sim/worker_process.h"

namespace sparkpilot::sim {

// A process with the algorithm in it.
class AlgorithmWorker : public WorkerProcess {
 public:
  AlgorithmWorker(const std::vector<std::string>& command, const WorkerOptions& options)
      : WorkerProcess(command, options, sizeof(AlgorithmMemory)) {}

  AlgorithmMemory& memory() { return *static_cast<AlgorithmMemory*>(WorkerProcess::memory()); }
  // Times of single updates of one world in microseconds, after a reset of one; it sees memory().seen in turns. No
  // longer than the step timeout. Empty, or why there are none.
  std::string time(double& p50_us, double& p99_us, const std::atomic<bool>* stop = nullptr);
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
  // A worker that is idle, else a new one. Fails (user) if none can be started; one that `stop` ended is lost.
  std::unique_ptr<AlgorithmWorker> take(const std::atomic<bool>* stop) const;
  // For the next take(); a lost one is ended.
  void give_back(std::unique_ptr<AlgorithmWorker> worker) const;
  std::unique_ptr<AlgorithmWorker> start(std::string& description, const std::atomic<bool>* stop) const;
  void describe(const std::string& description);
  void tell_once(const std::string& failed, int64_t worlds) const;

  WorkerOptions options_;
  mutable std::atomic<bool> hung_ = false;  // a worker did; the time of an update is then not measured
  mutable std::atomic<bool> told_ = false;  // on_failed_batch
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<AlgorithmWorker>> idle_;
};

}  // namespace sparkpilot::sim
