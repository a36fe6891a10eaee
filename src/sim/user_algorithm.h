// A control algorithm that a user made, which drives worlds instead of one of openpilot's: a program in worker
// processes (sim/worker_algorithm.h) or a network (sim/network_algorithm.h). docs/algorithms.md explains both.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/batch.h"
#include "sim/latency.h"
#include "sim/trace.h"

namespace sparkpilot::sim {

struct UserParameter {
  std::string name, unit, meaning;
  double value = 0;  // if it is not set
};

struct UserDrive {
  std::vector<double> parameters;           // one value for each of the algorithm's
  BatchOptions options;                     // without `lateral`, `warm_up` and `gpu`, which count for nothing
  const std::atomic<bool>* stop = nullptr;  // ends it early
  bool stopped() const { return stop && stop->load(std::memory_order_relaxed); }
};

struct UserWorld {
  WorldResult result;  // nothing where it failed
  std::string failed;  // what the algorithm did in this world that it may not; empty: nothing
};

// Threads may share one.
class UserAlgorithm {
 public:
  virtual ~UserAlgorithm();
  UserAlgorithm(const UserAlgorithm&) = delete;
  UserAlgorithm& operator=(const UserAlgorithm&) = delete;

  // Whether `algorithm` is a file rather than the name of a built-in one: it has a '/', or ends in .so, .py or .onnx.
  static bool names_file(std::string_view algorithm);

  const std::string& name() const { return name_; }  // the file's, without its folder
  const std::filesystem::path& file() const { return files_[0]; }
  const std::string& hash() const { return hash_; }    // MD5 of the file and those that it names, in hexadecimal digits
  bool torque() const { return torque_; }              // what it steers by; else degrees of the wheel
  bool longitudinal() const { return longitudinal_; }  // it gives acceleration too
  std::span<const UserParameter> parameters() const { return parameters_; }

  // Fails (user) if the file is not what it was.
  void check_unchanged() const;

  // As run_worlds(), on all threads. Empty if it was stopped. Fails (user) where no world can be driven.
  virtual std::vector<UserWorld> run(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                     const UserDrive& drive) const = 0;
  // One world, as trace_world() does it, up to where the algorithm fails; and what it did then, as above.
  virtual std::pair<Trace, std::string> trace(const WorldSpec& world, const UserDrive& drive) const = 0;
  // Empty if the algorithm did not answer, now or before, and if it was stopped.
  virtual std::optional<UpdateLatency> latency(const WorldSpec& world, const UserDrive& drive) const = 0;

 protected:
  explicit UserAlgorithm(const std::filesystem::path& file);
  void set_files(std::vector<std::filesystem::path> files);  // the first is file()
  // What is wrong with the command of a step; empty: nothing. `commands`: lateral and acceleration.
  std::string no_command(const float* commands, int step) const;

  bool torque_ = true, longitudinal_ = false;
  std::vector<UserParameter> parameters_;

 private:
  std::string name_, hash_;
  std::vector<std::filesystem::path> files_;
};

}  // namespace sparkpilot::sim
