// A large batch a few entries at a time: what a layer writes is still in cache when the next one reads it, and each
// thread has slices of its own, so that none waits for another between layers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan.h"

namespace sparkpilot {

// The optimised graph for a slice; none where the graph mixes the entries of its batch, or where slices do not pay: few
// entries, large ones, or weights too many to be packed once a thread. `bound` has all its inputs' shapes, and `whole`
// is the same graph optimised. How many entries a slice has depends on the machine and the graph only, never on the
// number of threads.
std::optional<Graph> slice_of_batch(const Graph& bound, Graph& whole, const PlanOptions& options);
// The first axis that all inputs share and leave open; 0 where there is none.
int64_t open_batch(const Graph& bound);

class BatchSlices {
 public:
  // `slice` is slice_of_batch(), of a batch of so many entries.
  BatchSlices(const Graph& slice, int64_t batch, const PlanOptions& options, int threads, StateStore& states);

  // As Plan's.
  void run(std::span<const void* const> inputs);
  std::span<const ConstView> outputs() const { return outputs_; }
  // A node's calls on all slices count as one on the whole batch, by all threads at once.
  void collect(Profile& profile) const;
  void choices(std::vector<KernelDecision>& out) const { lanes_[0].plan->choices(out); }
  void forget_times();
  const Graph& graph() const { return lanes_[0].plan->graph(); }
  int64_t arena_bytes() const;
  double flops() const { return lanes_[0].plan->flops() * static_cast<double>(slices_); }

 private:
  // What one thread works with.
  struct Lane {
    std::unique_ptr<Plan> plan;
    std::vector<const void*> inputs;
  };
  void run_slice(Lane& lane, int64_t slice, std::span<const void* const> inputs);

  std::vector<Lane> lanes_;
  int64_t batch_ = 0, count_ = 0, slices_ = 0;  // entries in all and in a slice
  std::vector<int64_t> input_bytes_;            // of an entry, by input
  std::vector<Tensor> results_;
  std::vector<ConstView> outputs_;
};

}  // namespace sparkpilot
