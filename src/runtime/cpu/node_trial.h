// One node, computed by any of its kernels on operands of its own, for the sake of its time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ir/launch.h"
#include "runtime/cpu/turns.h"

namespace sparkpilot {

class NodeTrial {
 public:
  // Inputs that are no constants hold small numbers of both signs, those that are 32- and 64-bit integers zero, which
  // is an index everywhere. `cold_bytes`: as many are read between two runs by each thread, so that the node finds its
  // weights as it does in a network whose other weights were read meanwhile; 0: all stays in cache. `problem` and what
  // it refers to must outlive this object.
  NodeTrial(const Problem& problem, int64_t cold_bytes, Clock clock);

  // Prepares a kernel that accepts the node, and runs it once; ways are numbered in that order. thread_count() must be
  // the same here and in time_ns(). What fails is a way without a time.
  void add(const Kernel& kernel);
  // How long a run takes, in nanoseconds; kNoTime where it fails. Short ones are run several times in a row.
  double time_ns(size_t way);

 private:
  struct Way {
    const Kernel* kernel;
    std::unique_ptr<KernelState> state;
    int64_t runs = 1;  // in a row
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
  std::vector<std::pair<View, Tensor>> filled_;  // inputs, and what is repeated in them
  std::unique_ptr<Buffer> workspace_, other_;
  std::vector<Way> ways_;
  std::vector<int64_t> sums_;  // by thread, so that reading `other_` is not left out
};

}  // namespace sparkpilot
