// The table of activations: its functions against the ops' references, and the derivatives against finite differences.
#include "ir/activation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/infer.h"

namespace sparkpilot {
namespace {

struct Parameters {
  double alpha, beta;
};
Parameters parameters_of(const EpilogueActivation& row) {
  if (row.parameters == 2) return {-0.75, 1.5};
  return {row.parameters == 1 ? 0.3 : 0.0, 0};
}

// The op by its reference kernel, in double if the op supports that.
double by_the_op(const EpilogueActivation& row, double x) {
  const Parameters p = parameters_of(row);
  const OpDef& op = *find_op("", row.op, 26);
  Node node{.op = &op, .name = {}, .inputs = {ValueId{0}}, .outputs = {ValueId{0}}, .attrs = {}};
  std::vector<Tensor> inputs{Tensor::of<float>(Shape{1}, std::vector<float>{static_cast<float>(x)})};
  if (!row.key.empty()) node.attrs.set(std::string(row.key), std::string(row.value));
  if (!row.alpha.empty()) node.attrs.set(std::string(row.alpha), static_cast<float>(p.alpha));
  if (row.parameters == 2) {
    for (const double limit : {p.alpha, p.beta}) {
      node.inputs.push_back(ValueId{static_cast<int32_t>(inputs.size())});
      inputs.push_back(Tensor::scalar(static_cast<float>(limit)));
    }
  }
  return static_cast<double>(evaluate(node, inputs, op.cpu.back().name)[0].data<float>()[0]);
}

TEST(ActivationTable, FunctionsAreTheOps) {
  for (const EpilogueActivation& row : kEpilogueActivations) {
    const Parameters p = parameters_of(row);
    for (double x = -8; x <= 8; x += 0.3125) {
      const double expected = by_the_op(row, x);
      EXPECT_NEAR(row.function(x, p.alpha, p.beta), expected, 1e-6 * std::max(1.0, std::abs(expected)))
          << row.step << " of " << x;
    }
  }
}

TEST(ActivationTable, DerivativesAreThoseOfTheFunctions) {
  constexpr double kStep = 1e-5;
  for (const EpilogueActivation& row : kEpilogueActivations) {
    const auto [alpha, beta] = parameters_of(row);
    for (double x = -8.01; x <= 8; x += 0.17) {  // no x is a kink
      const double difference =
          (row.function(x + kStep, alpha, beta) - row.function(x - kStep, alpha, beta)) / (2 * kStep);
      EXPECT_NEAR(row.derivative(x, alpha, beta), difference, 1e-8) << row.step << " at " << x;
    }
  }
}

}  // namespace
}  // namespace sparkpilot
