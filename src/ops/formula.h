// Formulas of nodes, for gradients and expansions: (1 - y * y) * g.
#pragma once

#include <string_view>

#include "ir/op.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {

// A value of a graph, in a formula. Numbers take the type of the other operand.
class Term {
 public:
  Term(Builder& b, ValueId id) : b_(&b), id_(id) {}
  operator ValueId() const { return id_; }  // NOLINT(google-explicit-constructor): a formula's result is a value
  Builder& builder() const { return *b_; }
  Term number(double value) const { return {*b_, b_->scalar(b_->dtype(id_), value)}; }
  Term of(std::string_view op) const { return {*b_, b_->add(op, {id_})}; }

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

inline Term where(Term condition, Term yes, Term no) {
  return {yes.builder(), yes.builder().add("Where", {condition, yes, no})};
}
inline Term where(Term condition, Term yes, double no) { return where(condition, yes, yes.number(no)); }

// The gradient of an op with one operand: kFormula(x, y, g, attributes), y being the output.
template <auto kFormula>
std::vector<ValueId> gradient_of_unary(GradContext& c) {
  return {kFormula(Term(c.b, c.node.inputs[0]), Term(c.b, c.node.outputs[0]), Term(c.b, c.out_grads[0]), c.node.attrs)};
}

}  // namespace sparkpilot
