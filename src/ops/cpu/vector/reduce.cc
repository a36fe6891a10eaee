#include "ops/cpu/vector/reduce.h"

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {

ReducePlan::ReducePlan(const Shape& shape, uint32_t axes) {
  const auto reduced = [&](int axis) { return (axes >> axis & 1) != 0; };
  for (int axis = 0; axis < shape.rank(); ++axis) (reduced(axis) ? count_ : outputs_) *= shape[axis];
  int axis = shape.rank() - 1;
  while (axis >= 0 && shape[axis] == 1) --axis;
  if (axis >= 0) inner_reduced_ = reduced(axis);
  int64_t stride = 1;
  for (; axis >= 0 && (reduced(axis) == inner_reduced_ || shape[axis] == 1); --axis) stride *= shape[axis];
  inner_ = stride;
  // The other axes from the innermost out, so the groups are reversed afterwards.
  const Axes* previous = nullptr;
  for (; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    Axes& group = reduced(axis) ? reduced_ : kept_;
    if (previous == &group) {
      group.dims[at(group.rank - 1)] *= shape[axis];
    } else {
      group.dims[at(group.rank)] = shape[axis];
      group.strides[at(group.rank++)] = stride;
    }
    previous = &group;
    stride *= shape[axis];
  }
  for (Axes* group : {&kept_, &reduced_}) {
    std::reverse(group->dims.begin(), group->dims.begin() + group->rank);
    std::reverse(group->strides.begin(), group->strides.begin() + group->rank);
  }
}

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Outputs or elements processed at a time: a few blocks stay in the first-level cache.
constexpr int64_t kColumns = 256;
constexpr int64_t kDirectRun = 4096;  // elements of a run that is summed without blocks
constexpr int64_t kShortRow = 16;     // elements whose sum takes less time than a call
// Rows summed before they are added to the total, so that rounding errors do not accumulate.
constexpr int64_t kRowsInPart = 64;

float start(Reduce kind) {
  if (kind == Reduce::max) return -kInfinity;
  return kind == Reduce::min ? kInfinity : 0;
}

// The contribution of a run of elements to an output.
float of_run(Reduce kind, const float* x, int64_t n) {
  switch (kind) {
    case Reduce::max: return row_max(x, n);
    case Reduce::min: return row_min(x, n);
    case Reduce::l1: return row_sum_abs(x, n);
    case Reduce::l2:
    case Reduce::sum_square: return row_sum_squares(x, n);
    default: return row_sum(x, n);
  }
}

float combine(Reduce kind, float a, float b) {
  if (kind == Reduce::max) return std::isnan(a) || a > b ? a : b;
  if (kind == Reduce::min) return std::isnan(a) || a < b ? a : b;
  return a + b;
}

float finish(Reduce kind, float value, int64_t count) {
  switch (kind) {
    case Reduce::mean: return value / static_cast<float>(count);
    case Reduce::l2: return std::sqrt(value);
    case Reduce::log_sum: return std::log(value);
    default: return value;
  }
}

// Elements [at, at + n) as floats: in place if they are floats already.
const float* floats(const ConstView& x, int64_t at, float* scratch, int64_t n) {
  if (x.dtype == DType::f32) return x.as<float>() + at;
  floats_from(x.dtype, x.data, at, scratch, n);
  return scratch;
}

// Calls fn(x, n) for the runs of one output: whole runs of f32, blocks of the other types.
template <typename Fn>
void each_block(const ReducePlan& plan, const ConstView& x, int64_t base, float* scratch, const Fn& fn) {
  const int64_t step = x.dtype == DType::f32 ? plan.inner() : kColumns;
  plan.each_run(base, [&](int64_t at) {
    for (int64_t i = 0; i < plan.inner(); i += step) {
      const int64_t n = std::min(step, plan.inner() - i);
      fn(floats(x, at + i, scratch, n), n);
    }
  });
}

float reduce_one(Reduce kind, const ReducePlan& plan, const ConstView& x, int64_t base) {
  const bool exponentials = kind == Reduce::log_sum_exp;
  if (plan.single_run() && plan.inner() <= kDirectRun && x.dtype == DType::f32 && !exponentials) {
    return static_cast<float>(finish(kind, of_run(kind, x.as<float>() + base, plan.inner()), plan.count()));
  }
  alignas(64) float scratch[kColumns];
  const Reduce first = exponentials ? Reduce::max : kind;
  float value = start(first);
  each_block(plan, x, base, scratch,
             [&](const float* p, int64_t n) { value = combine(first, value, of_run(first, p, n)); });
  if (!exponentials) return finish(kind, value, plan.count());
  if (std::isnan(value)) return value;
  const float shift = std::isinf(value) ? 0 : value;
  float sum = 0;
  each_block(plan, x, base, scratch, [&](const float* p, int64_t length) {
    for (int64_t i = 0; i < length; i += kColumns) {
      const int64_t n = std::min(kColumns, length - i);
      sum += exp_sub_sum(p + i, shift, scratch, n);
    }
  });
  return shift + std::log(sum);
}

// y[o] = the o'th run of n elements reduced by `join`, for the outputs [begin, end) of f32.
template <typename Join>
void short_rows(const ReducePlan& plan, const float* x, float* y, int64_t begin, int64_t end, float first, Join join) {
  const int64_t n = plan.inner();
  for (int64_t o = begin; o < end; ++o) {
    const float* row = x + plan.base(o);
    float value = first;
    for (int64_t i = 0; i < n; ++i) value = join(value, row[i]);
    y[o] = value;
  }
}

void reduce_short_rows(Reduce kind, const ReducePlan& plan, const float* x, float* y, int64_t begin, int64_t end) {
  const auto rows = [&](auto join) { short_rows(plan, x, y, begin, end, start(kind), join); };
  switch (kind) {
    case Reduce::max: rows([](float a, float b) { return std::isnan(a) || a > b ? a : b; }); break;
    case Reduce::min: rows([](float a, float b) { return std::isnan(a) || a < b ? a : b; }); break;
    case Reduce::l1: rows([](float a, float b) { return a + std::abs(b); }); break;
    case Reduce::l2:
    case Reduce::sum_square: rows([](float a, float b) { return a + b * b; }); break;
    default: rows([](float a, float b) { return a + b; });
  }
  for (int64_t o = begin; o < end; ++o) y[o] = finish(kind, y[o], plan.count());
}

BinaryMath joined_by(Reduce kind) {
  return kind == Reduce::max ? BinaryMath::max : kind == Reduce::min ? BinaryMath::min : BinaryMath::add;
}

// One row of outputs, columns [column, column + n), n <= kColumns.
class Columns {
 public:
  Columns(Reduce kind, const ReducePlan& plan, const ConstView& x) : kind_(kind), plan_(plan), x_(x) {}

  void reduce(int64_t base, int64_t n, float* total) {
    const bool exponentials = kind_ == Reduce::log_sum_exp;
    accumulate(exponentials ? Reduce::max : kind_, base, n, total);
    if (!exponentials) {
      for (int64_t i = 0; i < n; ++i) total[i] = finish(kind_, total[i], plan_.count());
      return;
    }
    alignas(64) float shift[kColumns], row[kColumns];
    for (int64_t i = 0; i < n; ++i) shift[i] = std::isinf(total[i]) ? 0 : total[i];
    std::fill_n(total, n, 0.0f);
    plan_.each_run(base, [&](int64_t at) {
      vector_binary(BinaryMath::sub, floats(x_, at, row, n), shift, row, n);
      vector_unary(UnaryMath::exp, row, row, n);
      vector_binary(BinaryMath::add, total, row, total, n);
    });
    vector_unary(UnaryMath::log, total, total, n);
    vector_binary(BinaryMath::add, total, shift, total, n);
  }

  // The columns of the runs [first, last) before finish(). total: room for kColumns.
  void accumulate(Reduce kind, int64_t base, int64_t n, float* total, int64_t first, int64_t last) {
    alignas(64) float part[kColumns], scratch[kColumns];
    const BinaryMath join = joined_by(kind);
    // Narrow rows side by side are added as one wide row, whose parts are added at the end.
    const bool whole = n == plan_.inner();
    const int64_t most =
                      whole ? std::clamp<int64_t>(std::min(plan_.touching_runs(), last - first), 1, kColumns / n) : 1,
                  width = most * n;
    std::fill_n(total, width, start(kind));
    const bool in_parts = last - first > kRowsInPart * most;
    float* const sums = in_parts ? part : total;
    if (in_parts) std::fill_n(part, width, start(kind));
    int64_t rows = 0;
    plan_.each_runs(base, first, last, most, [&](int64_t at, int64_t count) {
      const int64_t wide = count * n;
      const float* row = floats(x_, at, scratch, wide);
      if (kind == Reduce::l2 || kind == Reduce::sum_square) {
        accumulate_squares(row, sums, wide);
      } else {
        if (kind == Reduce::l1) vector_unary(UnaryMath::abs, row, scratch, wide);
        vector_binary(join, sums, kind == Reduce::l1 ? scratch : row, sums, wide);
      }
      if (in_parts && ++rows % kRowsInPart == 0) {
        vector_binary(join, total, part, total, width);
        std::fill_n(part, width, start(kind));
      }
    });
    if (in_parts) vector_binary(join, total, part, total, width);
    for (int64_t left = most; left > 1;) {
      const int64_t half = (left + 1) / 2;
      vector_binary(join, total, total + half * n, total, (left - half) * n);
      left = half;
    }
  }
  void accumulate(Reduce kind, int64_t base, int64_t n, float* total) {
    accumulate(kind, base, n, total, 0, plan_.runs());
  }

 private:
  Reduce kind_;
  const ReducePlan& plan_;
  const ConstView& x_;
};

// Several short runs an output, whose neighbours' lie side by side: the runs of many outputs are added as columns, then
// the elements of each output.
void reduce_short_runs(Reduce kind, const ReducePlan& plan, const ConstView& x, const View& y) {
  const int64_t inner = plan.inner(), width = kColumns / inner;
  const int64_t blocks = (plan.adjacent() + width - 1) / width;
  const Reduce join = kind == Reduce::max || kind == Reduce::min ? kind : Reduce::sum;
  parallel_for(plan.outputs() / plan.adjacent() * blocks, 1 + 16384 / (plan.count() * std::min(width, plan.adjacent())),
               [&](int64_t begin, int64_t end) {
                 Columns columns(kind, plan, x);
                 alignas(64) float total[kColumns];
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t first = task % blocks * width, n = std::min(width, plan.adjacent() - first);
                   const int64_t o = task / blocks * plan.adjacent() + first;
                   columns.accumulate(kind, plan.base(o), n * inner, total);
                   for (int64_t i = 0; i < n; ++i) {
                     float value = total[i * inner];
                     for (int64_t k = 1; k < inner; ++k) value = combine(join, value, total[i * inner + k]);
                     total[i] = finish(kind, value, plan.count());
                   }
                   floats_to(y.dtype, total, y.data, o, n);
                 }
               });
}

// --- integers: no rounding, so any order gives the same result
Integers integers_of(Reduce kind) {
  return kind == Reduce::max ? Integers::max : kind == Reduce::min ? Integers::min : Integers::add;
}

// Reduces the n elements at x; 0 of none. T: any type of their size.
template <typename T>
T fold(Integers op, DType dtype, const T* x, int64_t n) {
  if (n <= 0) return 0;
  alignas(64) T kept[kColumns];
  int64_t width = std::min(n, kColumns);
  std::copy_n(x, width, kept);
  for (int64_t i = width; i < n; i += width) integers_n(op, dtype, kept, x + i, true, kept, std::min(width, n - i));
  while (width > 1) {
    const int64_t half = (width + 1) / 2;
    integers_n(op, dtype, kept, kept + half, true, kept, width - half);
    width = half;
  }
  return *kept;
}

template <typename T>
void fold_runs(Integers op, const ReducePlan& plan, DType dtype, const T* x, T* y) {
  parallel_for(plan.outputs(), 1 + 16384 / plan.count(), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      bool first = true;
      plan.each_run(plan.base(o), [&](int64_t at) {
        const T value = fold(op, dtype, x + at, plan.inner());
        if (first) y[o] = value;
        else integers_n(op, dtype, y + o, &value, true, y + o, 1);
        first = false;
      });
    }
  });
}

template <typename T>
void fold_columns(Integers op, const ReducePlan& plan, DType dtype, const T* x, T* y) {
  constexpr int64_t kWide = 4 * kColumns;
  const int64_t blocks = (plan.inner() + kWide - 1) / kWide;
  parallel_for(plan.outputs() / plan.inner() * blocks, 1 + 16384 / (plan.count() * std::min(plan.inner(), kWide)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t row = task / blocks, column = task % blocks * kWide;
                   const int64_t n = std::min(kWide, plan.inner() - column);
                   T* out = y + row * plan.inner() + column;
                   bool first = true;
                   plan.each_run(plan.base(row) + column, [&](int64_t at) {
                     if (first) std::copy_n(x + at, n, out);
                     else integers_n(op, dtype, out, x + at, true, out, n);
                     first = false;
                   });
                 }
               });
}

// Calls fn(T{}) for a type of the dtype's size.
template <typename Fn>
void by_width(DType dtype, const Fn& fn) {
  switch (bits(dtype)) {
    case 8: return fn(uint8_t{});
    case 16: return fn(uint16_t{});
    case 32: return fn(uint32_t{});
    default: return fn(uint64_t{});
  }
}

}  // namespace

void reduce_integers(Reduce kind, const ReducePlan& plan, const ConstView& x, const View& y) {
  const Integers op = integers_of(kind);
  by_width(x.dtype, [&]<typename T>(T) {
    const auto* from = static_cast<const T*>(x.data);
    if (plan.inner_reduced()) fold_runs(op, plan, x.dtype, from, static_cast<T*>(y.data));
    else fold_columns(op, plan, x.dtype, from, static_cast<T*>(y.data));
  });
}

void integer_extreme(bool max, DType dtype, const void* x, int64_t n, void* best) {
  by_width(dtype, [&]<typename T>(T) {
    *static_cast<T*>(best) = fold(max ? Integers::max : Integers::min, dtype, static_cast<const T*>(x), n);
  });
}

namespace {

// Few columns of many rows: parts of the rows, as many as the shape asks for, by several threads, then their sums.
constexpr int64_t kRowParts = 16, kFewBlocks = 4;

void reduce_parts(Reduce kind, const ReducePlan& plan, const ConstView& x, const View& y) {
  const int64_t blocks = (plan.inner() + kColumns - 1) / kColumns, rows = plan.outputs() / plan.inner();
  const auto columns_of = [&](int64_t task) { return std::min(kColumns, plan.inner() - task % blocks * kColumns); };
  const auto offset_of = [&](int64_t task) { return plan.base(task / blocks) + task % blocks * kColumns; };
  alignas(64) float parts[kFewBlocks * kRowParts][kColumns];
  parallel_for(rows * blocks * kRowParts, 1, [&](int64_t begin, int64_t end) {
    Columns columns(kind, plan, x);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t task = i / kRowParts, part = i % kRowParts;
      columns.accumulate(kind, offset_of(task), columns_of(task), parts[i], plan.runs() * part / kRowParts,
                         plan.runs() * (part + 1) / kRowParts);
    }
  });
  for (int64_t task = 0; task < rows * blocks; ++task) {
    const int64_t n = columns_of(task);
    float* total = parts[task * kRowParts];
    for (int64_t i = 1; i < kRowParts; ++i) vector_binary(joined_by(kind), total, total + i * kColumns, total, n);
    for (int64_t i = 0; i < n; ++i) total[i] = finish(kind, total[i], plan.count());
    floats_to(y.dtype, total, y.data, task / blocks * plan.inner() + task % blocks * kColumns, n);
  }
}

}  // namespace

void reduce_floats(Reduce kind, const ReducePlan& plan, const ConstView& x, const View& y) {
  constexpr int64_t kLong = int64_t{1} << 17;  // elements that several threads share
  const int64_t grain = 1 + 16384 / (plan.count() + 1);
  const bool joins = kind != Reduce::log_sum_exp;  // partial results by joined_by()
  if (plan.inner_reduced() && !plan.single_run() && plan.count() > 0 && plan.inner() <= kShortRow &&
      plan.adjacent() >= kShortRow && joins) {
    return reduce_short_runs(kind, plan, x, y);
  }
  if (plan.inner_reduced()) {
    const bool is_short =
        plan.single_run() && plan.inner() <= kShortRow && x.dtype == DType::f32 && y.dtype == DType::f32 && joins;
    parallel_for(plan.outputs(), grain, [&](int64_t begin, int64_t end) {
      if (is_short) return reduce_short_rows(kind, plan, x.as<float>(), y.as<float>(), begin, end);
      for (int64_t o = begin; o < end; ++o) {
        const float value = reduce_one(kind, plan, x, plan.base(o));
        if (y.dtype == DType::f32) y.as<float>()[o] = value;
        else floats_to(y.dtype, &value, y.data, o, 1);
      }
    });
    return;
  }
  const int64_t blocks = (plan.inner() + kColumns - 1) / kColumns;
  const int64_t rows = plan.inner() == 0 ? 0 : plan.outputs() / plan.inner();
  if (joins && rows * blocks <= kFewBlocks && plan.outputs() * plan.count() >= kLong) {
    return reduce_parts(kind, plan, x, y);
  }
  parallel_for(rows * blocks, 1 + grain / std::clamp<int64_t>(plan.inner(), 1, kColumns),
               [&](int64_t begin, int64_t end) {
                 Columns columns(kind, plan, x);
                 alignas(64) float total[kColumns];
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t row = task / blocks, column = task % blocks * kColumns;
                   const int64_t n = std::min(kColumns, plan.inner() - column);
                   columns.reduce(plan.base(row) + column, n, total);
                   floats_to(y.dtype, total, y.data, row * plan.inner() + column, n);
                 }
               });
}

}  // namespace sparkpilot
