// Elementwise ops: chains of steps on elements, interpreted, one launch for each chain. One op is a chain of one step,
// Cast a chain of none.
#pragma once

#include <vector>

#include "ir/activation.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// x is the element as it goes through the chain, y the step's operand.
enum class Function : uint8_t {
  // without an operand: the functions of ir/activation.h, in its order, with alpha and beta
  relu,
  leaky_relu,
  thresholded_relu,
  clip,
  hard_sigmoid,
  hard_swish,
  sigmoid,
  silu,
  tanh,
  gelu_tanh,
  gelu_erf,
  elu,
  selu,
  celu,
  softplus,
  softsign,
  mish,
  shrink,
  // and others: -x, |x|, -1 0 or 1, !x, x != x, and x is infinite (alpha: counts positive, beta: negative)
  neg,
  abs,
  sign,
  logical_not,
  is_nan,
  is_inf,
  reciprocal,
  sqrt,
  exp,
  log,
  erf,
  floor,
  ceil,
  round,
  sin,
  cos,
  tan,
  sinh,
  cosh,
  // x and y; comparisons and logic give 0 or 1
  add,
  sub,
  mul,
  div,
  min,
  max,
  pow,
  mod,    // with the sign of y
  fmod,   // with the sign of x
  prelu,  // x < 0 ? x * y : x
  equal,
  less,
  less_or_equal,
  greater,
  greater_or_equal,
  logical_and,
  logical_or,
  logical_xor,
  select,  // x ? y : z, where z is the second operand
  load,    // y
  keep,    // x, which is also kept: steps read it as operand kKept
};
constexpr Function first_of_two = Function::add;
constexpr Function function_of(Activation activation) {
  return static_cast<Function>(static_cast<uint8_t>(activation));
}
static_assert(function_of(Activation::shrink) == Function::shrink);

constexpr uint8_t kKept = 0xff;
struct ElementwiseStep {
  Function function;
  uint8_t operand = 0, second = 0;  // an operand's index, or kKept
  bool reversed = false;            // y and x change places
  float alpha = 0, beta = 0;
};

struct ElementwiseOperand {
  const void* data;
  ElementType type;
  int strides[kMostDimensions];  // in elements, from the innermost dimension outwards; 0: repeated
};

// y = steps(operands), y's elements together. Computed in fp32 and rounded once; integer types round towards zero and
// saturate, booleans are x != 0. x begins as operand 0.
struct ElementwiseArguments {
  static constexpr int kMostOperands = 8, kMostSteps = 24;
  void* y;
  ElementType type;
  Dimensions dimensions;
  int elements, operand_count, step_count;
  int width;                 // 8, or 4 where elements are of four bytes and more
  unsigned vectors;          // of `width` elements in a row of the innermost dimension, the last may be shorter
  Divisor vectors_of_a_row;  // vectors = this * rows
  ElementwiseOperand operands[kMostOperands];
  ElementwiseStep steps[kMostSteps];
};

// An operand as ONNX broadcasts it, its sizes from the outermost dimension inwards; or with strides (in elements) for
// each dimension of y: transposed, sliced.
struct ElementwiseInput {
  const void* data;
  ElementType type;
  std::vector<int64_t> sizes, strides = {};
};
// Fails (internal) where kernels cannot: too many operands, steps or merged dimensions, 2^31 elements.
ElementwiseArguments make_elementwise(void* y, ElementType type, const std::vector<int64_t>& sizes,
                                      const std::vector<ElementwiseInput>& inputs,
                                      const std::vector<ElementwiseStep>& steps);

// The kernels: elementwise_wide_8 and _4 (by `width`, elements a thread) where this accepts, else elementwise (one a
// thread). And elementwise_integers for operands and results that are integers or booleans: in 64 bits, of which the
// result keeps the low ones; division rounds towards zero, and by zero gives 0. It takes relu, neg, abs, sign,
// logical_not and the functions of two operands, except pow.
bool elementwise_wide_accepts(const ElementwiseArguments& arguments);
KernelLaunch elementwise_wide_launch(const ElementwiseArguments& arguments);
KernelLaunch elementwise_launch(const ElementwiseArguments& arguments);

}  // namespace sparkpilot::cuda
