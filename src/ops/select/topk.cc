// TopK: the k largest or smallest elements along an axis, best first; equal ones by lower index; NaN is the largest.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::topk_ops {
namespace {

void infer(InferContext& c) {
  const Shape& in = c.shape(0);
  const int axis = normalize_axis(c.attrs.integer("axis", -1), in.rank());
  const int64_t k = scalar_operand(c, 1);
  if (k < 0 || k > in[axis]) fail("k is {}, axis {} has {} elements", k, axis, in[axis]);
  c.output(0, c.dtype(0), in.with(axis, k));
  c.output(1, DType::i64, in.with(axis, k));
}

// Scratch: the chosen indices of every line.
std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<KernelState>();
  state->workspace = p.outputs[0].shape.elements() * static_cast<int64_t>(sizeof(int64_t));
  return state;
}

// A heap of the k best so far with the worst of them on top: O(n log k), O(n) if few elements are better than it.
template <typename T, bool kLargest>
void select(const T* line, int64_t size, int64_t step, int64_t k, int64_t* chosen) {
  using C = Compute<T>;
  const auto better = [&](int64_t a, int64_t b) {
    const C x = static_cast<C>(line[a * step]), y = static_cast<C>(line[b * step]);
    if constexpr (std::is_floating_point_v<C>) {
      const bool x_nan = std::isnan(x), y_nan = std::isnan(y);
      if (x_nan != y_nan) return kLargest ? x_nan : y_nan;
      if (x_nan) return a < b;
    }
    if (x != y) return kLargest ? x > y : x < y;
    return a < b;
  };
  for (int64_t i = 0; i < k; ++i) chosen[i] = i;
  std::make_heap(chosen, chosen + k, better);
  for (int64_t i = k; i < size; ++i) {
    if (!better(i, chosen[0])) continue;
    std::pop_heap(chosen, chosen + k, better);
    chosen[k - 1] = i;
    std::push_heap(chosen, chosen + k, better);
  }
  std::sort_heap(chosen, chosen + k, better);
}

void run(const Call& c) {
  const ConstView& in = c.inputs[0];
  const int axis = normalize_axis(c.attrs().integer("axis", -1), in.shape.rank());
  const int64_t size = in.shape[axis], inner = in.shape.elements(axis + 1, in.shape.rank());
  const int64_t k = c.outputs[0].shape[axis], lines = in.shape.elements(0, axis) * inner;
  const bool largest = c.attrs().integer("largest", 1) != 0;
  if (k == 0 || lines == 0) return;
  auto* scratch = reinterpret_cast<int64_t*>(c.workspace);
  dispatch(NumericTypes{}, in.dtype, [&]<typename T>() {
    parallel_for(lines, 1 + (1 << 12) / (size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* line = in.as<T>() + i / inner * size * inner + i % inner;
        const int64_t to = i / inner * k * inner + i % inner;
        int64_t* chosen = scratch + i * k;
        if (largest) select<T, true>(line, size, inner, k, chosen);
        else select<T, false>(line, size, inner, k, chosen);
        for (int64_t j = 0; j < k; ++j) {
          c.outputs[0].as<T>()[to + j * inner] = line[chosen[j] * inner];
          if (c.outputs.size() > 1) c.outputs[1].as<int64_t>()[to + j * inner] = chosen[j];
        }
      }
    });
  });
}

Acceptance accepts(const Problem& p) { return contains(NumericTypes{}, p.inputs[0].dtype); }

std::vector<ValueId> expand_attribute(ExpandContext& e) {
  const Attributes axis{{"axis", e.node.attrs.integer("axis", -1)}};
  return e.b.add_many("TopK", {e.in(0), e.b.ints({e.node.attrs.integer("k")})}, axis,
                      static_cast<int>(e.node.outputs.size()));
}

double cost(const Problem& p) { return 2.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> cases() {
  const auto k = [](int64_t count) { return CaseInput::value(Tensor::ints({count})); };
  return {{"largest", {CaseInput::of({3, 37}), k(5)}, {}, 2},
          {"smallest_middle", {CaseInput::of({2, 9, 3}), k(4)}, {{"axis", int64_t{1}}, {"largest", int64_t{0}}}, 2},
          {"ties", {CaseInput::range({2, 50}, 0, 3, DType::i8), k(20)}, {}, 2},
          {"all_f16", {CaseInput::of({5, 7}, DType::f16), k(7)}, {{"axis", int64_t{-1}}}, 2},
          {"none", {CaseInput::of({5, 7}), k(0)}, {{"sorted", int64_t{0}}}, 2}};
}

// To where the elements were.
std::vector<ValueId> gradient(GradContext& c) {
  if (!c.out_grads[0].present()) return {};
  const std::vector<ValueId>& made = c.node.outputs;
  const ValueId at = made.size() > 1 ? made[1] : c.b.add_many("TopK", c.node.inputs, c.node.attrs, 2)[1];
  const Term x(c.b, c.in(0));
  return {c.b.add("ScatterElements", {zeros(c.b, x.dtype(), x.shape()), at, c.out_grads[0]},
                  {{"axis", c.node.attrs.integer("axis", -1)}})};
}

constexpr Kernel kCpu[] = {{.name = "reference", .accepts = accepts, .prepare = prepare, .run = run}};
constexpr AttrSpec kAttrs[] = {
    {"axis", AttrType::integer}, {"largest", AttrType::integer}, {"sorted", AttrType::integer}};
constexpr AttrSpec kOldAttrs[] = {{"axis", AttrType::integer}, {"k", AttrType::integer, true}};

const OpDef kOps[] = {
    {.name = "TopK",
     .doc = "The k largest or smallest elements along an axis, and where they are.",
     .since = 10,
     .inputs = {2, 2},
     .outputs = {1, 2},
     .attributes = kAttrs,
     .infer = infer,
     .axes = axes_along_attribute<-1>,
     .cpu = kCpu,
     .grad = gradient,
     .cost = cost,
     .cases = cases},
    {.name = "TopK",
     .doc = "k as an attribute.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 2},
     .attributes = kOldAttrs,
     .expand = expand_attribute},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::topk_ops
