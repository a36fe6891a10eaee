#include "ir/activation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace sparkpilot {

namespace activation {
namespace {

constexpr double kTanhCubic = 0.044715;
const double kTanhScale = std::sqrt(2 / std::numbers::pi);

double tanh_argument(double x) { return kTanhScale * (x + kTanhCubic * x * x * x); }

}  // namespace

double relu(double x, double, double) { return x < 0 ? 0 : x; }
double relu_derivative(double x, double, double) { return x > 0 ? 1 : 0; }

double gelu_tanh(double x, double, double) { return x / 2 * (1 + std::tanh(tanh_argument(x))); }
double gelu_tanh_derivative(double x, double, double) {
  const double t = std::tanh(tanh_argument(x)), inner = kTanhScale * (1 + 3 * kTanhCubic * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * inner;
}

double gelu_erf(double x, double, double) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_erf_derivative(double x, double, double) {
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  return (1 + std::erf(x / std::numbers::sqrt2)) / 2 + x * density;
}

double sigmoid(double x, double, double) { return 1 / (1 + std::exp(-x)); }
double sigmoid_derivative(double x, double, double) {
  const double s = sigmoid(x, 0, 0);
  return s * (1 - s);
}

double silu(double x, double, double) { return x * sigmoid(x, 0, 0); }
double silu_derivative(double x, double, double) {
  const double s = sigmoid(x, 0, 0);
  return s * (1 + x * (1 - s));
}

double tanh(double x, double, double) { return std::tanh(x); }
double tanh_derivative(double x, double, double) {
  const double t = std::tanh(x);
  return 1 - t * t;
}

double hard_swish(double x, double, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }
double hard_swish_derivative(double x, double, double) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; }

double leaky_relu(double x, double alpha, double) { return x < 0 ? alpha * x : x; }
double leaky_relu_derivative(double x, double alpha, double) { return x > 0 ? 1 : alpha; }

double elu(double x, double alpha, double) { return x < 0 ? alpha * std::expm1(x) : x; }
double elu_derivative(double x, double alpha, double) { return x > 0 ? 1 : alpha * std::exp(x); }

double clip(double x, double low, double high) { return std::fmin(std::fmax(x, low), high); }
double clip_derivative(double x, double low, double high) { return x > low && x < high ? 1 : 0; }

}  // namespace activation

std::string epilogue_step(Activation activation, float alpha, float beta) {
  const EpilogueActivation* row = epilogue_activation(activation);
  if (!row) fail_internal("epilogues have no such activation");
  if (row->parameters == 0) return std::string(row->step);
  if (row->parameters == 1) return fmt::format("{}:{}", row->step, alpha);
  return fmt::format("{}:{}:{}", row->step, alpha, beta);
}

std::optional<size_t> operand_of_step(std::string_view step) {
  if (!step.starts_with("add:") && !step.starts_with("mul:")) return {};
  return std::stoul(std::string(step.substr(4)));
}

std::string step_with_operand(std::string_view step, size_t input) {
  return fmt::format("{}{}", step.substr(0, 4), input);
}

}  // namespace sparkpilot
