// OneHot: adds an axis with the `on` value at the index and the `off` value elsewhere.
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::one_hot_ops {
namespace {

int axis_of(const Attributes& attrs, int indices_rank) {
  return normalize_axis(attrs.integer("axis", -1), indices_rank + 1);
}

void infer(InferContext& c) {
  if (c.shape(1).elements() != 1) fail("depth has shape {}, expected one element", c.shape(1).str());
  if (!(c.shape(2) == Shape{2})) fail("values have shape {}, expected [2]: off and on", c.shape(2).str());
  for (const int i : {0, 1}) {
    if (!contains(NumericTypes{}, c.dtype(i))) fail("input {} is {}, expected numbers", i, name(c.dtype(i)));
  }
  const double depth = c.known(1).to_scalar();
  if (!(depth >= 0 && depth <= static_cast<double>(Shape::kMaxElements))) fail("depth is {}", depth);
  c.output(0, c.dtype(2), c.shape(0).inserted(axis_of(c.attrs, c.rank(0)), static_cast<int64_t>(depth)));
}

void run(const Call& c) {
  const ConstView& indices = c.inputs[0];
  const Shape& out = c.outputs[0].shape;
  const int axis = axis_of(c.attrs(), indices.shape.rank());
  const int64_t depth = out[axis], inner = out.elements(axis + 1, out.rank());
  fill(c.outputs[0].dtype, c.outputs[0].data, out.elements(), c.inputs[2].data);
  dispatch_size(c.outputs[0].dtype, [&]<typename T>() {
    T* y = c.outputs[0].as<T>();
    const T on = c.inputs[2].as<T>()[1];
    parallel_for(indices.elements(), 1 << 12, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double at = std::trunc(load_element(indices.dtype, indices.data, i));
        if (at < 0) at += static_cast<double>(depth);
        if (!(at >= 0 && at < static_cast<double>(depth))) continue;  // outside: all off
        y[(i / inner * depth + static_cast<int64_t>(at)) * inner + i % inner] = on;
      }
    });
  });
}

std::vector<OpCase> cases() {
  const auto picks = CaseInput::range({3, 5}, -6, 6, DType::i64);
  const auto depth = CaseInput::value(Tensor::scalar<int64_t>(4));
  const auto values = CaseInput::value(Tensor::of<float>(Shape{2}, {-1.5f, 2.5f}));
  return {{"last", {picks, depth, values}, {}},
          {"first", {picks, depth, values}, {{"axis", int64_t{0}}}},
          {"values", {picks, depth, CaseInput::range({2}, 1, 3)}, {}},
          {"middle", {picks, CaseInput::value(Tensor::of<float>(Shape{1}, {7})), values}, {{"axis", int64_t{-2}}}},
          {"float_indices",
           {CaseInput::range({7}, -3, 9), depth, CaseInput::value(Tensor::of<bool>(Shape{2}, {false, true}))},
           {}}};
}

// By the values: what flows to the elements that have them.
std::vector<ValueId> gradient(GradContext& c) {
  const Term g(c.b, c.out_grads[0]);
  Tensor marks = Tensor::zeros(g.dtype(), Shape{2});
  store_element(g.dtype(), marks.raw(), 1, 1);
  const Term lit(c.b, c.b.add("OneHot", {c.in(0), c.in(1), c.b.constant(std::move(marks))}, c.node.attrs));
  const auto total = [](Term x) { return x.of("ReduceSum").as(Shape{1}); };
  const Term on = total(g * lit), off = total(g) - on;
  return {{}, {}, c.b.add("Concat", {off, on}, {{"axis", int64_t{0}}})};
}

constexpr Kernel kCpu[] = {{.name = "reference",
                            .accepts = [](const Problem& p) -> Acceptance { return bits(p.inputs[2].dtype) >= 8; },
                            .run = run}};
constexpr AttrSpec kAttrs[] = {{"axis", AttrType::integer}};

const OpDef kOps[] = {{
    .name = "OneHot",
    .doc = "Indices as one value among others along a new axis.",
    .since = 9,
    .inputs = {3, 3},
    .outputs = {1, 1},
    .attributes = kAttrs,
    .infer = infer,
    .cpu = kCpu,
    .grad = gradient,
    .cost = no_flops,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::one_hot_ops
