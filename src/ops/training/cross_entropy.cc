// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss (the former applied to LogSoftmax):
//   loss = -weight[t] * x[t] for the class t of each position; the mean divides by the sum of the weights.
// Positions whose class is ignore_index are not counted.
#include <string>

#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::cross_entropy_ops {
namespace {

enum class Reduction { none, sum, mean };

Reduction reduction_of(const Attributes& attrs) {
  const std::string text = attrs.text("reduction", "mean");
  if (text == "none") return Reduction::none;
  if (text == "sum") return Reduction::sum;
  if (text == "mean") return Reduction::mean;
  fail("reduction is \"{}\", expected none, sum or mean", text);
}

// Serial, so that the sum has a fixed order.
void run(const Call& c) {
  const Shape& x = c.inputs[0].shape;
  const int64_t classes = x[1], inner = x.elements(2, x.rank()), positions = x[0] * inner;
  const Reduction reduction = reduction_of(c.attrs());
  const bool ignores = c.attrs().has("ignore_index");
  const int64_t ignored = c.attrs().integer("ignore_index", 0);
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T *scores = c.inputs[0].as<T>(), *weights = c.has(2) ? c.inputs[2].as<T>() : nullptr;
    T* out = c.outputs[0].as<T>();
    double total = 0, total_weight = 0;
    for (int64_t i = 0; i < positions; ++i) {
      const auto target = static_cast<int64_t>(load_element(c.inputs[1].dtype, c.inputs[1].data, i));
      double loss = 0;
      if (!ignores || target != ignored) {
        if (target < 0 || target >= classes) fail("class {} at position {} is outside [0,{})", target, i, classes);
        const double weight = weights ? static_cast<double>(weights[target]) : 1;
        loss = -weight * static_cast<double>(scores[(i / inner * classes + target) * inner + i % inner]);
        total_weight += weight;
      }
      total += loss;
      if (reduction == Reduction::none) out[i] = T(static_cast<Compute<T>>(loss));
    }
    if (reduction == Reduction::sum) out[0] = T(static_cast<Compute<T>>(total));
    if (reduction == Reduction::mean) out[0] = T(static_cast<Compute<T>>(total / total_weight));
  });
}

void infer(InferContext& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, Shape::kMaxRank);
  expect_dtype(c, 1, TypeList<int32_t, int64_t>{}, "i32 or i64");
  const Shape& x = c.shape(0);
  expect_shape(c, 1, x.removed(1));
  if (c.has(2)) {
    expect_same_dtype(c, 2, 0);
    expect_shape(c, 2, {x[1]});
  }
  c.output(0, c.dtype(0), reduction_of(c.attrs) == Reduction::none ? x.removed(1) : Shape{});
}

std::vector<ValueId> expand_softmax(ExpandContext& e) {
  const ValueId log = e.b.add("LogSoftmax", {e.in(0)}, {{"axis", int64_t{1}}});
  std::vector<ValueId> out{e.b.add("NegativeLogLikelihoodLoss", {log, e.in(1), e.in(2)}, e.node.attrs)};
  if (e.node.outputs.size() > 1) out.push_back(log);
  return out;
}

// With e 1 at the class of each position that counts and 0 elsewhere, the loss is the sum of -e w x, for the mean
// divided by the sum of e w.
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), target(c.b, c.in(1)), y(c.b, c.node.outputs[0]);
  const Shape shape = x.shape();
  Term g(c.b, c.out_grads[0]);
  Tensor marks = Tensor::zeros(x.dtype(), Shape{2});
  store_element(x.dtype(), marks.raw(), 1, 1);
  Term e(c.b,
         c.b.add("OneHot", {target, c.b.ints({shape[1]}), c.b.constant(std::move(marks))}, {{"axis", int64_t{1}}}));
  const auto beside = [&](Term v) { return v.as(target.shape().inserted(1, 1)); };  // [N, 1, ...]
  if (c.node.attrs.has("ignore_index")) {
    const Term ignored = target.number(static_cast<double>(c.node.attrs.integer("ignore_index", 0)));
    e = where(beside(node("Equal", target, ignored)), e.number(0), e);
  }
  std::vector<int64_t> column(static_cast<size_t>(shape.rank()), 1);
  column[1] = shape[1];
  const Term weighted = c.has(2) ? e * Term(c.b, c.in(2)).as(Shape(column)) : e;
  const Reduction reduction = reduction_of(c.node.attrs);
  if (reduction == Reduction::none) g = beside(g);
  if (reduction == Reduction::mean) g = g / weighted.of("ReduceSum", {{"keepdims", int64_t{0}}});
  std::vector<ValueId> out{-(g * weighted), {}, {}};
  if (c.wants(2)) {
    std::vector<int64_t> others = axes_from(2, shape.rank());
    others.insert(others.begin(), 0);
    const Term each = g * e, loss = reduction == Reduction::mean ? x + y : x;
    out[2] = (-(each * loss)).over("ReduceSum", others).as(Shape{shape[1]});
  }
  return out;
}

double cost(const Problem& p) { return 3.0 * static_cast<double>(p.inputs[1].shape.elements()); }

std::vector<OpCase> cases() {
  const auto x = CaseInput::of({3, 5, 4}), target = CaseInput::range({3, 4}, 0, 4, DType::i64);
  const auto weight = CaseInput::range({5}, 0.5, 2);
  const std::string none = "none", sum = "sum";
  return {{"mean", {x, target, weight}},
          {"sum", {x, target}, {{"reduction", sum}}},
          {"none", {x, target, weight}, {{"reduction", none}, {"ignore_index", int64_t{2}}}},
          {"matrix", {CaseInput::of({6, 5}), CaseInput::range({6}, 0, 4, DType::i32)}}};
}

constexpr AttrSpec kAttrs[] = {{"ignore_index", AttrType::integer}, {"reduction", AttrType::text}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {
    {.name = "NegativeLogLikelihoodLoss",
     .doc = "Minus the score of the right class, reduced.",
     .since = 12,
     .inputs = {2, 3},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .infer = infer,
     .cpu = kCpu,
     .grad = gradient,
     .cost = cost,
     .cases = cases},
    {.name = "SoftmaxCrossEntropyLoss",
     .doc = "NegativeLogLikelihoodLoss of the scores' LogSoftmax.",
     .since = 12,
     .inputs = {2, 3},
     .outputs = {1, 2},
     .attributes = kAttrs,
     .expand = expand_softmax,
     .cases = cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::cross_entropy_ops
