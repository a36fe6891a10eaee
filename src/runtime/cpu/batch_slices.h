// Runs a large batch in slices of a few entries: what a layer writes is still in cache when the next layer reads it,
// and each thread works on separate slices, so that no thread waits for another between layers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan.h"

namespace sparkpilot {

// Whether the batch of a graph may be cut: it has several entries, keeps no states, and its weights may be packed for
// every thread. `bound` has the shapes of all its inputs, and `whole` is the same graph optimised.
bool may_be_sliced(const Graph& bound, const Graph& whole, const PlanOptions& options);
// Entries in a slice by rule: what a layer reads and writes fits in the second-level cache. Equal to the batch if
// slices do not pay: few entries, or large ones. Depends only on the machine and the graph, never on the number of
// threads.
int64_t entries_of_a_slice(const Graph& whole, int64_t batch);
// The optimised graph for slices of `entries`. Empty if the graph mixes the entries of its batch.
std::optional<Graph> slice_of_batch(const Graph& bound, Graph& whole, int64_t entries, const PlanOptions& options);
// The size of the first axis, if all inputs have the same one and the model leaves it open; else 0. A dimension that
// the model names is open, also if an option has fixed its size.
int64_t open_batch(const Graph& bound);

class BatchSlices {
 public:
  // `slice` is the result of slice_of_batch(); `batch` is the number of entries of the whole batch.
  BatchSlices(const Graph& slice, int64_t batch, const PlanOptions& options, int threads, StateStore& states);

  // As Plan::run() and Plan::outputs().
  void run(std::span<const void* const> inputs);
  std::span<const ConstView> outputs() const { return outputs_; }
  // A node's calls on all slices count as one call on the whole batch that all threads run together.
  void collect(Profile& profile) const;
  void choices(std::vector<KernelDecision>& out) const { lanes_[0].plan->choices(out); }
  void forget_times();
  const Graph& graph() const { return lanes_[0].plan->graph(); }
  int64_t weight_bytes() const { return lanes_[0].plan->weight_bytes(); }  // all lanes read the same
  int64_t arena_bytes() const;
  double flops() const { return lanes_[0].plan->flops() * static_cast<double>(slices_); }

 private:
  // The plan and input pointers of one thread.
  struct Lane {
    std::unique_ptr<Plan> plan;
    std::vector<const void*> inputs;
  };
  void run_slice(Lane& lane, int64_t slice, std::span<const void* const> inputs);

  std::vector<Lane> lanes_;
  int64_t batch_ = 0, count_ = 0, slices_ = 0;  // entries in the batch and in a slice; number of slices
  std::vector<int64_t> input_bytes_;            // by input: bytes of one entry
  std::vector<Tensor> results_;
  std::vector<ConstView> outputs_;
};

}  // namespace sparkpilot
