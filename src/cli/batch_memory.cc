#include "cli/batch_memory.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sparkpilot::cli {
namespace {

// On the line through two points.
double line_at(int64_t a, int64_t bytes_a, int64_t b, int64_t bytes_b, int64_t batch) {
  const double slope = static_cast<double>(bytes_b - bytes_a) / static_cast<double>(b - a);
  return static_cast<double>(bytes_a) + slope * static_cast<double>(batch - a);
}

}  // namespace

int64_t largest_on_line(int64_t a, int64_t bytes_a, int64_t b, int64_t bytes_b, int64_t bytes) {
  const double slope = std::max(1.0, static_cast<double>(bytes_b - bytes_a) / static_cast<double>(b - a));
  const double left = static_cast<double>(bytes) - static_cast<double>(bytes_a);
  return std::max<int64_t>(0, a + static_cast<int64_t>(std::floor(left / slope)));
}

int64_t BatchMemory::bytes(int64_t batch) const {
  const double activations = line_at(a_.batch, a_.activations, b_.batch, b_.activations, batch);
  const double kept = limit_ > 0 ? std::min(activations, static_cast<double>(limit_)) : activations;
  return static_cast<int64_t>(kept + line_at(a_.batch, a_.rest, b_.batch, b_.rest, batch));
}

int64_t BatchMemory::fitting(int64_t room, int64_t more) const {
  const auto nine_tenths = static_cast<int64_t>(0.9 * static_cast<double>(room)) - more;
  const auto fits = [&](int64_t activations_a, int64_t activations_b) {
    return largest_on_line(a_.batch, a_.rest + activations_a, b_.batch, b_.rest + activations_b, nine_tenths);
  };
  const int64_t without = fits(a_.activations, b_.activations);
  return limit_ > 0 ? std::max(without, fits(limit_, limit_)) : without;
}

std::string fits_text(int64_t batch) {
  return batch > 0 ? fmt::format("a batch of {} fits", batch) : "not even a batch of 1 fits";
}

}  // namespace sparkpilot::cli
