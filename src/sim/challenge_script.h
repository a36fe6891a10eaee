// A controller of comma's controls challenge as its users write them: a file in Python with a class Controller, of
// which each route gets one, or BatchController, of which each batch gets one. It runs in worker processes
// (sim/worker_process.h), one for each thread.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sim/challenge_control.h"
#include "sim/worker_process.h"

namespace sparkpilot::sim {

// Routes that a worker has room for.
inline constexpr size_t kMostScriptRoutes = 4096;

class ChallengeScript {
 public:
  // Starts a worker. `set`: attributes of the class's objects that are numbers, with other values. Fails (user) naming
  // the file on one that is no controller, and on attributes that its objects do not have.
  ChallengeScript(std::filesystem::path file, const std::vector<std::pair<std::string, double>>& set,
                  WorkerOptions options = {});
  ~ChallengeScript();

  // All of these attributes, with their values.
  const std::vector<std::pair<std::string, double>>& parameters() const { return parameters_; }
  // What it makes throws ControllerLost where the script's process ends or does not answer in time; a route whose
  // controller raises has no action, and failure() says why. It ends early when `stop` is set. The maker and what it
  // makes must not outlive this object.
  ChallengeControllerMaker maker(const std::atomic<bool>* stop = nullptr) const;

 private:
  class Controller;
  std::unique_ptr<WorkerProcess> start(std::string& description, const std::atomic<bool>* stop) const;

  std::filesystem::path file_;
  WorkerOptions options_;
  std::string set_;  // as JSON
  std::vector<std::pair<std::string, double>> parameters_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<WorkerProcess> first_;  // for the first controller
};

}  // namespace sparkpilot::sim
