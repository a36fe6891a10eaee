// Where training gets its samples from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace sparkpilot::train {

// Of one sample, without the batch axis.
struct Field {
  std::string name;
  DType dtype;
  Shape shape;
};

class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::span<const Field> fields() const = 0;
  virtual int64_t size() const = 0;
  // What is read from now on belongs to this pass over the samples, where that makes a difference (augmentation). Not
  // while another thread reads.
  virtual void begin_epoch(int64_t /*epoch*/) const {}
  // Writes sample `index`, one contiguous block for each field in order. May be called by several threads.
  virtual void read(int64_t index, std::span<std::byte* const> to) const = 0;
};

// Where a field of that name is. Fails (user) if absent.
size_t place_of(std::span<const Field> fields, std::string_view name);

// Writes sample `index` as entry `entry` of a batch: a tensor for each field in order, the entries along its first
// axis.
void read_entry(const Samples& samples, int64_t index, std::span<Tensor> batch, int64_t entry);

// All fields of a sample, in their order.
std::vector<Tensor> sample_of(const Samples& samples, int64_t index);

}  // namespace sparkpilot::train
