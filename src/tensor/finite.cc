#include "tensor/finite.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "base/parallel.h"

namespace sparkpilot {
namespace {

// Detects floats whose exponent is all ones, four registers at a time. Uses the compiler's own vectors: every target
// has 16-byte ones.
template <typename T>
bool has_exponent(const std::byte* data, int64_t count, T exponent) {
  typedef T V __attribute__((vector_size(16)));
  constexpr int64_t kLanes = 16 / sizeof(T), kStep = 4 * kLanes;
  const V mask = V{} + exponent;
  V found[4] = {};
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int64_t k = 0; k < 4; ++k) {
      V v;
      std::memcpy(&v, data + (i + k * kLanes) * static_cast<int64_t>(sizeof(T)), sizeof(V));
      found[k] |= reinterpret_cast<V>((v & mask) == mask);
    }
  }
  const V all = found[0] | found[1] | found[2] | found[3];
  T any = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) any |= all[lane];
  for (; i < count; ++i) {
    T one;
    std::memcpy(&one, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    any |= static_cast<T>((one & exponent) == exponent);
  }
  return any != 0;
}

template <typename T>
bool none_has(const ConstView& view, T exponent) {
  constexpr int64_t kGrain = 1 << 16;
  const auto* data = static_cast<const std::byte*>(view.data);
  std::atomic<bool> found = false;
  parallel_for(view.elements(), kGrain, [&](int64_t begin, int64_t end) {
    if (has_exponent<T>(data + begin * static_cast<int64_t>(sizeof(T)), end - begin, exponent)) found = true;
  });
  return !found;
}

}  // namespace

bool all_finite(const ConstView& view) {
  switch (view.dtype) {
    case DType::f64: return none_has<uint64_t>(view, 0x7ff0000000000000u);
    case DType::f32: return none_has<uint32_t>(view, 0x7f800000u);
    case DType::f16: return none_has<uint16_t>(view, 0x7c00u);
    case DType::bf16: return none_has<uint16_t>(view, 0x7f80u);
    default: break;
  }
  if (!is_float(view.dtype)) return true;
  for (int64_t i = 0; i < view.elements(); ++i) {
    if (!std::isfinite(load_element(view.dtype, view.data, i))) return false;
  }
  return true;
}

}  // namespace sparkpilot
