// Checks the gradients of the op table on the ops' own cases, in f64, by central differences of the plain references.
// Runs in the tests and as `sparkpilot ops check --gradients`.
#pragma once

#include <vector>

#include "ops/check.h"

namespace sparkpilot {

// The gradient that differentiate() makes of a case, by its own nodes or through the op's expansion. The case's floats
// become f64, moved a little off what kinks there may be at short numbers; those that are `given` stay as they are, as
// constants. The loss is the sum of the f64 outputs, each element times a random number. For each input the gradient
// along two random directions is compared with (loss(x + h d) - loss(x - h d)) / 2h.
//
// `error` is the difference divided by the size of the gradient, the largest of the input's directions; `tolerance`
// allows for the rounding of the loss and for the error of the difference, as a second step tells it. Where the loss
// bends between the steps, a kink is too near, and the next of a few seeds is taken. Skipped, with the reason in
// `message`: cases without floats or marked as not differentiable, losses that are not finite, and gradients that
// differentiate() refuses; fused and quantized ops outside
// of ONNX that take no f64. `kernel` is
// "gradient", or "expansion" where the op has no gradient; where it refuses f64, its expansion is compared.
CheckResult check_gradient(const OpDef& op, const OpCase& op_case, uint64_t seed);

// All cases of one op.
std::vector<CheckResult> check_gradients(const OpDef& op, uint64_t seed);

}  // namespace sparkpilot
