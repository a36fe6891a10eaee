// Mathematical functions of one operand.
#include "ops/elementwise/unary.h"
#include "ops/registry.h"

namespace sparkpilot::unary_math_ops {
namespace {

const OpDef kOps[] = {
    unary_op<fn::Abs, UnaryMath::abs, -9, 9, NumericTypes>(
        "Abs", 1, "Absolute value.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g * x.of("Sign"); }>),
    unary_op<fn::Acos, NoVector{}, -1, 1>(
        "Acos", 7, "Inverse cosine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return -(g / (1 - x * x).of("Sqrt")); }>),
    unary_op<fn::Acosh, NoVector{}, 1, 50>(
        "Acosh", 9, "Inverse hyperbolic cosine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g / (x * x - 1).of("Sqrt"); }>),
    unary_op<fn::Asin, NoVector{}, -1, 1>(
        "Asin", 7, "Inverse sine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g / (1 - x * x).of("Sqrt"); }>),
    unary_op<fn::Asinh, NoVector{}, -50, 50>(
        "Asinh", 9, "Inverse hyperbolic sine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g / (x * x + 1).of("Sqrt"); }>),
    unary_op<fn::Atan, NoVector{}, -9, 9>(
        "Atan", 7, "Inverse tangent.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g / (x * x + 1); }>),
    unary_op<fn::Atanh, NoVector{}, -1, 1>(
        "Atanh", 9, "Inverse hyperbolic tangent.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g / (1 - x * x); }>),
    unary_op<fn::Ceil, UnaryMath::ceil, -9, 9>("Ceil", 1, "The integer not below.", gradient_of_steps),
    unary_op<fn::Cos, UnaryMath::cos, -99, 99>(
        "Cos", 7, "Cosine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return -(g * x.of("Sin")); }>),
    unary_op<fn::Cosh, NoVector{}, -9, 9>(
        "Cosh", 9, "Hyperbolic cosine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g * x.of("Sinh"); }>),
    unary_op<fn::Erf, UnaryMath::erf, -4, 4, NumericTypes>(
        "Erf", 9, "Gauss's error function.", gradient_of_unary<[](Term x, Term, Term g, const Attributes&) {
          return 1.1283791670955126 * g * (-(x * x)).of("Exp");
        }>),
    unary_op<fn::Exp, UnaryMath::exp, -20, 20>(
        "Exp", 1, "Exponential function.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return g * y; }>),
    unary_op<fn::Floor, UnaryMath::floor, -9, 9>("Floor", 1, "The integer not above.", gradient_of_steps),
    unary_op<fn::Log, UnaryMath::log, 0, 50>(
        "Log", 1, "Natural logarithm.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g / x; }>),
    unary_op<fn::Neg, UnaryMath::neg, -9, 9, NumericTypes>(
        "Neg", 1, "The negative.", gradient_of_unary<[](Term, Term, Term g, const Attributes&) { return -g; }>),
    unary_op<fn::Reciprocal, UnaryMath::reciprocal, 1, 9>(
        "Reciprocal", 1, "One over x.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return -(g * y * y); }>),
    unary_op<fn::Round, UnaryMath::round, -9, 9>("Round", 11, "The nearest integer, halves to the even one.",
                                                 gradient_of_steps),
    unary_op<fn::Sign, UnaryMath::sign, -2, 2, NumericTypes>("Sign", 9, "-1, 0 or 1.", gradient_of_steps),
    unary_op<fn::Sin, UnaryMath::sin, -99, 99>(
        "Sin", 7, "Sine.", gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g * x.of("Cos"); }>),
    unary_op<fn::Sinh, NoVector{}, -9, 9>(
        "Sinh", 9, "Hyperbolic sine.",
        gradient_of_unary<[](Term x, Term, Term g, const Attributes&) { return g * x.of("Cosh"); }>),
    unary_op<fn::Sqrt, UnaryMath::sqrt, 0, 50>(
        "Sqrt", 1, "Square root.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return 0.5 * g / y; }>),
    unary_op<fn::Tan, NoVector{}, -1, 1>(
        "Tan", 7, "Tangent.",
        gradient_of_unary<[](Term, Term y, Term g, const Attributes&) { return g * (y * y + 1); }>),
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::unary_math_ops
