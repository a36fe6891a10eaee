// Mathematical functions of one operand.
#include "ops/elementwise/unary.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

const OpDef kOps[] = {
    unary_op<fn::Abs, UnaryMath::abs, -9, 9, NumericTypes>("Abs", 1, "Absolute value."),
    unary_op<fn::Acos, NoVector{}, -1, 1>("Acos", 7, "Inverse cosine."),
    unary_op<fn::Acosh, NoVector{}, 1, 50>("Acosh", 9, "Inverse hyperbolic cosine."),
    unary_op<fn::Asin, NoVector{}, -1, 1>("Asin", 7, "Inverse sine."),
    unary_op<fn::Asinh, NoVector{}, -50, 50>("Asinh", 9, "Inverse hyperbolic sine."),
    unary_op<fn::Atan, NoVector{}, -9, 9>("Atan", 7, "Inverse tangent."),
    unary_op<fn::Atanh, NoVector{}, -1, 1>("Atanh", 9, "Inverse hyperbolic tangent."),
    unary_op<fn::Ceil, UnaryMath::ceil, -9, 9>("Ceil", 1, "The integer not below."),
    unary_op<fn::Cos, UnaryMath::cos, -99, 99>("Cos", 7, "Cosine."),
    unary_op<fn::Cosh, NoVector{}, -9, 9>("Cosh", 9, "Hyperbolic cosine."),
    unary_op<fn::Erf, UnaryMath::erf, -4, 4, NumericTypes>("Erf", 9, "Gauss's error function."),
    unary_op<fn::Exp, UnaryMath::exp, -20, 20>("Exp", 1, "Exponential function."),
    unary_op<fn::Floor, UnaryMath::floor, -9, 9>("Floor", 1, "The integer not above."),
    unary_op<fn::Log, UnaryMath::log, 0, 50>("Log", 1, "Natural logarithm."),
    unary_op<fn::Neg, UnaryMath::neg, -9, 9, NumericTypes>("Neg", 1, "The negative."),
    unary_op<fn::Reciprocal, UnaryMath::reciprocal, 1, 9>("Reciprocal", 1, "One over x."),
    unary_op<fn::Round, UnaryMath::round, -9, 9>("Round", 11, "The nearest integer, halves to the even one."),
    unary_op<fn::Sign, UnaryMath::sign, -2, 2, NumericTypes>("Sign", 9, "-1, 0 or 1."),
    unary_op<fn::Sin, UnaryMath::sin, -99, 99>("Sin", 7, "Sine."),
    unary_op<fn::Sinh, NoVector{}, -9, 9>("Sinh", 9, "Hyperbolic sine."),
    unary_op<fn::Sqrt, UnaryMath::sqrt, 0, 50>("Sqrt", 1, "Square root."),
    unary_op<fn::Tan, NoVector{}, -1, 1>("Tan", 7, "Tangent."),
};

}  // namespace

std::span<const OpDef> unary_math_ops() { return kOps; }

}  // namespace sparkpilot
