// Batches of samples, read in the background while a step computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tensor/tensor.h"
#include "train/sampler.h"
#include "train/samples.h"

namespace sparkpilot::train {

// One thread reads, `ahead` batches before they are asked for. The object itself is used by one thread.
class Loader {
 public:
  // Batches of `batch` samples in the sampler's order, from `position` on; epochs follow one another, so a batch may
  // hold the end of one and the beginning of the next. `skip` samples between two batches are left to others. `samples`
  // must outlive the loader. Fails (user) if the batch or `ahead` is less than 1.
  Loader(const Samples& samples, Sampler sampler, int64_t batch, int64_t position = 0, int ahead = 2, int64_t skip = 0);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch: a tensor [batch, ...] for each field, valid until the next call. Throws what reading threw, when
  // the batch that could not be read is reached.
  std::span<const Tensor> next();
  // The last batch again, and its samples in its order.
  std::span<const Tensor> current() const { return last().fields; }
  std::span<const int64_t> indices() const { return last().indices; }
  // Time that next() waited, in nanoseconds.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  struct Batch {
    std::vector<Tensor> fields;
    std::vector<int64_t> indices;
    std::exception_ptr error;
  };

  const Batch& last() const;
  void read_all();
  void read(Batch& into);

  const Samples& samples_;
  Sampler sampler_;
  int64_t position_, skip_;
  int64_t epoch_ = -1;  // that was begun
  std::vector<Batch> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t read_ = 0, taken_ = 0;  // batches so far
  bool end_ = false;
  int64_t waited_ns_ = 0;
  std::thread thread_;
};

}  // namespace sparkpilot::train
