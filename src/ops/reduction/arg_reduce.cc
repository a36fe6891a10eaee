// ArgMax and ArgMin: the index of the largest or smallest element along an axis. NaN is treated as larger (ArgMin:
// smaller) than every number; of equal elements the first is taken, or the last with `select_last_index`.
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/vector/elementwise.h"
#include "ops/cpu/vector/reduce.h"
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cuda/reduce_candidates.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::arg_reduce_ops {
namespace {

struct Axis {
  int64_t outer, size, inner;
  bool last;
  explicit Axis(const Shape& shape, const Attributes& attrs) : last(attrs.integer("select_last_index", 0) != 0) {
    const int axis = normalize_axis(attrs.integer("axis", 0), shape.rank());
    outer = shape.elements(0, axis);
    size = shape[axis];
    inner = shape.elements(axis + 1, shape.rank());
  }
};

// Whether x replaces `best`, which comes before it.
template <bool kMax, typename T>
bool beats(T x, T best, bool last) {
  if (best != best) return last && x != x;
  if (x != x) return true;
  return (kMax ? x > best : x < best) || (last && x == best);
}

template <bool kMax>
void run_reference(const Call& c) {
  const Axis a(c.inputs[0].shape, c.attrs());
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    using W = Compute<T>;
    const T* x = c.inputs[0].as<T>();
    int64_t* y = c.outputs[0].as<int64_t>();
    parallel_for(a.outer * a.inner, 1 + 4096 / (a.size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* line = x + o / a.inner * a.size * a.inner + o % a.inner;
        int64_t at = 0;
        for (int64_t i = 1; i < a.size; ++i) {
          if (beats<kMax, W>(line[i * a.inner], line[at * a.inner], a.last)) at = i;
        }
        y[o] = at;
      }
    });
  });
}

// Rows of f32 or integers: finds the extreme first, vectorised, then its index.
Acceptance accepts_simd(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  if (is_float(dtype) && dtype != DType::f32) return fmt::format("{} input", name(dtype));
  const Axis a(p.inputs[0].shape, p.attrs());
  if (a.inner != 1) return "not along the last axis";
  if (!is_float(dtype) && a.size < 32) return "rows are short";
  return true;
}
template <bool kMax>
void run_simd(const Call& c) {
  const Axis a(c.inputs[0].shape, c.attrs());
  const DType dtype = c.inputs[0].dtype;
  int64_t* y = c.outputs[0].as<int64_t>();
  dispatch(NumericTypes{}, dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    parallel_for(a.outer, 1 + 16384 / (a.size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* row = x + o * a.size;
        T best{};
        if constexpr (std::is_same_v<T, float>) best = kMax ? row_max(row, a.size) : row_min(row, a.size);
        else integer_extreme(kMax, dtype, row, a.size, &best);
        const auto here = [best](T v) { return v == best || (best != best && v != v); };
        int64_t at = a.last ? a.size - 1 : 0;
        while (!here(row[at])) at += a.last ? -1 : 1;
        y[o] = at;
      }
    });
  });
}

// An axis that is not the last: the lines of up to 256 adjacent outputs at once.
constexpr int64_t kColumns = 256;
Acceptance accepts_lines(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (Axis(p.inputs[0].shape, p.attrs()).inner <= 1) return "along the last axis";
  return true;
}
template <bool kMax>
void run_lines(const Call& c) {
  const Axis a(c.inputs[0].shape, c.attrs());
  const int64_t blocks = (a.inner + kColumns - 1) / kColumns;
  parallel_for(a.outer * blocks, 1 + 16384 / (a.size * kColumns), [&](int64_t begin, int64_t end) {
    alignas(64) float best[kColumns];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % blocks * kColumns, n = std::min(kColumns, a.inner - column);
      const float* x = c.inputs[0].as<float>() + task / blocks * a.size * a.inner + column;
      int64_t* y = c.outputs[0].as<int64_t>() + task / blocks * a.inner + column;
      std::copy_n(x, n, best);
      std::fill_n(y, n, 0);
      for (int64_t i = 1; i < a.size; ++i) extreme_n(kMax, a.last, x + i * a.inner, i, best, y, n);
    }
  });
}

void infer(InferContext& c) {
  expect_dtype(c, 0, NumericTypes{}, "a number");
  const int axis = normalize_axis(c.attrs.integer("axis", 0), c.rank(0));
  if (c.shape(0)[axis] == 0) fail("axis {} of {} has no elements", axis, c.shape(0).str());
  const bool keep = c.attrs.integer("keepdims", 1) != 0;
  c.output(0, DType::i64, keep ? c.shape(0).with(axis, 1) : c.shape(0).removed(axis));
}

std::vector<OpCase> cases() {
  const Tensor ties = Tensor::of<float>({3, 4}, {1, 2, 2, 1, NAN, 3, NAN, 3, -INFINITY, -INFINITY, INFINITY, INFINITY});
  const auto given = CaseInput::value(ties);
  return {{"rows", {CaseInput::of({5, 133})}, {{"axis", int64_t{1}}}},
          {"first", {CaseInput::of({4, 5, 7})}, {}},
          {"middle", {CaseInput::of({2, 9, 3})}, {{"axis", int64_t{-2}}, {"keepdims", int64_t{0}}}},
          {"ties", {given}, {{"axis", int64_t{1}}}},
          {"ties_last", {given}, {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}}},
          {"ties_lines", {CaseInput::value(ties.reshaped({4, 3}))}, {{"axis", int64_t{0}}}},
          {"ties_lines_last",
           {CaseInput::value(ties.reshaped({4, 3}))},
           {{"axis", int64_t{0}}, {"select_last_index", int64_t{1}}}},
          {"channels", {CaseInput::of({2, 5, 300})}, {{"axis", int64_t{1}}}},
          {"f16", {CaseInput::of({3, 40}, DType::f16)}, {{"axis", int64_t{1}}}},
          {"u8", {CaseInput::range({3, 40}, 0, 5, DType::u8)}, {{"axis", int64_t{1}}}},
          {"i64_last",
           {CaseInput::range({7, 601}, -9, 9, DType::i64)},
           {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}}},
          {"i16", {CaseInput::range({4, 300}, -9000, 9000, DType::i16)}, {{"axis", int64_t{-1}}}},
          {"u32_first", {CaseInput::range({40, 3}, 0, 5, DType::u32)}, {}}};
}

double cost(const Problem& p) { return static_cast<double>(p.inputs[0].shape.elements()); }

constexpr AttrSpec kAttrs[] = {
    {"axis", AttrType::integer}, {"keepdims", AttrType::integer}, {"select_last_index", AttrType::integer}};
AxisSource axes(const Problem& p, int, int axis, size_t) {
  const int along = normalize_axis(p.attrs().integer("axis", 0), p.inputs[0].shape.rank());
  if (p.attrs().integer("keepdims", 1) != 0) return axis == along ? AxisSource{} : same_axis(axis);
  return same_axis(axis < along ? axis : axis + 1);
}

template <bool kMax>
constexpr Kernel kKernels[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd<kMax>},
                               {.name = "lines", .accepts = accepts_lines, .run = run_lines<kMax>},
                               {.name = "reference", .run = run_reference<kMax>}};

template <bool kMax>
OpDef arg_op(std::string_view name, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .since = 1,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attributes = kAttrs,
          .infer = infer,
          .axes = axes,
          .cpu = kKernels<kMax>,
          .cuda = kMax ? cuda::kArgMax : cuda::kArgMin,
          .no_gradient = no_gradient::kNotFloats,
          .cost = cost,
          .cases = cases};
}

const OpDef kOps[] = {arg_op<true>("ArgMax", "The index of the largest element along an axis."),
                      arg_op<false>("ArgMin", "The index of the smallest element along an axis.")};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::arg_reduce_ops
