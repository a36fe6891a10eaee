// Times the kernels of one node, on its own operands.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ir/launch.h"
#include "runtime/turns.h"

namespace sparkpilot {

class NodeTrial {
 public:
  // Inputs that are not constants are filled with small numbers of both signs; 32- and 64-bit integers with zero, which
  // is a valid index everywhere. Between two runs, each thread reads `cold_bytes` bytes, so that the node finds its
  // weights in the same cache level as in a network that reads its other weights in between; 0: everything stays in
  // cache. `problem` and what it refers to must outlive this object.
  NodeTrial(const Problem& problem, int64_t cold_bytes, Clock clock);

  // Prepares a kernel that accepts the node, and runs it once. Kernels ("ways") are numbered in the order in which they
  // are added. thread_count() must be the same here and in time_ns(). A kernel that fails has no time.
  void add(const Kernel& kernel);
  // The time of a run in nanoseconds; kNoTime if it fails. Short runs are repeated and averaged.
  double time_ns(size_t way);

 private:
  struct Way {
    const Kernel* kernel;
    std::unique_ptr<KernelState> state;
    int64_t runs = 1;  // repeated this many times
    bool fails = false;
  };
  void fill_inputs();
  void cool();
  void run(Way& way);
  double time(Way& way);

  const Problem& problem_;
  int64_t cold_bytes_;
  Clock clock_;
  std::vector<Tensor> owned_;
  std::vector<ConstView> inputs_;
  std::vector<View> outputs_;
  std::vector<std::pair<View, Tensor>> filled_;  // inputs, and the pattern that is repeated in them
  std::unique_ptr<Buffer> workspace_, other_;
  std::vector<Way> ways_;
  std::vector<int64_t> sums_;  // by thread; keeps the compiler from removing the reads of `other_`
};

}  // namespace sparkpilot
