#include "ops/cuda/strided.h"

#include <limits>

#include "base/error.h"

namespace sparkpilot::cuda {

Divisor make_divisor(long long size) {
  if (size < 1 || size > std::numeric_limits<int>::max()) fail_internal("a dimension of {}", size);
  const auto d = static_cast<uint64_t>(size);
  unsigned shift = 0;
  while ((uint64_t{1} << shift) < d) ++shift;
  const uint64_t multiplier = (uint64_t{1} << 32) * ((uint64_t{1} << shift) - d) / d + 1;
  return {static_cast<unsigned>(d), static_cast<unsigned>(multiplier), shift};
}

int64_t StridedLoops::elements() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

StridedLoops StridedLoops::merged() const {
  StridedLoops out;
  out.strides.resize(strides.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    bool joins = !out.sizes.empty();
    for (size_t k = 0; k < strides.size() && joins; ++k) joins = out.strides[k].back() == strides[k][i] * sizes[i];
    if (joins) out.sizes.back() *= sizes[i];
    else out.sizes.push_back(sizes[i]);
    for (size_t k = 0; k < strides.size(); ++k) {
      if (joins) out.strides[k].back() = strides[k][i];
      else out.strides[k].push_back(strides[k][i]);
    }
  }
  if (out.sizes.empty()) {  // one element
    out.sizes.push_back(1);
    for (std::vector<int64_t>& steps : out.strides) steps.push_back(1);
  }
  return out;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= sizes[i]) strides[i] = step;
  return strides;
}

std::vector<int64_t> broadcast_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& to) {
  const std::vector<int64_t> own = contiguous_strides(sizes);
  std::vector<int64_t> strides(to.size());
  for (size_t i = 0; i < sizes.size(); ++i) strides[to.size() - sizes.size() + i] = sizes[i] == 1 ? 0 : own[i];
  return strides;
}

Dimensions make_dimensions(const StridedLoops& merged) {
  if (merged.sizes.size() > kMostDimensions || merged.elements() > std::numeric_limits<int>::max()) {
    fail_internal("{} dimensions of {} elements for a kernel", merged.sizes.size(), merged.elements());
  }
  Dimensions out;
  out.rank = static_cast<int>(merged.sizes.size());
  for (size_t i = 0; i < merged.sizes.size(); ++i)
    out.sizes[merged.sizes.size() - 1 - i] = make_divisor(merged.sizes[i]);
  return out;
}

void set_strides(int (&to)[kMostDimensions], const std::vector<int64_t>& strides) {
  for (int& stride : to) stride = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t stride = strides[strides.size() - 1 - i];
    if (stride < std::numeric_limits<int>::min() || stride > std::numeric_limits<int>::max()) {
      fail_internal("a stride of {}", stride);
    }
    to[i] = static_cast<int>(stride);
  }
}

}  // namespace sparkpilot::cuda
