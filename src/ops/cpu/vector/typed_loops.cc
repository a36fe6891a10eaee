#include "ops/cpu/vector/typed_loops.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/typed_loops.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

template <typename T>
HWY_INLINE void compare(Comparison op, const void* left, const void* right, bool* out, int64_t n) {
  const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
  switch (op) {
    case Comparison::equal:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] == b[i];
      break;
    case Comparison::greater:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] > b[i];
      break;
    case Comparison::greater_or_equal:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] >= b[i];
      break;
    case Comparison::less:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] < b[i];
      break;
    case Comparison::less_or_equal:
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] <= b[i];
      break;
  }
}

void compare_impl(Comparison op, DType dtype, const void* a, const void* b, bool* out, int64_t n) {
  switch (dtype) {
    case DType::f32: return compare<float>(op, a, b, out, n);
    case DType::f64: return compare<double>(op, a, b, out, n);
    case DType::i8: return compare<int8_t>(op, a, b, out, n);
    case DType::i16: return compare<int16_t>(op, a, b, out, n);
    case DType::i32: return compare<int32_t>(op, a, b, out, n);
    case DType::i64: return compare<int64_t>(op, a, b, out, n);
    case DType::boolean:
    case DType::u8: return compare<uint8_t>(op, a, b, out, n);
    case DType::u16: return compare<uint16_t>(op, a, b, out, n);
    case DType::u32: return compare<uint32_t>(op, a, b, out, n);
    case DType::u64: return compare<uint64_t>(op, a, b, out, n);
    default: break;
  }
}

// Replaces short types, whose products would overflow the int that they are promoted to.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <Integers kOp, typename T>
HWY_INLINE T combine(T a, T b) {
  const auto u = static_cast<Wrapping<T>>(a), v = static_cast<Wrapping<T>>(b);
  switch (kOp) {
    case Integers::add: return static_cast<T>(u + v);
    case Integers::sub: return static_cast<T>(u - v);
    case Integers::rsub: return static_cast<T>(v - u);
    case Integers::mul: return static_cast<T>(u * v);
    case Integers::max: return a > b ? a : b;
    case Integers::min: return a < b ? a : b;
    case Integers::bit_and: return static_cast<T>(a & b);
    case Integers::bit_or: return static_cast<T>(a | b);
    default: return static_cast<T>(a ^ b);
  }
}

template <Integers kOp, typename T>
HWY_INLINE void integers(const void* left, const void* right, bool b_steps, void* result, int64_t n) {
  const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
  T* out = static_cast<T*>(result);
  if (b_steps) {
    for (int64_t i = 0; i < n; ++i) out[i] = combine<kOp>(a[i], b[i]);
  } else {
    const T one = *b;
    for (int64_t i = 0; i < n; ++i) out[i] = combine<kOp>(a[i], one);
  }
}

// Operations for which only the width of the type matters.
template <Integers kOp>
HWY_INLINE void integers_by_width(DType dtype, const void* a, const void* b, bool b_steps, void* out, int64_t n) {
  switch (bits(dtype)) {
    case 8: return integers<kOp, uint8_t>(a, b, b_steps, out, n);
    case 16: return integers<kOp, uint16_t>(a, b, b_steps, out, n);
    case 32: return integers<kOp, uint32_t>(a, b, b_steps, out, n);
    default: return integers<kOp, uint64_t>(a, b, b_steps, out, n);
  }
}

template <Integers kOp>
HWY_INLINE void integers_by_type(DType dtype, const void* a, const void* b, bool b_steps, void* out, int64_t n) {
  switch (dtype) {
    case DType::i8: return integers<kOp, int8_t>(a, b, b_steps, out, n);
    case DType::i16: return integers<kOp, int16_t>(a, b, b_steps, out, n);
    case DType::i32: return integers<kOp, int32_t>(a, b, b_steps, out, n);
    case DType::i64: return integers<kOp, int64_t>(a, b, b_steps, out, n);
    default: return integers_by_width<kOp>(dtype, a, b, b_steps, out, n);
  }
}

void integers_impl(Integers op, DType dtype, const void* a, const void* b, bool b_steps, void* out, int64_t n) {
  switch (op) {
    case Integers::add: return integers_by_width<Integers::add>(dtype, a, b, b_steps, out, n);
    case Integers::sub: return integers_by_width<Integers::sub>(dtype, a, b, b_steps, out, n);
    case Integers::rsub: return integers_by_width<Integers::rsub>(dtype, a, b, b_steps, out, n);
    case Integers::mul: return integers_by_width<Integers::mul>(dtype, a, b, b_steps, out, n);
    case Integers::max: return integers_by_type<Integers::max>(dtype, a, b, b_steps, out, n);
    case Integers::min: return integers_by_type<Integers::min>(dtype, a, b, b_steps, out, n);
    case Integers::bit_and: return integers_by_width<Integers::bit_and>(dtype, a, b, b_steps, out, n);
    case Integers::bit_or: return integers_by_width<Integers::bit_or>(dtype, a, b, b_steps, out, n);
    case Integers::bit_xor: return integers_by_width<Integers::bit_xor>(dtype, a, b, b_steps, out, n);
  }
}

// By masks: with random conditions a branch would be mispredicted half of the time.
template <typename T>
HWY_INLINE void select(const bool* condition, const void* left, const void* right, void* result, int64_t n) {
  const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
  T* out = static_cast<T*>(result);
  for (int64_t i = 0; i < n; ++i) {
    const T keep = static_cast<T>(T{0} - static_cast<T>(condition[i]));
    out[i] = static_cast<T>((a[i] & keep) | (b[i] & ~keep));
  }
}

void select_impl(int64_t bytes, const bool* condition, const void* a, const void* b, void* out, int64_t n) {
  switch (bytes) {
    case 1: return select<uint8_t>(condition, a, b, out, n);
    case 2: return select<uint16_t>(condition, a, b, out, n);
    case 4: return select<uint32_t>(condition, a, b, out, n);
    default: return select<uint64_t>(condition, a, b, out, n);
  }
}

template <typename To, typename From>
HWY_INLINE void cast(const void* source, void* result, int64_t n) {
  const From* in = static_cast<const From*>(source);
  To* out = static_cast<To*>(result);
  if constexpr (std::is_same_v<To, bool>) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] != From{};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The bounds as floats: the upper one is the first number that is too large.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From high = static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    for (int64_t i = 0; i < n; ++i) {
      const From x = in[i] == in[i] ? in[i] : From{0};
      const From inside = x < low ? low : x < high ? x : From{0};
      out[i] = x < high ? static_cast<To>(inside) : std::numeric_limits<To>::max();
    }
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
  }
}

template <typename From>
HWY_INLINE void cast_from(const void* in, DType to, void* out, int64_t n) {
  switch (to) {
    case DType::f32: return cast<float, From>(in, out, n);
    case DType::u8: return cast<uint8_t, From>(in, out, n);
    case DType::i32: return cast<int32_t, From>(in, out, n);
    case DType::i64: return cast<int64_t, From>(in, out, n);
    case DType::boolean: return cast<bool, From>(in, out, n);
    default: return;
  }
}

void cast_impl(DType from, const void* in, DType to, void* out, int64_t n) {
  switch (from) {
    case DType::f32: return cast_from<float>(in, to, out, n);
    case DType::boolean:
    case DType::u8: return cast_from<uint8_t>(in, to, out, n);
    case DType::i32: return cast_from<int32_t>(in, to, out, n);
    case DType::i64: return cast_from<int64_t>(in, to, out, n);
    default: return;
  }
}

template <bool kMax, bool kLast>
HWY_INLINE void extreme(const float* x, int64_t at, float* best, int64_t* index, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = best[i];
    const bool further = kMax ? (kLast ? a >= b : a > b) : (kLast ? a <= b : a < b);
    const bool moves = b == b ? further | (a != a) : kLast & (a != a);
    best[i] = moves ? a : b;
    index[i] = moves ? at : index[i];
  }
}

void extreme_impl(bool max, bool last, const float* x, int64_t at, float* best, int64_t* index, int64_t n) {
  if (max && last) extreme<true, true>(x, at, best, index, n);
  else if (max) extreme<true, false>(x, at, best, index, n);
  else if (last) extreme<false, true>(x, at, best, index, n);
  else extreme<false, false>(x, at, best, index, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(compare_impl);
HWY_EXPORT(integers_impl);
HWY_EXPORT(select_impl);
HWY_EXPORT(cast_impl);
HWY_EXPORT(extreme_impl);

void compare_n(Comparison op, DType dtype, const void* a, const void* b, bool* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(compare_impl)(op, dtype, a, b, out, n);
}
void integers_n(Integers op, DType dtype, const void* a, const void* b, bool b_steps, void* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(integers_impl)(op, dtype, a, b, b_steps, out, n);
}
void select_n(int64_t bytes, const bool* condition, const void* a, const void* b, void* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(select_impl)(bytes, condition, a, b, out, n);
}
bool can_cast_n(DType from, DType to) {
  using Types = TypeList<float, uint8_t, int32_t, int64_t, bool>;
  return contains(Types{}, from) && contains(Types{}, to);
}
void cast_n(DType from, const void* in, DType to, void* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(cast_impl)(from, in, to, out, n);
}
void extreme_n(bool max, bool last, const float* x, int64_t at, float* best, int64_t* index, int64_t n) {
  HWY_DYNAMIC_DISPATCH(extreme_impl)(max, last, x, at, best, index, n);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
