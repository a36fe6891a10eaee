// Chooses the kernels of a session by their times on this machine: kernels that the caller restored, those that earlier
// processes found fastest, and those that are timed now. On a GPU the same for the variants of the kernels that the
// rules choose there.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "hw/cpu.h"
#include "ir/graph.h"
#include "runtime/plan.h"
#include "runtime/tuning_file.h"
#include "runtime/turns.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

// Whether the rules of the op table were measured on this processor and with its instruction sets.
bool rules_were_measured_on(const CpuFeatures& cpu);

// Limits of the tuner, and what tests replace.
struct Tuning {
  Clock clock = now_ns;
  // On the CPU. For no GPU were the models measured that choose variants.
  bool rules_hold = rules_were_measured_on(cpu_features());
  int64_t automatic_ns = 1'000'000'000, full_ns = 10'000'000'000;  // per session
  int64_t node_ns = 60'000'000;                                    // per kind of node; a few slow runs may take longer
};

// A kernel, and on a GPU which of its variants.
struct KernelWay {
  const Kernel* kernel;
  std::string variant = {};
  std::string name() const { return std::string(kernel->name) + (variant.empty() ? "" : " " + variant); }
};

class KernelTuner {
 public:
  // Adds restored and kept kernels to `plans.kernels`. `options` and `plans`, which holds the GPU if there is one, must
  // outlive it.
  KernelTuner(const SessionOptions& options, PlanOptions& plans, Tuning tuning = {});

  // Times the kernels of an optimised graph on this many threads, or on the GPU, if they are to be timed, and adds the
  // results to `plans.kernels`. True if there are new results. A GPU's error ends it, and what is not known then is
  // chosen by the rules.
  bool tune(const Graph& graph, int threads);

  // For choices between programs instead of kernels: whether they are to be timed, and what has been found.
  bool times() const { return limit_ns() > 0; }
  void keep(const std::string& key, const std::string& choice, int64_t spent_ns);

 private:
  // A kind of node to time.
  struct Job {
    NodeId node;
    std::string key;
    std::vector<KernelWay> ways;  // the first is the one that the rules choose
    double flops;                 // of all nodes of this kind
  };
  // The time left for timing; 0 if nothing is to be timed.
  int64_t limit_ns() const;
  std::vector<Job> jobs(const Graph& graph) const;
  const KernelWay* fastest(const Graph& graph, const Job& job, int64_t cold_bytes) const;
  std::string file_key(const std::string& key) const;

  const SessionOptions& options_;
  PlanOptions& plans_;
  Tuning tuning_;
  TuningFile file_;
};

}  // namespace sparkpilot
