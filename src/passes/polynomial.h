// Arithmetic with scalar constants, seen as a polynomial: one test for the many ways to write the same formula.
#pragma once

#include <array>
#include <optional>

#include "passes/edit.h"

namespace sparkpilot {

// Sum of c[i][j] * x^i * t^j.
struct Polynomial {
  static constexpr int kX = 4, kT = 2;
  std::array<std::array<double, kT>, kX> c{};
  bool rounded = true;  // every constant in it is a value that f16 holds too

  static Polynomial constant(double value);
  static Polynomial variable(bool t);
};

// What `value` is in terms of x and t (absent: no t), where it is made of them by Add, Sub, Mul, Div, Neg and Pow with
// scalar constants, all of x's shape. The nodes on the way join the region. Empty where it is anything else.
std::optional<Polynomial> polynomial_of(Edit& edit, ValueId value, ValueId x, ValueId t, Region& region);

// Whether both have the same coefficients, up to the rounding of their constants: f32's, or f16's where all constants
// are values of f16.
bool matches(const Polynomial& found, const Polynomial& expected);

}  // namespace sparkpilot
