#include "passes/polynomial.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot {
namespace {

constexpr int kMaxDepth = 10;

Polynomial sum(const Polynomial& a, const Polynomial& b, double factor) {
  Polynomial out;
  for (int i = 0; i < Polynomial::kX; ++i) {
    for (int j = 0; j < Polynomial::kT; ++j) out.c[i][j] = a.c[i][j] + factor * b.c[i][j];
  }
  out.rounded = a.rounded && b.rounded;
  return out;
}

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  for (int i = 0; i < Polynomial::kX; ++i) {
    for (int j = 0; j < Polynomial::kT; ++j) {
      if (a.c[i][j] == 0) continue;
      for (int k = 0; k < Polynomial::kX; ++k) {
        for (int l = 0; l < Polynomial::kT; ++l) {
          if (b.c[k][l] == 0) continue;
          if (i + k >= Polynomial::kX || j + l >= Polynomial::kT) return {};
          out.c[i + k][j + l] += a.c[i][j] * b.c[k][l];
        }
      }
    }
  }
  out.rounded = a.rounded && b.rounded;
  return out;
}

class Reader {
 public:
  Reader(Edit& edit, ValueId x, ValueId t, Region& region) : edit_(edit), x_(x), t_(t), region_(region) {}

  std::optional<Polynomial> read(ValueId value, int depth) {
    if (value == x_) return Polynomial::variable(false);
    if (t_.present() && value == t_) return Polynomial::variable(true);
    if (const auto constant = edit_.scalar(value)) {
      if (edit_.shape(value).rank() > edit_.shape(x_).rank()) return {};
      return Polynomial::constant(*constant);
    }
    const NodeId id = edit_.maker(value);
    if (depth == 0 || !id.present() || !edit_.known(value) || !(edit_.shape(value) == edit_.shape(x_))) return {};
    const Node& node = edit_.node(id);
    if (node.inputs.empty() || node.inputs.size() > 2) return {};
    const std::optional<Polynomial> a = read(node.inputs[0], depth - 1);
    if (!a) return {};
    std::optional<Polynomial> result;
    if (is_op(node, "Neg")) result = sum(Polynomial{}, *a, -1);
    else if (is_op(node, "Pow")) result = power(*a, node.inputs[1]);
    else if (node.inputs.size() == 2) result = binary(node, *a, depth);
    if (result) region_.take(id);
    return result;
  }

 private:
  std::optional<Polynomial> binary(const Node& node, const Polynomial& a, int depth) {
    const bool add = is_op(node, "Add"), sub = is_op(node, "Sub"), mul = is_op(node, "Mul"), div = is_op(node, "Div");
    if (!add && !sub && !mul && !div) return {};
    const std::optional<Polynomial> b = read(node.inputs[1], depth - 1);
    if (!b) return {};
    if (mul) return product(a, *b);
    if (!div) return sum(a, *b, add ? 1 : -1);
    const std::optional<double> divisor = edit_.scalar(node.inputs[1]);
    if (!divisor || *divisor == 0) return {};
    Polynomial inverse = Polynomial::constant(1 / *divisor);
    inverse.rounded = b->rounded;
    return product(a, inverse);
  }

  std::optional<Polynomial> power(const Polynomial& base, ValueId exponent) {
    const std::optional<double> n = edit_.scalar(exponent);
    if (!n || (*n != 1 && *n != 2 && *n != 3)) return {};
    std::optional<Polynomial> out = base;
    for (int i = 1; i < *n && out; ++i) out = product(*out, base);
    return out;
  }

  Edit& edit_;
  ValueId x_, t_;
  Region& region_;
};

}  // namespace

Polynomial Polynomial::constant(double value) {
  Polynomial out;
  out.c[0][0] = value;
  out.rounded = half_to_float(float_to_half(static_cast<float>(value))) == value;
  return out;
}

Polynomial Polynomial::variable(bool t) {
  Polynomial out;
  out.c[t ? 0 : 1][t ? 1 : 0] = 1;
  return out;
}

std::optional<Polynomial> polynomial_of(Edit& edit, ValueId value, ValueId x, ValueId t, Region& region) {
  if (!edit.known(x)) return {};
  const size_t mark = region.mark();
  std::optional<Polynomial> result = Reader(edit, x, t, region).read(value, kMaxDepth);
  if (!result) region.back_to(mark);
  return result;
}

bool matches(const Polynomial& found, const Polynomial& expected) {
  const double tolerance = found.rounded ? 1.5e-3 : 2e-6;
  for (int i = 0; i < Polynomial::kX; ++i) {
    for (int j = 0; j < Polynomial::kT; ++j) {
      const double want = expected.c[i][j];
      if (!(std::abs(found.c[i][j] - want) <= tolerance * std::abs(want))) return false;
    }
  }
  return true;
}

}  // namespace sparkpilot
