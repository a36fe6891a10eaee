// Recognises activations: y = p(x, t) with t = f(q(x)), where f is one op and (p, q) is one of the known pairs of
// polynomials.
#include <algorithm>
#include <cmath>

#include "passes/polynomial.h"
#include "passes/recognise.h"

namespace sparkpilot {
namespace {

constexpr int kMaxSteps = 6;  // nodes between t and y

struct Form {
  std::string_view inner;  // f
  double q0, q1, q3;       // q(x) = q0 + q1 x + q3 x^3
  double y_x, y_t, y_xt;   // p(x, t) = y_x x + y_t t + y_xt x t
  std::string_view op;     // the op that the form is
  double alpha, beta;      // its attributes, if it has them
};

constexpr double kRootTwoOverPi = 0.79788456080286535588;

constexpr Form kForms[] = {
    {"Tanh", 0, kRootTwoOverPi, kRootTwoOverPi * 0.044715, 0.5, 0, 0.5, "Gelu", 1, 0},
    {"Erf", 0, M_SQRT1_2, 0, 0.5, 0, 0.5, "Gelu", 0, 0},
    {"Sigmoid", 0, 1, 0, 0, 0, 1, "Swish", 1, 0},
    {"HardSigmoid", 0, 1, 0, 0, 0, 1, "HardSwish", 0, 0},
    {"Clip", 3, 1, 0, 0, 0, 1.0 / 6, "HardSwish", 0, 0},
    {"Clip", 3, 1, 0, 0, 1.0 / 6, 0, "HardSigmoid", 1.0 / 6, 0.5},
    {"Tanh", 0, 1, 0, 0, 0, 1, "Mish", 0, 0},
};

bool near(double a, double b) { return std::abs(a - b) <= 2e-6 * std::abs(b); }

// Whether the middle op itself, with its attributes, is the one of the form.
bool middle_fits(Edit& edit, const Node& node, const Form& form) {
  if (!is_op(node, form.inner)) return false;
  if (form.inner == "HardSigmoid") {
    return near(node.attrs.real("alpha", 0.2f), 1.0 / 6) && near(node.attrs.real("beta", 0.5f), 0.5);
  }
  if (form.inner == "Clip") {
    return node.inputs.size() == 3 && edit.scalar(node.inputs[1]) == 0.0 && edit.scalar(node.inputs[2]) == 6.0;
  }
  return true;
}

// Values that the argument of the middle op may be a polynomial in.
std::vector<ValueId> candidates(Edit& edit, ValueId argument) {
  std::vector<ValueId> found{argument};
  for (size_t at = 0; at < found.size() && found.size() < 16; ++at) {
    const NodeId id = edit.maker(found[at]);
    if (!id.present()) continue;
    const Node& node = edit.node(id);
    if (!is_op(node, "Add") && !is_op(node, "Mul") && !is_op(node, "Div") && !is_op(node, "Pow") &&
        !is_op(node, "Sub")) {
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (!edit.constant(input) && std::find(found.begin(), found.end(), input) == found.end()) found.push_back(input);
    }
  }
  return found;
}

Attributes attributes_of(const Form& form) {
  if (form.op == "Gelu") return {{"approximate", std::string(form.alpha == 1 ? "tanh" : "none")}};
  if (form.op == "Swish") return {{"alpha", static_cast<float>(form.alpha)}};
  if (form.op == "HardSigmoid") {
    return {{"alpha", static_cast<float>(form.alpha)}, {"beta", static_cast<float>(form.beta)}};
  }
  return {};
}

bool try_form(Edit& edit, NodeId middle, ValueId x, const Form& form) {
  const ValueId t = edit.node(middle).outputs[0];
  if (!edit.known(x) || !edit.known(t) || !(edit.shape(x) == edit.shape(t)) || !is_float(edit.dtype(x))) return false;
  Region above(edit);
  ValueId argument = edit.node(middle).inputs[0];
  if (form.op == "Mish") {
    const Node* softplus = above.take(argument, "Softplus");
    if (!softplus) return false;
    argument = softplus->inputs[0];
  }
  const auto q = polynomial_of(edit, argument, x, {}, above);
  Polynomial expected_q;
  expected_q.c[0][0] = form.q0;
  expected_q.c[1][0] = form.q1;
  expected_q.c[3][0] = form.q3;
  if (!q || !matches(*q, expected_q)) return false;
  Polynomial expected_p;
  expected_p.c[1][0] = form.y_x;
  expected_p.c[0][1] = form.y_t;
  expected_p.c[1][1] = form.y_xt;
  ValueId y = t;
  for (int step = 0; step < kMaxSteps; ++step) {
    const NodeId next = edit.only_reader(y);
    if (!next.present() || edit.node(next).outputs.size() != 1) return false;
    y = edit.node(next).outputs[0];
    Region region = above;
    region.take(middle);
    const auto p = polynomial_of(edit, y, x, t, region);
    if (!p) return false;
    if (!matches(*p, expected_p)) continue;
    if (!region.closed(y)) return false;
    edit.replace(y, edit.make(next, form.op, {x}, attributes_of(form)));
    return true;
  }
  return false;
}

}  // namespace

bool recognise_activation(Edit& edit, NodeId id) {
  for (const Form& form : kForms) {
    if (edit.graph().erased(id) || !middle_fits(edit, edit.node(id), form)) continue;
    ValueId argument = edit.node(id).inputs[0];
    if (form.op == "Mish") {
      const NodeId softplus = edit.maker(argument, "Softplus");
      if (!softplus.present()) continue;
      argument = edit.node(softplus).inputs[0];
    }
    for (const ValueId x : candidates(edit, argument)) {
      if (try_form(edit, id, x, form)) return true;
    }
  }
  return false;
}

}  // namespace sparkpilot
