#include "ops/cpu/vector/vector_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/vector_binary.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

struct Add {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Sub {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Sub(a, b);
  }
};
struct Mul {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
struct Div {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Div(a, b);
  }
};
// A comparison with NaN is false, so a NaN in b falls through to b, and one in a is kept by the second choice.
struct Max {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Gt(a, b), a, b));
  }
};
struct Min {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Lt(a, b), a, b));
  }
};

// How a loop reads an operand's lanes: from an array, or the same number in all.
struct Array {
  const float* p;
  template <class D>
  HWY_INLINE hn::Vec<D> full(D d, int64_t i) const {
    return hn::LoadU(d, p + i);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> first(D d, int64_t i, size_t n) const {
    return load_first(d, p + i, n);
  }
};
struct Scalar {
  float value;
  template <class D>
  HWY_INLINE hn::Vec<D> full(D d, int64_t) const {
    return hn::Set(d, value);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> first(D d, int64_t, size_t) const {
    return hn::Set(d, value);
  }
};

template <class Fn, class A, class B>
HWY_INLINE void map2(const Fn& fn, A a, B b, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(fn(a.full(d, i), b.full(d, i)), d, out + i);
  if (i < n) {
    const auto left = static_cast<size_t>(n - i);
    store_first(d, fn(a.first(d, i, left), b.first(d, i, left)), out + i, left);
  }
}

template <class Run>
HWY_INLINE void with_op(BinaryMath op, const Run& run) {
  switch (op) {
    case BinaryMath::add: return run(Add{});
    case BinaryMath::sub: return run(Sub{});
    case BinaryMath::mul: return run(Mul{});
    case BinaryMath::div: return run(Div{});
    case BinaryMath::max: return run(Max{});
    case BinaryMath::min: return run(Min{});
  }
}

template <class A, class B>
struct Map2 {
  A a;
  B b;
  float* out;
  int64_t n;
  template <class Fn>
  void operator()(const Fn& fn) const {
    map2(fn, a, b, out, n);
  }
};

struct Rows {
  const float *a, *b;
  float* out;
  int64_t rows, n;
  template <class Fn>
  void operator()(const Fn& fn) const {
    for (int64_t r = 0; r < rows; ++r) map2(fn, Array{a + r * n}, Array{b}, out + r * n, n);
  }
};

void binary_impl(BinaryMath op, const float* a, const float* b, float* out, int64_t n) {
  with_op(op, Map2<Array, Array>{{a}, {b}, out, n});
}
void vector_scalar_impl(BinaryMath op, const float* a, float b, float* out, int64_t n) {
  with_op(op, Map2<Array, Scalar>{{a}, {b}, out, n});
}
void scalar_vector_impl(BinaryMath op, float a, const float* b, float* out, int64_t n) {
  with_op(op, Map2<Scalar, Array>{{a}, {b}, out, n});
}
void rows_binary_impl(BinaryMath op, const float* a, const float* b, float* out, int64_t rows, int64_t n) {
  with_op(op, Rows{a, b, out, rows, n});
}

template <class A, class B, class C>
HWY_INLINE void multiply_add(A a, B b, C c, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(a.full(d, i), b.full(d, i), c.full(d, i)), d, out + i);
  if (i < n) {
    const auto left = static_cast<size_t>(n - i);
    store_first(d, hn::MulAdd(a.first(d, i, left), b.first(d, i, left), c.first(d, i, left)), out + i, left);
  }
}

void multiply_add_impl(const float* a, const float* b, const float* c, float* out, int64_t n) {
  multiply_add(Array{a}, Array{b}, Array{c}, out, n);
}
void scale_shift_impl(const float* a, float scale, float shift, float* out, int64_t n) {
  multiply_add(Array{a}, Scalar{scale}, Scalar{shift}, out, n);
}
void rows_scale_shift_impl(const float* a, const float* scale, const float* shift, float* out, int64_t rows,
                           int64_t n) {
  for (int64_t r = 0; r < rows; ++r) multiply_add(Array{a + r * n}, Array{scale}, Array{shift}, out + r * n, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(binary_impl);
HWY_EXPORT(vector_scalar_impl);
HWY_EXPORT(scalar_vector_impl);
HWY_EXPORT(rows_binary_impl);
HWY_EXPORT(multiply_add_impl);
HWY_EXPORT(scale_shift_impl);
HWY_EXPORT(rows_scale_shift_impl);

void vector_binary(BinaryMath op, const float* a, const float* b, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(binary_impl)(op, a, b, out, n);
}
void vector_scalar_binary(BinaryMath op, const float* a, float b, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(vector_scalar_impl)(op, a, b, out, n);
}
void scalar_vector_binary(BinaryMath op, float a, const float* b, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(scalar_vector_impl)(op, a, b, out, n);
}
void rows_binary(BinaryMath op, const float* a, const float* b, float* out, int64_t rows, int64_t n) {
  HWY_DYNAMIC_DISPATCH(rows_binary_impl)(op, a, b, out, rows, n);
}
void rows_scale_shift(const float* a, const float* scale, const float* shift, float* out, int64_t rows, int64_t n) {
  HWY_DYNAMIC_DISPATCH(rows_scale_shift_impl)(a, scale, shift, out, rows, n);
}
void vector_scale_shift(const float* a, float scale, float shift, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(scale_shift_impl)(a, scale, shift, out, n);
}
void accumulate_squares(const float* a, float* sum, int64_t n) {
  HWY_DYNAMIC_DISPATCH(multiply_add_impl)(a, a, sum, sum, n);
}
void vector_multiply_add(const float* a, const float* b, const float* c, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(multiply_add_impl)(a, b, c, out, n);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE
