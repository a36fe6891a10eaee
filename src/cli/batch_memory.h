// The memory of training by its batch, foretold from the plans for two batches.
#pragma once

#include <cstdint>
#include <string>

namespace sparkpilot::cli {

// What grows with the batch: the activations of a step, without any limit, and what else does. In bytes.
struct BatchBytes {
  int64_t batch = 0, activations = 0, rest = 0;
};

class BatchMemory {
 public:
  // `limit`: on the activations; 0: none.
  BatchMemory(const BatchBytes& a, const BatchBytes& b, int64_t limit) : a_(a), b_(b), limit_(limit) {}

  int64_t bytes(int64_t batch) const;
  // The largest batch that with `more` bytes, which do not grow, leaves a tenth of the room; 0: none.
  int64_t fitting(int64_t room, int64_t more = 0) const;

 private:
  BatchBytes a_, b_;
  int64_t limit_;
};

// The largest batch for which the line through two points is at most `bytes`; 0: none.
int64_t largest_on_line(int64_t a, int64_t bytes_a, int64_t b, int64_t bytes_b, int64_t bytes);

// "a batch of 12 fits", "not even a batch of 1 fits".
std::string fits_text(int64_t batch);

}  // namespace sparkpilot::cli
