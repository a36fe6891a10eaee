// The Reduce ops: reduce all elements along some axes to one number.
//
// A reduction over no elements gives the neutral element: 0, 1, or the lowest or highest number of the dtype. Integers
// wrap around; ReduceMean of integers, and integer results of roots and logarithms, are truncated.
#include "ops/cpu/vector/reduce.h"
#include "ops/axes.h"

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/cpu/vector/elementwise.h"
#include "ops/cuda/reduce_candidates.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::reduce_ops {
namespace {

// --- which axes
uint32_t all_axes(int rank) { return (1u << rank) - 1; }

// The axes as bits, from a list that `infer` has checked.
uint32_t axes_of(const Attributes& attrs, int rank, const IntOperand& axes) {
  if (!axes.present() || axes.size() == 0) return attrs.integer("noop_with_empty_axes", 0) != 0 ? 0 : all_axes(rank);
  uint32_t bits = 0;
  for (int64_t i = 0; i < axes.size(); ++i) bits |= 1u << normalize_axis(axes[i], rank);
  return bits;
}

uint32_t axes_of(const Call& c) {
  return axes_of(c.attrs(), c.inputs[0].shape.rank(), c.has(1) ? IntOperand(c.inputs[1]) : IntOperand());
}

Shape reduced_shape(const Shape& shape, uint32_t axes, bool keep) {
  std::vector<int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!(axes >> axis & 1)) dims.push_back(shape[axis]);
    else if (keep) dims.push_back(1);
  }
  return Shape(dims);
}

void infer(InferContext& c) {
  const std::vector<int64_t> axes = c.has(1) ? list_operand(c, 1) : std::vector<int64_t>{};
  uint32_t bits = 0;
  for (const int axis : distinct_axes(axes, c.rank(0))) bits |= 1u << axis;
  if (axes.empty() && c.attrs.integer("noop_with_empty_axes", 0) == 0) bits = all_axes(c.rank(0));
  c.output(0, c.dtype(0), reduced_shape(c.shape(0), bits, c.attrs.integer("keepdims", 1) != 0));
}

// --- the plain reference
constexpr bool needs_double(Reduce kind) {
  return kind == Reduce::l2 || kind == Reduce::log_sum || kind == Reduce::log_sum_exp;
}

// The accumulator of one output: double for floats, 64 bits that wrap for integers.
template <Reduce kKind, typename T>
struct Gatherer {
  static constexpr bool kFloat = std::is_floating_point_v<Compute<T>>;
  static constexpr bool kExtreme = kKind == Reduce::max || kKind == Reduce::min;
  using Sum = std::conditional_t<kFloat || needs_double(kKind), double, uint64_t>;
  using A = std::conditional_t<kExtreme, Compute<T>, Sum>;
  A value = initial();
  double shift = 0;

  static A initial() {
    using L = std::numeric_limits<A>;
    if constexpr (kKind == Reduce::max) return kFloat ? -L::infinity() : L::lowest();
    else if constexpr (kKind == Reduce::min) return kFloat ? L::infinity() : L::max();
    else return kKind == Reduce::prod ? A{1} : A{0};
  }
  void add(T element) {
    const auto plain = static_cast<Compute<T>>(element);
    if constexpr (kKind == Reduce::max) {
      value = value != value || value > plain ? value : plain;
    } else if constexpr (kKind == Reduce::min) {
      value = value != value || value < plain ? value : plain;
    } else {
      const A x = static_cast<A>(plain);
      if constexpr (kKind == Reduce::prod) value *= x;
      else if constexpr (kKind == Reduce::l1) value += plain < 0 ? -x : x;
      else if constexpr (kKind == Reduce::l2 || kKind == Reduce::sum_square) value += x * x;
      else if constexpr (kKind == Reduce::log_sum_exp) value += std::exp(x - shift);
      else value += x;
    }
  }
  T result(int64_t count) const {
    double y = static_cast<double>(value);
    if constexpr (kKind == Reduce::l2) y = std::sqrt(y);
    else if constexpr (kKind == Reduce::log_sum) y = std::log(y);
    else if constexpr (kKind == Reduce::log_sum_exp) y = shift + std::log(y);
    else if constexpr (kFloat && kKind == Reduce::mean) y /= static_cast<double>(count);
    else if constexpr (!kFloat && kKind == Reduce::mean) return count == 0 ? T{} : mean_of_integers(count);
    else if constexpr (!kFloat) return static_cast<T>(value);
    T out{};
    store_element(dtype_of<T>(), &out, 0, y);
    return out;
  }
  T mean_of_integers(int64_t count) const {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(value) / count);
    else return static_cast<T>(static_cast<uint64_t>(value) / static_cast<uint64_t>(count));
  }
};

template <Reduce kKind, typename T>
void reduce_typed(const ReducePlan& plan, const T* x, T* y) {
  const auto gather = [&](auto& gatherer, int64_t base) {
    const int64_t length = plan.inner_reduced() ? plan.inner() : 1;
    plan.each_run(base, [&](int64_t at) {
      for (int64_t i = 0; i < length; ++i) gatherer.add(x[at + i]);
    });
  };
  parallel_for(plan.outputs(), 1 + 8192 / (plan.count() + 1), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t base = plan.inner_reduced() ? plan.base(o) : plan.base(o / plan.inner()) + o % plan.inner();
      Gatherer<kKind, T> gatherer;
      if constexpr (kKind == Reduce::log_sum_exp) {
        Gatherer<Reduce::max, T> top;
        gather(top, base);
        const auto largest = static_cast<double>(top.value);
        gatherer.shift = std::isfinite(largest) && plan.count() > 0 ? largest : 0;
      }
      gather(gatherer, base);
      y[o] = gatherer.result(plan.count());
    }
  });
}

template <Reduce kKind>
constexpr bool takes_bool = kKind == Reduce::max || kKind == Reduce::min;
template <Reduce kKind>
using Types = std::conditional_t<takes_bool<kKind>, AllTypes, NumericTypes>;

template <Reduce kKind>
void run_reference(const Call& c) {
  const ReducePlan plan(c.inputs[0].shape, axes_of(c));
  dispatch(Types<kKind>{}, c.inputs[0].dtype,
           [&]<typename T>() { reduce_typed<kKind>(plan, c.inputs[0].as<T>(), c.outputs[0].as<T>()); });
}

template <Reduce kKind>
void run_simd(const Call& c) {
  const ReducePlan plan(c.inputs[0].shape, axes_of(c));
  if (is_float(c.inputs[0].dtype)) reduce_floats(kKind, plan, c.inputs[0], c.outputs[0]);
  else reduce_integers(kKind, plan, c.inputs[0], c.outputs[0]);
}

template <Reduce kKind>
Acceptance accepts_simd(const Problem& p) {
  constexpr int64_t kShort = 32;  // up to this many elements are faster one by one
  const DType dtype = p.inputs[0].dtype;
  if (contains(TypeList<float, Half, BFloat16>{}, dtype)) return true;
  const bool folds = kKind == Reduce::sum || kKind == Reduce::max || kKind == Reduce::min;
  if (is_float(dtype) || !folds) return fmt::format("{} input", name(dtype));
  if (p.has(1) && !p.is_constant(1)) return "axes are not constant";
  const Shape& shape = p.inputs[0].shape;
  const IntOperand axes = p.has(1) ? IntOperand(p.constants[1].view()) : IntOperand();
  const ReducePlan plan(shape, axes_of(p.attrs(), shape.rank(), axes));
  if (shape.elements() == 0) return "empty";
  if (plan.inner() < kShort) return "runs are short";
  return true;
}

// --- versions with the axes as an attribute
std::vector<ValueId> expand_attribute(ExpandContext& e) {
  Attributes attrs;
  attrs.set("keepdims", e.node.attrs.integer("keepdims", 1));
  const std::vector<int64_t> axes = e.node.attrs.integers("axes");
  return {e.b.add(e.node.op->name, {e.in(0), axes.empty() ? ValueId{} : e.b.ints(axes)}, attrs)};
}

void infer_attribute(InferContext& c) {
  const std::vector<int64_t> axes = c.attrs.integers("axes");
  uint32_t bits = axes.empty() ? all_axes(c.rank(0)) : 0;
  for (const int axis : distinct_axes(axes, c.rank(0))) bits |= 1u << axis;
  c.output(0, c.dtype(0), reduced_shape(c.shape(0), bits, c.attrs.integer("keepdims", 1) != 0));
}

// --- cases
template <Reduce kKind>
std::vector<OpCase> cases() {
  // Avoids sums that cancel and products that overflow, which would not test a kernel.
  const double low = kKind == Reduce::prod || kKind == Reduce::log_sum ? 0.5 : -1,
               high = kKind == Reduce::sum ? 2 : 1.5;
  std::vector<OpCase> all;
  const auto add = [&](const char* name, DType dtype, const Shape& shape, std::initializer_list<int64_t> axes,
                       int64_t keep = 1) {
    all.push_back({.name = name,
                   .inputs = {CaseInput::range(shape, is_float(dtype) ? low : 1, is_float(dtype) ? high : 9, dtype),
                              CaseInput::value(Tensor::ints(axes))},
                   .attrs = {{"keepdims", keep}}});
  };
  add("inner", DType::f32, {5, 67}, {-1});
  add("short_rows", DType::f32, {41, 3}, {1});
  add("short_rows_outside", DType::f32, {5, 7, 16}, {2}, 0);
  add("all", DType::f32, {3, 5, 7}, {}, 0);
  add("outer", DType::f32, {131, 19}, {0}, 0);
  add("channels_last", DType::f32, {2, 5, 9, 300}, {1, 2});
  add("channels_first", DType::f32, {2, 7, 5, 9}, {2, 3});
  add("batch_and_image", DType::f32, {3, 4, 5, 2}, {0, 2, 3}, 0);
  add("every_other", DType::f32, {3, 4, 5, 6}, {0, 2});
  add("blocks_of_pixels", DType::f32, {3, 4, 149, 2}, {1, 3}, 0);
  add("long_rows", DType::f32, {3, kKind == Reduce::prod ? 50 : 9001}, {1});
  add("long_columns", DType::f32, {kKind == Reduce::prod ? 50 : 5000, 3}, {0});
  add("f16", DType::f16, {4, 300}, {1});
  add("bf16", DType::bf16, {9, 270}, {0});
  add("f64", DType::f64, {4, 5, 6}, {1});
  if (!needs_double(kKind)) {
    add("i32", DType::i32, {3, 5}, {0});
    add("u8", DType::u8, {3, 5}, {1});
  }
  if (kKind == Reduce::sum || takes_bool<kKind>) {
    add("i64_rows", DType::i64, {5, 601}, {1});
    add("i8_rows", DType::i8, {7, 67}, {1}, 0);
    add("u16_all", DType::u16, {3, 1031}, {});
    add("i32_columns", DType::i32, {9, 1100}, {0});
    add("u8_every_other", DType::u8, {2, 3, 4, 35}, {1, 3});
    add("i16_channels_last", DType::i16, {2, 5, 3, 40}, {1, 2});
  }
  if (kKind != Reduce::mean) add("nothing", DType::f32, {2, 0, 3}, {1});
  if (takes_bool<kKind>) {
    all.push_back({.name = "bool", .inputs = {CaseInput::range({3, 4}, 0, 1, DType::boolean)}, .attrs = {}});
  }
  all.push_back({.name = "no_axes",
                 .inputs = {CaseInput::range({3, 4}, low, high)},
                 .attrs = {{"noop_with_empty_axes", int64_t{1}}}});
  return all;
}

double cost(const Problem& p) { return static_cast<double>(p.inputs[0].shape.elements()); }

AxisSource axes_of_reduction(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const int rank = p.inputs[0].shape.rank();
  const auto listed = constant_list(p, 1);
  if (!listed) return {};
  std::vector<bool> reduced(static_cast<size_t>(rank),
                            listed->empty() && p.attrs().integer("noop_with_empty_axes", 0) == 0);
  for (const int64_t a : *listed) reduced[static_cast<size_t>(normalize_axis(a, rank))] = true;
  if (p.attrs().integer("keepdims", 1) != 0) return reduced[static_cast<size_t>(axis)] ? AxisSource{} : same_axis(axis);
  int left = axis;
  for (int from = 0; from < rank; ++from) {
    if (!reduced[static_cast<size_t>(from)] && left-- == 0) return same_axis(from);
  }
  return {};
}

constexpr AttrSpec kAttrs[] = {{"keepdims", AttrType::integer}, {"noop_with_empty_axes", AttrType::integer}};
constexpr AttrSpec kOldAttrs[] = {{"axes", AttrType::integers}, {"keepdims", AttrType::integer}};

template <Reduce kKind>
constexpr Kernel kKernels[] = {{.name = "simd", .accepts = accepts_simd<kKind>, .run = run_simd<kKind>},
                               {.name = "reference", .run = run_reference<kKind>}};
template <>
constexpr Kernel kKernels<Reduce::prod>[] = {{.name = "reference", .run = run_reference<Reduce::prod>}};

// --- on a GPU
std::optional<uint32_t> constant_axes(const Problem& p) {
  if (p.has(1) && !p.is_constant(1)) return std::nullopt;
  const IntOperand axes = p.has(1) ? IntOperand(p.constants[1].view()) : IntOperand();
  return axes_of(p.attrs(), p.inputs[0].shape.rank(), axes);
}
constexpr cuda::ReduceKind on_gpu(Reduce kind) {
  using To = cuda::ReduceKind;
  switch (kind) {
    case Reduce::sum: return To::sum;
    case Reduce::mean: return To::mean;
    case Reduce::max: return To::max;
    case Reduce::min: return To::min;
    case Reduce::prod: return To::prod;
    case Reduce::l1: return To::l1;
    case Reduce::l2: return To::l2;
    case Reduce::sum_square: return To::sum_square;
    case Reduce::log_sum: return To::log_sum;
    case Reduce::log_sum_exp: return To::log_sum_exp;
  }
  return To::sum;
}
template <Reduce kKind>
constexpr Kernel kCuda[] = {
    {.name = "parts",
     .accepts = [](const Problem& p) { return cuda::reduce_accepts(p, constant_axes(p)); },
     .prepare = [](const Problem& p) { return cuda::reduce_prepare(p, *constant_axes(p), on_gpu(kKind)); },
     .run = cuda::reduce_run}};

// --- gradients
Attributes noop_of(const Attributes& attrs) {
  return {{"keepdims", int64_t{1}}, {"noop_with_empty_axes", attrs.integer("noop_with_empty_axes", 0)}};
}

// For each element the product of the others along the axes: of those before it and of those after it.
Term product_of_others(Term x, uint32_t axes) {
  const Shape from = x.shape();
  std::vector<int64_t> order, moved, back(static_cast<size_t>(from.rank()));
  int64_t count = 1;
  for (const bool reduced : {false, true}) {
    for (int axis = 0; axis < from.rank(); ++axis) {
      if ((axes >> axis & 1) != reduced) continue;
      back[static_cast<size_t>(axis)] = static_cast<int64_t>(order.size());
      order.push_back(axis);
      moved.push_back(from[axis]);
      if (reduced) count *= from[axis];
    }
  }
  const Term rows = x.swapped(order).as(Shape{count == 0 ? 0 : from.elements() / count, count});
  const auto products = [&](int64_t reverse) {
    return Term(x.builder(), x.builder().add("CumProd", {rows, x.builder().constant(Tensor::scalar<int64_t>(1))},
                                             {{"exclusive", int64_t{1}}, {"reverse", reverse}}));
  };
  return (products(0) * products(1)).as(Shape(moved)).swapped(back);
}

template <Reduce kKind>
std::vector<ValueId> gradient(GradContext& c) {
  const Shape from = c.b.shape(c.node.inputs[0]);
  const Tensor* const axes = c.node.inputs.size() > 1 ? c.b.graph().constant(c.node.inputs[1]) : nullptr;
  if (c.has(1) && !axes) fail("the axes are computed");
  const IntOperand listed = axes ? IntOperand(axes->view()) : IntOperand();
  const Shape kept = reduced_shape(from, axes_of(c.node.attrs, from.rank(), listed), true);
  const auto with_axes = [&](ValueId v) {
    return Term(c.b, c.b.shape(v) == kept ? v : c.b.add("Reshape", {v, c.b.ints(kept.dims())}));
  };
  const Term x(c.b, c.node.inputs[0]), y = with_axes(c.node.outputs[0]), g = with_axes(c.out_grads[0]);
  const auto spread = [&](Term v) { return c.b.add("Expand", {v, c.b.ints(from.dims())}); };
  if constexpr (kKind == Reduce::sum) return {spread(g)};
  const double count =
      static_cast<double>(from.elements()) / static_cast<double>(std::max<int64_t>(1, kept.elements()));
  if constexpr (kKind == Reduce::prod) return {g * product_of_others(x, axes_of(c.node.attrs, from.rank(), listed))};
  if constexpr (kKind == Reduce::mean) return {spread(1 / count * g)};
  if constexpr (kKind == Reduce::max || kKind == Reduce::min) {  // elements that are equally large share it
    const Term taken = where(node("Equal", x, y), y.number(1), 0);
    const Term ties(c.b, axes ? c.b.add("ReduceSum", {taken, c.node.inputs[1]}, noop_of(c.node.attrs))
                              : c.b.add("ReduceSum", {taken}, noop_of(c.node.attrs)));
    return {g / ties * taken};
  }
  if constexpr (kKind == Reduce::l1) return {g * x.of("Sign")};
  if constexpr (kKind == Reduce::l2) return {g / y * x};
  if constexpr (kKind == Reduce::sum_square) return {2 * g * x};
  if constexpr (kKind == Reduce::log_sum) return {spread(g * (-y).of("Exp"))};
  return {g * (x - y).of("Exp")};
}

template <Reduce kKind>
OpDef reduce_op(std::string_view name, int since, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .since = since,
          .inputs = {1, 2},
          .outputs = {1, 1},
          .attributes = kAttrs,
          .infer =
              [](InferContext& c) {
                if (!contains(Types<kKind>{}, c.dtype(0)))
                  fail("input 0 is {}, which the op does not take", sparkpilot::name(c.dtype(0)));
                infer(c);
              },
          .axes = axes_of_reduction,
          .cpu = kKernels<kKind>,
          .cuda = kCuda<kKind>,
          .grad = gradient<kKind>,
          .cost = cost,
          .cases = cases<kKind>};
}

OpDef old_op(std::string_view name) {
  return {.name = name,
          .doc = "The form with `axes` as an attribute.",
          .since = 1,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attributes = kOldAttrs,
          .infer = infer_attribute,
          .expand = expand_attribute};
}

const OpDef kOps[] = {
    reduce_op<Reduce::sum>("ReduceSum", 13, "The sum along axes."),
    reduce_op<Reduce::mean>("ReduceMean", 18, "The mean along axes."),
    reduce_op<Reduce::max>("ReduceMax", 18, "The largest element along axes."),
    reduce_op<Reduce::min>("ReduceMin", 18, "The smallest element along axes."),
    reduce_op<Reduce::prod>("ReduceProd", 18, "The product along axes."),
    reduce_op<Reduce::l1>("ReduceL1", 18, "The sum of magnitudes along axes."),
    reduce_op<Reduce::l2>("ReduceL2", 18, "The Euclidean length along axes."),
    reduce_op<Reduce::sum_square>("ReduceSumSquare", 18, "The sum of squares along axes."),
    reduce_op<Reduce::log_sum>("ReduceLogSum", 18, "The logarithm of the sum along axes."),
    reduce_op<Reduce::log_sum_exp>("ReduceLogSumExp", 18, "The logarithm of the sum of exponentials along axes."),
    old_op("ReduceSum"),
    old_op("ReduceMean"),
    old_op("ReduceMax"),
    old_op("ReduceMin"),
    old_op("ReduceProd"),
    old_op("ReduceL1"),
    old_op("ReduceL2"),
    old_op("ReduceSumSquare"),
    old_op("ReduceLogSum"),
    old_op("ReduceLogSumExp"),
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::reduce_ops
