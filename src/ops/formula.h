// Formulas of nodes, for gradients and expansions: (1 - y * y) * g.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {

// A value of a graph, in a formula. Numbers take the type of the other operand. A shape is a copy: nodes that are added
// move the graph's values.
class Term {
 public:
  Term(Builder& b, ValueId id) : b_(&b), id_(id) {}
  operator ValueId() const { return id_; }  // NOLINT(google-explicit-constructor): a formula's result is a value
  Builder& builder() const { return *b_; }
  Term number(double value) const { return {*b_, b_->scalar(b_->dtype(id_), value)}; }
  Term of(std::string_view op, Attributes attrs = {}) const { return {*b_, b_->add(op, {id_}, std::move(attrs))}; }
  Shape shape() const { return b_->shape(id_); }
  DType dtype() const { return b_->dtype(id_); }
  // The same elements in another shape.
  Term as(const Shape& shape) const {
    if (shape == this->shape()) return *this;
    const Attributes zeros = shape.elements() == 0 ? Attributes{{"allowzero", int64_t{1}}} : Attributes();
    return {*b_, b_->add("Reshape", {id_, b_->ints(shape.dims())}, zeros)};
  }
  // Reduced over some axes, which stay with size 1: "ReduceSum", "ReduceMean".
  Term over(std::string_view reduce, std::span<const int64_t> axes) const {
    return axes.empty() ? *this : Term(*b_, b_->add(reduce, {id_, b_->ints(axes)}));
  }
  Term swapped(std::span<const int64_t> order) const {
    return of("Transpose", {{"perm", std::vector<int64_t>(order.begin(), order.end())}});
  }

 private:
  Builder* b_;
  ValueId id_;
};

inline Term node(std::string_view op, Term a, Term b) { return {a.builder(), a.builder().add(op, {a, b})}; }

inline Term operator+(Term a, Term b) { return node("Add", a, b); }
inline Term operator-(Term a, Term b) { return node("Sub", a, b); }
inline Term operator*(Term a, Term b) { return node("Mul", a, b); }
inline Term operator/(Term a, Term b) { return node("Div", a, b); }
inline Term operator+(Term a, double b) { return a + a.number(b); }
inline Term operator-(double a, Term b) { return b.number(a) - b; }
inline Term operator-(Term a, double b) { return a - a.number(b); }
inline Term operator*(double a, Term b) { return b.number(a) * b; }
inline Term operator/(double a, Term b) { return b.number(a) / b; }
inline Term operator-(Term a) { return a.of("Neg"); }
// Values of BOOL.
inline Term operator>(Term a, double b) { return node("Greater", a, a.number(b)); }
inline Term operator<(Term a, double b) { return node("Less", a, a.number(b)); }
inline Term operator&(Term a, Term b) { return node("And", a, b); }
inline Term power(Term a, double exponent) { return node("Pow", a, a.number(exponent)); }

// Zeros of a type and shape, which take no memory before they are used.
inline Term zeros(Builder& b, DType dtype, const Shape& shape) {
  return {b, b.add("Expand", {b.scalar(dtype, 0), b.ints(shape.dims())})};
}
// All axes of a tensor of that rank from `first` on.
inline std::vector<int64_t> axes_from(int first, int rank) {
  std::vector<int64_t> out;
  for (int axis = first; axis < rank; ++axis) out.push_back(axis);
  return out;
}

inline Term where(Term condition, Term yes, Term no) {
  return {yes.builder(), yes.builder().add("Where", {condition, yes, no})};
}
inline Term where(Term condition, Term yes, double no) { return where(condition, yes, yes.number(no)); }

// The gradient of an op with one operand: kFormula(x, y, g, attributes), y being the output.
template <auto kFormula>
std::vector<ValueId> gradient_of_unary(GradContext& c) {
  return {kFormula(Term(c.b, c.node.inputs[0]), Term(c.b, c.node.outputs[0]), Term(c.b, c.out_grads[0]), c.node.attrs)};
}

// The integers of an input that is a constant, none if it is absent; fails (user) if it is computed.
inline std::vector<int64_t> constant_ints(GradContext& c, size_t input) {
  if (!c.has(input)) return {};
  const Tensor* const constant = c.b.graph().constant(c.in(input));
  if (!constant) fail("input {} is computed", input);
  return constant->to_ints();
}

// The gradient of ops whose results are constant between jumps, as Floor's: zero, as in other frameworks.
inline std::vector<ValueId> gradient_of_steps(GradContext&) { return {}; }

}  // namespace sparkpilot
