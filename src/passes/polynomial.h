// Arithmetic with scalar constants as a polynomial, so that one test covers the many ways to write the same formula.
#pragma once

#include <array>
#include <optional>

#include "passes/edit.h"

namespace sparkpilot {

// Sum of c[i][j] * x^i * t^j.
struct Polynomial {
  static constexpr int kX = 4, kT = 2;
  std::array<std::array<double, kT>, kX> c{};
  bool rounded = true;  // every constant in it can be represented in f16

  static Polynomial constant(double value);
  static Polynomial variable(bool t);
};

// `value` as a polynomial in x and t (absent: no t), if it is made of them by Add, Sub, Mul, Div, Neg and Pow with
// scalar constants and every value has x's shape. The nodes on the way are added to the region. Empty if it is anything
// else.
std::optional<Polynomial> polynomial_of(Edit& edit, ValueId value, ValueId x, ValueId t, Region& region);

// Whether both have the same coefficients, up to the rounding of their constants to f32; or to f16 if all constants can
// be represented in f16.
bool matches(const Polynomial& found, const Polynomial& expected);

}  // namespace sparkpilot
