// ScatterElements, ScatterND and TensorScatter: a copy of a tensor with some elements replaced or reduced with updates.
//
// Several updates of one element are applied in the order of the indices, so the result does not depend on threads.
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/scatter_candidates.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::scatter_ops {
namespace {

enum class Reduction { none, add, mul, max, min };

Reduction reduction_of(const Attributes& attrs) {
  const std::string text = attrs.text("reduction", "none");
  if (text == "none") return Reduction::none;
  if (text == "add") return Reduction::add;
  if (text == "mul") return Reduction::mul;
  if (text == "max") return Reduction::max;
  if (text == "min") return Reduction::min;
  fail("reduction is \"{}\", expected none, add, mul, max or min", text);
}

struct State final : KernelState {
  Reduction reduction = Reduction::none;
};
std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  state->reduction = reduction_of(p.attrs());
  return state;
}
Acceptance accepts(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  return reduction_of(p.attrs()) == Reduction::none ? bits(dtype) >= 8 : contains(AllTypes{}, dtype);
}

void copy_data(const Call& c) {
  CopyLoops loops;
  loops.add(c.inputs[0].bytes(), 1, 1);
  copy_strided(DType::u8, loops, c.inputs[0].data, 0, c.outputs[0].data, 0);
}

// Applies `count` elements of an update to the output.
template <typename T>
using Combine = void (*)(T* to, const T* update, int64_t count);

template <typename T, Reduction kReduction>
void combine(T* to, const T* update, int64_t count) {
  using C = Compute<T>;
  for (int64_t i = 0; i < count; ++i) {
    const C a = static_cast<C>(to[i]), b = static_cast<C>(update[i]);
    if constexpr (kReduction == Reduction::none) to[i] = update[i];
    else if constexpr (kReduction == Reduction::add) to[i] = T(static_cast<C>(a + b));
    else if constexpr (kReduction == Reduction::mul) to[i] = T(static_cast<C>(a * b));
    else if constexpr (kReduction == Reduction::max) to[i] = b > a || b != b ? update[i] : to[i];  // NaN stays
    else to[i] = b < a || b != b ? update[i] : to[i];
  }
}

// Calls fn.operator()<T>(combine) for the dtype and reduction; without a reduction only the size of T matters.
template <typename Fn>
void with_combine(DType dtype, Reduction reduction, Fn fn) {
  if (reduction == Reduction::none) {
    dispatch_size(dtype, [&]<typename T>() { fn.template operator()<T>(&combine<T, Reduction::none>); });
    return;
  }
  if (dtype == DType::boolean) {  // as bytes of 0 and 1: sums are "or", products "and"
    dtype = DType::u8;
    if (reduction == Reduction::add) reduction = Reduction::max;
    if (reduction == Reduction::mul) reduction = Reduction::min;
  }
  dispatch(NumericTypes{}, dtype, [&]<typename T>() {
    Combine<T> chosen = &combine<T, Reduction::add>;
    if (reduction == Reduction::mul) chosen = &combine<T, Reduction::mul>;
    if (reduction == Reduction::max) chosen = &combine<T, Reduction::max>;
    if (reduction == Reduction::min) chosen = &combine<T, Reduction::min>;
    fn.template operator()<T>(chosen);
  });
}

// --- ScatterElements: y[i, index[i, j, k], k] = updates[i, j, k] for axis 1
void infer_elements(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1);
  expect_index_dtype(c, 1);
  expect_same_dtype(c, 0, 2);
  reduction_of(c.attrs);
  const int axis = normalize_axis(c.attrs.integer("axis", 0), data.rank());
  if (!(c.shape(2) == indices)) fail("updates have shape {}, indices {}", c.shape(2).str(), indices.str());
  if (indices.rank() != data.rank()) fail("indices have rank {}, the data {}", indices.rank(), data.rank());
  for (int i = 0; i < data.rank(); ++i) {
    if (i != axis && indices[i] > data[i])
      fail("indices of shape {} do not fit the data's {}", indices.str(), data.str());
  }
  c.output(0, c.dtype(0), data);
}

template <typename T>
void scatter_elements(const Call& c, Combine<T> put) {
  const Shape &data = c.inputs[0].shape, &shape = c.inputs[1].shape;
  const IntOperand indices(c.inputs[1]);
  const int last = shape.rank() - 1, axis = normalize_axis(c.attrs().integer("axis", 0), data.rank());
  const auto strides = data.strides();
  const int64_t width = shape[last], size = data[axis], step = strides[static_cast<size_t>(axis)];
  const int64_t along = axis == last ? 0 : 1;
  // Updates with different indices before the axis never write to the same element, so threads share these; rows from
  // the axis on are applied in order.
  const int64_t rows = shape.elements(axis, last);
  const T* updates = c.inputs[2].as<T>();
  T* to = c.outputs[0].as<T>();
  if (shape.elements() == 0) return;
  parallel_for(shape.elements(0, std::min(axis, last)), 1 + (1 << 12) / (rows * width + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin * rows; row < end * rows; ++row) {
                   int64_t origin = 0, rest = row;
                   for (int i = last - 1; i >= 0; --i) {
                     if (i != axis) origin += rest % shape[i] * strides[static_cast<size_t>(i)];
                     rest /= shape[i];
                   }
                   for (int64_t i = 0; i < width; ++i) {
                     const int64_t at = row * width + i;
                     put(to + origin + i * along + checked_index(indices[at], size) * step, updates + at, 1);
                   }
                 }
               });
}

void run_elements(const Call& c) {
  copy_data(c);
  with_combine(c.inputs[0].dtype, c.as<State>().reduction,
               [&]<typename T>(Combine<T> put) { scatter_elements<T>(c, put); });
}

// --- ScatterND: y[index..., :] = updates[..., :]
void infer_nd(InferContext& c) {
  const Shape &data = c.shape(0), &indices = c.shape(1), &updates = c.shape(2);
  expect_index_dtype(c, 1);
  expect_same_dtype(c, 0, 2);
  reduction_of(c.attrs);
  if (indices.rank() == 0) fail("indices are a scalar");
  const int tuples = indices.rank() - 1;
  const int64_t depth = indices[tuples];
  if (depth < 1 || depth > data.rank()) fail("indices of {} axes, the data have {}", depth, data.rank());
  std::vector<int64_t> dims(indices.begin(), indices.begin() + tuples);
  dims.insert(dims.end(), data.begin() + depth, data.end());
  const Shape expected{std::span<const int64_t>(dims)};
  if (!(updates == expected)) fail("updates have shape {}, expected {}", updates.str(), expected.str());
  c.output(0, c.dtype(0), data);
}

void run_nd(const Call& c) {
  copy_data(c);
  const Shape &data = c.inputs[0].shape, &shape = c.inputs[1].shape;
  const IntOperand indices(c.inputs[1]);
  const int tuples = shape.rank() - 1, depth = static_cast<int>(shape[tuples]);
  const auto strides = data.strides();
  const int64_t inner = data.elements(depth, data.rank());
  with_combine(c.inputs[0].dtype, c.as<State>().reduction, [&]<typename T>(Combine<T> put) {
    for (int64_t i = 0; i < shape.elements(0, tuples); ++i) {
      int64_t at = 0;
      for (int d = 0; d < depth; ++d) {
        at += checked_index(indices[i * depth + d], data[d]) * strides[static_cast<size_t>(d)];
      }
      put(c.outputs[0].as<T>() + at, c.inputs[2].as<T>() + i * inner, inner);
    }
  });
}

// --- TensorScatter: writes new rows into a cache, at a position given for each sample
bool circular(const Attributes& attrs) {
  const std::string mode = attrs.text("mode", "linear");
  if (mode != "linear" && mode != "circular") fail("mode is \"{}\", expected linear or circular", mode);
  return mode == "circular";
}

void infer_cache(InferContext& c) {
  const Shape &cache = c.shape(0), &update = c.shape(1);
  expect_same_dtype(c, 0, 1);
  circular(c.attrs);
  const int axis = normalize_axis(c.attrs.integer("axis", -2), cache.rank());
  if (axis == 0) fail("axis 0 is the batch");
  bool fits = update.rank() == cache.rank();
  for (int i = 0; fits && i < cache.rank(); ++i) fits = i == axis ? update[i] <= cache[i] : update[i] == cache[i];
  if (!fits) fail("an update of shape {} does not fit the cache's {}", update.str(), cache.str());
  if (c.has(2)) {
    expect_index_dtype(c, 2);
    if (!(c.shape(2) == Shape{cache[0]}))
      fail("write_indices have shape {}, expected [{}]", c.shape(2).str(), cache[0]);
  }
  c.output(0, c.dtype(0), cache);
}

struct CacheState final : KernelState {
  bool circular = false;
};

void run_cache(const Call& c) {
  copy_data(c);
  const Shape &cache = c.inputs[0].shape, &update = c.inputs[1].shape;
  const int axis = normalize_axis(c.attrs().integer("axis", -2), cache.rank());
  const int64_t most = cache[axis], count = update[axis];
  const int64_t bytes = cache.elements(axis + 1, cache.rank()) * bits(c.inputs[0].dtype) / 8;
  const auto* from = c.inputs[1].as<std::byte>();
  auto* to = c.outputs[0].as<std::byte>();
  const int64_t prefixes = cache.elements(0, axis), per_sample = cache.elements(1, axis);
  if (count == 0) return;
  for (int64_t i = 0; i < prefixes; ++i) {
    int64_t start = c.has(2) ? IntOperand(c.inputs[2])[i / per_sample] : 0;
    if (c.as<CacheState>().circular) start = (start % most + most) % most;
    else if (start < 0 || start > most - count) fail("{} rows at {} do not fit the cache's {}", count, start, most);
    for (int64_t row = 0; row < count; ++row) {
      std::memcpy(to + (i * most + (start + row) % most) * bytes, from + (i * count + row) * bytes,
                  static_cast<size_t>(bytes));
    }
  }
}

// --- gradients
// Of ScatterElements, which `kGather` = GatherElements reads back, or of the two ND. Without a reduction, updates of
// the same element, whose order ONNX leaves open, each get what flows to it.
template <bool kElements>
std::vector<ValueId> gradient(GradContext& c) {
  const Attributes along = kElements ? Attributes{{"axis", c.node.attrs.integer("axis", 0)}} : Attributes();
  const Term data(c.b, c.in(0)), updates(c.b, c.in(2)), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  const auto read = [&](Term from) {
    return Term(c.b, c.b.add(kElements ? "GatherElements" : "GatherND", {from, c.in(1)}, along));
  };
  const auto scatter = [&](Term to, Term from, const Attributes& attrs) {
    return c.b.add(kElements ? "ScatterElements" : "ScatterND", {to, c.in(1), from}, attrs);
  };
  switch (reduction_of(c.node.attrs)) {
    case Reduction::none: return {scatter(g, zeros(c.b, g.dtype(), updates.shape()), along), {}, read(g)};
    case Reduction::add: return {g, {}, read(g)};
    case Reduction::mul: break;
    case Reduction::max:
    case Reduction::min:
      return {where(node("Equal", data, y), g, 0), {}, where(node("Equal", updates, read(y)), read(g), 0)};
  }
  if (c.wants(2)) fail("the updates of the reduction mul");
  const Term ones(c.b, c.b.add("Expand", {g.number(1), c.b.ints(data.shape().dims())}));
  return {g * Term(c.b, scatter(ones, updates, c.node.attrs))};
}

std::vector<ValueId> gradient_of_cache(GradContext& c) {
  const Shape cache = c.b.shape(c.in(0)), update = c.b.shape(c.in(1));
  const int axis = normalize_axis(c.node.attrs.integer("axis", -2), cache.rank());
  const Term g(c.b, c.out_grads[0]);
  const ValueId rest = c.b.add("TensorScatter", {g, zeros(c.b, g.dtype(), update), c.in(2)}, c.node.attrs);
  std::vector<int64_t> rows, across(static_cast<size_t>(cache.rank()), 1), samples = across;
  for (int64_t row = 0; row < update[axis]; ++row) rows.push_back(row);
  across[static_cast<size_t>(axis)] = update[axis];
  Term at = Term(c.b, c.b.ints(rows)).as(Shape(across));
  if (c.has(2)) {
    samples[0] = cache[0];
    const Term start(c.b, c.b.add("Cast", {c.in(2)}, {{"to", onnx_code(DType::i64)}}));
    at = node("Mod", start.as(Shape(samples)) + at, {c.b, c.b.ints({cache[axis]})});
  }
  at = {c.b, c.b.add("Expand", {at, c.b.ints(update.dims())})};
  return {rest, c.b.add("GatherElements", {g, at}, {{"axis", static_cast<int64_t>(axis)}})};
}

// --- cases
std::vector<OpCase> elements_cases() {
  const auto picks = [](const Shape& shape, double size) {
    return CaseInput::range(shape, -size, size - 1, DType::i64);
  };
  const auto with = [](int64_t axis, const char* reduction) {
    return Attributes{{"axis", axis}, {"reduction", std::string(reduction)}};
  };
  const auto distinct = CaseInput::value(Tensor::ints({-1, 0, 3, 1}).reshaped({1, 4}));
  return {
      {"rows", {CaseInput::of({5, 7}), picks({3, 6}, 5), CaseInput::of({3, 6})}, {}, 1, 0, false},
      {"distinct", {CaseInput::of({2, 5}), distinct, CaseInput::of({1, 4})}, with(1, "none")},
      {"mul_data",
       {CaseInput::of({9}), picks({20}, 9),
        CaseInput::value(Tensor::of<float>(Shape{20}, std::vector<float>(20, 1.5F)))},
       with(0, "mul")},
      {"add", {CaseInput::of({5, 7}), picks({5, 9}, 7), CaseInput::of({5, 9})}, with(1, "add")},
      {"mul", {CaseInput::of({4, 3, 5}), picks({2, 6, 4}, 3), CaseInput::of({2, 6, 4})}, with(1, "mul"), 1, 0, false},
      {"max", {CaseInput::of({9}, DType::f16), picks({20}, 9), CaseInput::of({20}, DType::f16)}, with(0, "max")},
      {"min",
       {CaseInput::range({3, 4}, -9, 9, DType::i32), picks({3, 8}, 4), CaseInput::range({3, 8}, -9, 9, DType::i32)},
       with(-1, "min")}};
}
std::vector<OpCase> nd_cases() {
  const auto picks = [](const Shape& shape, double size) {
    return CaseInput::range(shape, -size, size - 1, DType::i64);
  };
  const auto distinct = CaseInput::value(Tensor::ints({2, 0}).reshaped({2, 1}));
  return {{"elements", {CaseInput::of({3, 4}), picks({5, 2}, 3), CaseInput::of({5})}, {}, 1, 0, false},
          {"distinct", {CaseInput::of({3, 4}), distinct, CaseInput::of({2, 4})}, {}},
          {"rows_add",
           {CaseInput::of({3, 4, 5}), picks({2, 3, 1}, 3), CaseInput::of({2, 3, 4, 5})},
           {{"reduction", std::string("add")}}},
          {"booleans_add",
           {CaseInput::range({4, 2}, 0, 1, DType::boolean), picks({3, 1}, 4),
            CaseInput::range({3, 2}, 0, 1, DType::boolean)},
           {{"reduction", std::string("add")}}},
          {"bytes",
           {CaseInput::range({4, 2}, 0, 1, DType::boolean), picks({3, 1}, 4),
            CaseInput::range({3, 2}, 0, 1, DType::boolean)},
           {}}};
}
std::vector<OpCase> cache_cases() {
  const auto at = CaseInput::value(Tensor::ints({4, 1}));
  return {{"prefill", {CaseInput::of({2, 3, 6, 5}), CaseInput::of({2, 3, 4, 5})}, {}},
          {"linear", {CaseInput::of({2, 6, 5}), CaseInput::of({2, 2, 5}), at}, {}},
          {"circular",
           {CaseInput::of({2, 6, 5}, DType::f16), CaseInput::of({2, 4, 5}, DType::f16), at},
           {{"mode", std::string("circular")}}},
          {"axis", {CaseInput::of({2, 6}), CaseInput::of({2, 2}), at}, {{"axis", int64_t{1}}}}};
}

constexpr Kernel kElements[] = {{.name = "reference", .accepts = accepts, .prepare = prepare, .run = run_elements}};
constexpr Kernel kNd[] = {{.name = "reference", .accepts = accepts, .prepare = prepare, .run = run_nd}};
constexpr Kernel kCache[] = {{.name = "reference",
                              .accepts = [](const Problem& p) -> Acceptance { return bits(p.inputs[0].dtype) >= 8; },
                              .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> {
                                auto state = std::make_unique<CacheState>();
                                state->circular = circular(p.attrs());
                                return state;
                              },
                              .run = run_cache}};
constexpr AttrSpec kElementsAttrs[] = {{"axis", AttrType::integer}, {"reduction", AttrType::text}};
constexpr AttrSpec kNdAttrs[] = {{"reduction", AttrType::text}};
constexpr AttrSpec kScatterAttrs[] = {{"axis", AttrType::integer}};
constexpr AttrSpec kCacheAttrs[] = {{"axis", AttrType::integer}, {"mode", AttrType::text}};

const OpDef kOps[] = {
    {.name = "ScatterElements",
     .doc = "A copy with elements replaced or reduced into by index along an axis.",
     .since = 11,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kElementsAttrs,
     .infer = infer_elements,
     .cpu = kElements,
     .grad = gradient<true>,
     .cases = elements_cases},
    {.name = "ScatterND",
     .doc =
         "A copy with slices replaced or reduced into by index tuples. One out of range fails, or changes nothing on a "
         "GPU.",
     .since = 11,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kNdAttrs,
     .infer = infer_nd,
     .cpu = kNd,
     .cuda = cuda::kScatter,
     .grad = gradient<false>,
     .cases = nd_cases},
    {.name = "Scatter",
     .doc = "The former name of ScatterElements.",
     .since = 9,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kScatterAttrs,
     .expand =
         [](ExpandContext& e) {
           return std::vector<ValueId>{e.b.add("ScatterElements", e.node.inputs, e.node.attrs)};
         }},
    {.name = "TensorScatter",
     .doc = "A key or value cache with new rows at each sample's position.",
     .since = 24,
     .inputs = {2, 3},
     .outputs = {1, 1},
     .attributes = kCacheAttrs,
     .infer = infer_cache,
     .cpu = kCache,
     .grad = gradient_of_cache,
     .cost = no_flops,
     .cases = cache_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::scatter_ops
