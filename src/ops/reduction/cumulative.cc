// CumSum and CumProd: running sums and products along an axis, which is an operand.
#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cpu/vector/elementwise.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::cumulative_ops {
namespace {

int axis_of(const ConstView& operand, int rank) { return normalize_axis(IntOperand(operand)[0], rank); }

// Accumulates floats in double, integers in 64 bits that wrap.
template <typename T>
using Running = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

template <bool kProduct>
void run(const Call& c) {
  const Shape& shape = c.inputs[0].shape;
  const int axis = axis_of(c.inputs[1], shape.rank());
  const int64_t size = shape[axis], inner = shape.elements(axis + 1, shape.rank());
  const int64_t outer = shape.elements(0, axis);
  const bool exclusive = c.attrs().integer("exclusive", 0) != 0, reverse = c.attrs().integer("reverse", 0) != 0;
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    using W = Running<T>;
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    parallel_for(outer * inner, 1 + 4096 / (size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t base = line / inner * size * inner + line % inner;
        W running = kProduct ? W{1} : W{0};
        for (int64_t i = 0; i < size; ++i) {
          const int64_t at = base + (reverse ? size - 1 - i : i) * inner;
          const W element = static_cast<W>(static_cast<Compute<T>>(x[at]));
          const W next = kProduct ? running * element : running + element;
          y[at] = narrow<T>(exclusive ? running : next);
          running = next;
        }
      }
    });
  });
}

void infer(InferContext& c) {
  expect_dtype(c, 0, NumericTypes{}, "a number");
  expect_index_dtype(c, 1);
  if (c.shape(1).elements() != 1) fail("axis has shape {}, expected one element", c.shape(1).str());
  if (c.rank(0) == 0) fail("input 0 is a scalar, which has no axis");
  if (const Tensor* axis = c.value(1)) normalize_axis(axis->to_ints()[0], c.rank(0));
  c.output(0, c.dtype(0), c.shape(0));
}

std::vector<OpCase> cases() {
  const auto axis = [](int64_t a) { return CaseInput::value(Tensor::scalar(a)); };
  const CaseInput x = CaseInput::range({3, 5, 7}, 0.5, 1.5);
  return {{"last", {x, axis(-1)}, {}},
          {"middle_reverse", {x, axis(1)}, {{"reverse", int64_t{1}}}},
          {"first_exclusive", {x, axis(0)}, {{"exclusive", int64_t{1}}}},
          {"both", {x, axis(2)}, {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}},
          {"f16", {CaseInput::range({4, 9}, 0.5, 1.5, DType::f16), axis(1)}, {}},
          {"i32", {CaseInput::range({40}, -9, 9, DType::i32), axis(0)}, {}}};
}

constexpr AttrSpec kAttrs[] = {{"exclusive", AttrType::integer}, {"reverse", AttrType::integer}};
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const auto along = constant_list(p, 1);
  if (!along || along->size() != 1) return {};
  return normalize_axis((*along)[0], p.inputs[0].shape.rank()) == axis ? AxisSource{} : same_axis(axis);
}

// What an element is part of: the sums on the other side of it.
std::vector<ValueId> gradient_of_sum(GradContext& c) {
  Attributes attrs = c.node.attrs;
  attrs.set("reverse", attrs.integer("reverse", 0) == 0 ? int64_t{1} : int64_t{0});
  return {c.b.add("CumSum", {c.out_grads[0], c.in(1)}, attrs)};
}

constexpr Kernel kSum[] = {{.name = "reference", .run = run<false>}};
constexpr Kernel kProduct[] = {{.name = "reference", .run = run<true>}};

const OpDef kOps[] = {{.name = "CumSum",
                       .doc = "Running sums along an axis.",
                       .since = 11,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.in_place = over_any_input},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kSum,
                       .grad = gradient_of_sum,
                       .cases = cases},
                      {.name = "CumProd",
                       .doc = "Running products along an axis.",
                       .since = 26,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.in_place = over_any_input},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kProduct,
                       .no_gradient = "it needs the products without each factor",
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::cumulative_ops
