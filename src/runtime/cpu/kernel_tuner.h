// The kernels of a session on this machine: restored ones, those that earlier processes found the fastest, and those
// that are found now.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "hw/cpu.h"
#include "ir/graph.h"
#include "runtime/cpu/turns.h"
#include "runtime/plan.h"
#include "runtime/tuning_file.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

// Whether the rules of the op table were measured on that processor with its instruction sets.
bool rules_were_measured_on(const CpuFeatures& cpu);

// What tests change.
struct Tuning {
  Clock clock = now_ns;
  bool rules_hold = rules_were_measured_on(cpu_features());
  int64_t automatic_ns = 1'000'000'000, full_ns = 10'000'000'000;  // of a session
  int64_t node_ns = 60'000'000;                                    // of one kind of node, a few slow runs apart
};

class KernelTuner {
 public:
  // Tells `plans.kernels` what is restored and kept. `options` and `plans` must outlive it.
  KernelTuner(const SessionOptions& options, PlanOptions& plans, Tuning tuning = {});

  // Times what is to be timed of a graph that the passes have been over, on so many threads, and tells `plans.kernels`.
  // True where more is known now than before.
  bool tune(const Graph& graph, int threads);

 private:
  // A kind of node.
  struct Job {
    NodeId node;
    std::string key;
    std::vector<const Kernel*> candidates;  // what the rules take first
    double flops;                           // of all its nodes
  };
  std::vector<Job> jobs(const Graph& graph) const;
  const Kernel* fastest(const Graph& graph, const Job& job, int64_t cold_bytes) const;

  const SessionOptions& options_;
  PlanOptions& plans_;
  Tuning tuning_;
  TuningFile file_;
};

}  // namespace sparkpilot
