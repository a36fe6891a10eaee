// The table of activations, with their names in epilogues. A new one that can be fused with products also needs its
// function and derivative in activation.cc, and under src/ops
//   cpu/   a functor in vector/vector_unary.cc; where oneDNN supports it, a case in onednn/onednn.cc
//   cuda/  a case each in epilogue.cuh and epilogue_four.cuh; for elementwise chains a function in elementwise.h, in
//          the order of the enum below, its case in functions.cuh and its op in elementwise_candidates.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparkpilot {

enum class Activation : uint8_t {
  relu,              // max(x, 0)
  leaky_relu,        // x < 0 ? alpha * x : x
  thresholded_relu,  // x > alpha ? x : 0
  clip,              // min(max(x, alpha), beta)
  hard_sigmoid,      // min(max(alpha * x + beta, 0), 1)
  hard_swish,        // x * min(max(x / 6 + 1/2, 0), 1)
  sigmoid,           // 1 / (1 + exp(-x))
  silu,              // x * sigmoid(alpha * x); alpha is 1 in SiLU
  tanh,
  gelu_tanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
  gelu_erf,   // x / 2 * (1 + erf(x / sqrt(2)))
  elu,        // x < 0 ? alpha * (exp(x) - 1) : x
  selu,       // beta * (x <= 0 ? alpha * (exp(x) - 1) : x)
  celu,       // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  softplus,   // log(1 + exp(x))
  softsign,   // x / (1 + |x|)
  mish,       // x * tanh(softplus(x))
  shrink,     // x < -alpha ? x + beta : x > alpha ? x - beta : 0
};
// alpha if a caller has none: 1 for silu, 0 otherwise (unused).
constexpr float default_alpha(Activation activation) { return activation == Activation::silu ? 1.0f : 0.0f; }

// An activation that an epilogue may contain. A step is its name and parameters, separated by colons: "leaky_relu:0.1".
struct EpilogueActivation {
  Activation activation;
  std::string_view step;
  int parameters;       // alpha, then beta
  std::string_view op;  // the ONNX op that computes it
  // The function and its derivative by x, in double; at a kink the derivative of the left side, and 0 at both ends of
  // clip.
  double (*function)(double x, double alpha, double beta);
  double (*derivative)(double x, double alpha, double beta);
  // An attribute that the op must have to be this activation; empty if no attribute matters.
  std::string_view key = {}, value = {};
  // The op's attribute that is alpha, and its default.
  std::string_view alpha = {};
  float without = 0;
};
// The functions of the table (activation.cc).
namespace activation {
double relu(double x, double, double), relu_derivative(double x, double, double);
double gelu_tanh(double x, double, double), gelu_tanh_derivative(double x, double, double);
double gelu_erf(double x, double, double), gelu_erf_derivative(double x, double, double);
double sigmoid(double x, double, double), sigmoid_derivative(double x, double, double);
double silu(double x, double, double), silu_derivative(double x, double, double);
double tanh(double x, double, double), tanh_derivative(double x, double, double);
double hard_swish(double x, double, double), hard_swish_derivative(double x, double, double);
double leaky_relu(double x, double alpha, double), leaky_relu_derivative(double x, double alpha, double);
double elu(double x, double alpha, double), elu_derivative(double x, double alpha, double);
double clip(double x, double low, double high), clip_derivative(double x, double low, double high);
}  // namespace activation

// clang-format off
inline constexpr std::array kEpilogueActivations{
    EpilogueActivation{Activation::relu, "relu", 0, "Relu", activation::relu, activation::relu_derivative},
    EpilogueActivation{Activation::gelu_tanh, "gelu_tanh", 0, "Gelu", activation::gelu_tanh, activation::gelu_tanh_derivative, "approximate", "tanh"},
    EpilogueActivation{Activation::gelu_erf, "gelu_erf", 0, "Gelu", activation::gelu_erf, activation::gelu_erf_derivative, "approximate", "none"},
    EpilogueActivation{Activation::sigmoid, "sigmoid", 0, "Sigmoid", activation::sigmoid, activation::sigmoid_derivative},
    EpilogueActivation{Activation::silu, "silu", 0, "Swish", activation::silu, activation::silu_derivative},
    EpilogueActivation{Activation::tanh, "tanh", 0, "Tanh", activation::tanh, activation::tanh_derivative},
    EpilogueActivation{Activation::hard_swish, "hard_swish", 0, "HardSwish", activation::hard_swish, activation::hard_swish_derivative},
    EpilogueActivation{Activation::leaky_relu, "leaky_relu", 1, "LeakyRelu", activation::leaky_relu, activation::leaky_relu_derivative, {}, {}, "alpha", 0.01f},
    EpilogueActivation{Activation::elu, "elu", 1, "Elu", activation::elu, activation::elu_derivative, {}, {}, "alpha", 1},
    EpilogueActivation{Activation::clip, "clip", 2, "Clip", activation::clip, activation::clip_derivative},
};
// clang-format on
// The table's row of an activation, or of a step's name; null if epilogues do not support it.
constexpr const EpilogueActivation* epilogue_activation(Activation activation) {
  for (const EpilogueActivation& row : kEpilogueActivations) {
    if (row.activation == activation) return &row;
  }
  return nullptr;
}
constexpr const EpilogueActivation* epilogue_activation(std::string_view step) {
  for (const EpilogueActivation& row : kEpilogueActivations) {
    if (row.step == step) return &row;
  }
  return nullptr;
}
// The text of a step: its name and as many of alpha and beta as it has parameters.
std::string epilogue_step(Activation activation, float alpha = 0, float beta = 0);
// The node's input that a step reads ("add:3", "mul:3"), whose text must be valid; empty for activations.
std::optional<size_t> operand_of_step(std::string_view step);
// The same step with another input.
std::string step_with_operand(std::string_view step, size_t input);

}  // namespace sparkpilot
