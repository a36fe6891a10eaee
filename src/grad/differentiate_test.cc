// Every gradient of the table of ops against central differences, in f64, along random directions.
#include "grad/differentiate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ir/op.h"
#include "ops/check.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/error.h"

namespace sparkpilot {
namespace {

// In f64, moved a little so that short types do not lie on a kink.
Tensor off_kinks(const Tensor& from, Random& random) {
  Tensor out = convert(from, DType::f64);
  for (double& x : out.data<double>()) x += random.uniform(1e-4, 2e-4);
  return out;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.elements(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

Tensor random_like(const Tensor& from, Random& random) {
  Tensor out = Tensor::zeros(DType::f64, from.shape());
  for (int64_t i = 0; i < out.elements(); ++i) out.data<double>()[i] = random.uniform(-1, 1);
  return out;
}

Tensor moved(const Tensor& from, const Tensor& along, double step) {
  Tensor out = from.clone();
  for (int64_t i = 0; i < out.elements(); ++i) out.data<double>()[i] += step * along.data<double>()[i];
  return out;
}

// A case of an op with all its floats in f64, and a loss: its outputs, each multiplied by random numbers, summed up.
struct Checked {
  Graph graph;
  std::vector<Tensor> inputs;  // of the graph
  std::vector<ValueId> floats;
  std::vector<size_t> which;  // of the graph's inputs
  ValueId loss;
};

Checked checked(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors, Random& random) {
  Checked out;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].present()) {
      inputs.emplace_back();
    } else if (!is_float(tensors[i].dtype()) || op_case.inputs[i].fill == CaseInput::given) {
      inputs.push_back(
          out.graph.add_constant(is_float(tensors[i].dtype()) ? convert(tensors[i], DType::f64) : tensors[i]));
    } else {
      inputs.push_back(out.graph.add_input("x" + std::to_string(i), DType::f64, tensors[i].shape()));
      out.which.push_back(out.inputs.size());
      out.inputs.push_back(off_kinks(tensors[i], random));
      out.floats.push_back(inputs.back());
    }
  }
  const NodeId node = out.graph.add_node(op, inputs, op_case.attrs, op_case.outputs, op_case.name);
  infer_node(out.graph, node);
  Builder b(out.graph);
  for (const ValueId output : std::vector<ValueId>(out.graph.node(node).outputs)) {
    if (out.graph.value(output).dtype != DType::f64) continue;
    const Tensor weights = random_like(Tensor::zeros(DType::f64, *out.graph.value(output).shape), random);
    const ValueId sum = b.add("ReduceSum", {b.add("Mul", {output, b.constant(weights)})}, {{"keepdims", int64_t{0}}});
    out.loss = out.loss.present() ? b.add("Add", {out.loss, sum}) : sum;
  }
  return out;
}

class Gradients : public testing::TestWithParam<const OpDef*> {};

TEST_P(Gradients, AreThoseOfCentralDifferences) {
  const OpDef& op = *GetParam();
  int compared = 0;
  for (const OpCase& op_case : op.cases ? op.cases() : std::vector<OpCase>()) {
    const std::vector<Tensor> tensors = case_inputs(op_case, 3);
    const bool floats =
        std::ranges::any_of(tensors, [](const Tensor& t) { return t.present() && is_float(t.dtype()); });
    if (!floats || !op_case.differentiable) continue;
    SCOPED_TRACE(qualified(op) + " " + op_case.name);
    Random random(5);
    Checked c = checked(op, op_case, tensors, random);
    if (!c.loss.present()) continue;
    std::vector<ValueId> gradients;
    try {
      gradients = differentiate(c.graph, c.loss, c.floats);
    } catch (const Error& error) {
      std::printf("%s %s: %s\n", qualified(op).c_str(), op_case.name.c_str(), error.what());
      continue;
    }
    c.graph.add_output(c.loss, "loss");
    for (const ValueId gradient : gradients) c.graph.add_output(gradient, "");
    const std::vector<Tensor> at = interpret(c.graph, c.inputs, nullptr, "reference");
    if (!std::isfinite(at[0].data<double>()[0])) continue;
    ++compared;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor &x = c.inputs[c.which[i]], &gradient = at[i + 1];
      ASSERT_EQ(gradient.shape(), x.shape());
      ASSERT_EQ(gradient.dtype(), DType::f64);
      for (int direction = 0; direction < 2; ++direction) {
        const Tensor along = random_like(x, random);
        const auto loss = [&](double step) {
          std::vector<Tensor> inputs = c.inputs;
          inputs[c.which[i]] = moved(x, along, step);
          return interpret(c.graph, inputs, nullptr, "reference")[0].data<double>()[0];
        };
        const auto difference = [&](double step) { return (loss(step) - loss(-step)) / (2 * step); };
        // What the difference of two steps tells of the error of the smaller one.
        const double rough = difference(2e-6), expected = difference(1e-6), got = dot(gradient, along);
        const double size = std::sqrt(dot(gradient, gradient)) + std::abs(at[0].data<double>()[0]) * 1e-3 + 1e-3;
        EXPECT_NEAR(got, expected, 2e-6 * size + std::abs(rough - expected)) << "input " << i;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

std::vector<const OpDef*> with_gradients() {
  std::vector<const OpDef*> out;
  for (const OpDef* const op : all_ops()) {
    if (op->grad && op->name != "Cast") out.push_back(op);  // differences would see its rounding
  }
  return out;
}

template <typename T>
std::vector<T> elements(const Tensor& tensor) {
  const std::span<const T> all = tensor.data<T>();
  return {all.begin(), all.end()};
}

TEST(Differentiate, RoundsAsTheCastBackDoes) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {3}), half = b.add("Cast", {x}, {{"to", onnx_code(DType::f16)}});
  const ValueId loss =
      b.add("ReduceSum", {b.add("Mul", {half, b.constant(Tensor::of<Half>({3}, {Half(2), Half(3), Half(4)}))})},
            {{"keepdims", int64_t{0}}});
  const std::vector<ValueId> gradients = differentiate(graph, loss, std::vector{x});
  graph.add_output(gradients[0], "dx");
  const Tensor at = Tensor::of<float>({3}, {1, 2, 3});
  EXPECT_EQ(elements<float>(interpret(graph, std::vector{at})[0]), (std::vector<float>{2, 3, 4}));
}

TEST(Differentiate, AddsUpWhatFlowsThroughSeveralPaths) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f64, {2, 3}), w = b.input("w", DType::f64, {3}),
                unused = b.input("unused", DType::f64, {4});
  const ValueId y = b.add("Mul", {b.add("Add", {x, w}), x});
  const ValueId loss = b.add("ReduceSum", {b.add("Mean", {y, b.add("Relu", {y})})}, {{"keepdims", int64_t{0}}});
  const std::vector<ValueId> wrt{x, w, unused, y};
  for (const ValueId gradient : differentiate(graph, loss, wrt)) graph.add_output(gradient, "");
  const std::vector<Tensor> inputs{Tensor::of<double>({2, 3}, {1, -1, 2, 3, -4, 5}),
                                   Tensor::of<double>({3}, {1, 2, -1}), Tensor::zeros(DType::f64, Shape{4})};
  const std::vector<Tensor> out = interpret(graph, inputs);
  // y = (x + w) x; dy = 1 where y > 0, else 1/2; dx = dy (2 x + w), dw = sum of dy x.
  EXPECT_EQ(elements<double>(out[3]), (std::vector<double>{1, 0.5, 1, 1, 1, 1}));
  EXPECT_EQ(elements<double>(out[0]), (std::vector<double>{3, 0, 3, 7, -6, 9}));
  EXPECT_EQ(elements<double>(out[1]), (std::vector<double>{4, -4.5, 7}));
  EXPECT_EQ(elements<double>(out[2]), (std::vector<double>{0, 0, 0, 0}));
}

TEST(Differentiate, RefusesByName) {
  const auto error = [](const char* op, bool whole) {
    Graph graph;
    Builder b(graph);
    const ValueId x = b.input("x", DType::f32, {2, 3});
    const ValueId y = b.add(op, {x}, {}, "the node");
    const ValueId loss = whole ? b.add("ReduceSum", {y}, {{"keepdims", int64_t{0}}}) : y;
    try {
      differentiate(graph, loss, std::vector{x});
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("Hardmax", true), "Hardmax has no gradient (node \"the node\")");
  EXPECT_EQ(error("Relu", false), "the loss has the shape [2,3], gradients need one element");
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradients, testing::ValuesIn(with_gradients()), [](const auto& each) {
  return std::string(each.param->name) + std::to_string(each.param->since);
});

}  // namespace
}  // namespace sparkpilot
