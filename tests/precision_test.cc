// Every network in fp16 and bf16: close to its results in fp32, but not equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "networks.h"
#include "ops/check.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace precision_test {

Session open(const testing::Network& network, Precision precision) {
  SessionOptions options;
  options.passes.precision = precision;
  return Session(network.load(), options);
}

std::vector<Tensor> run(Session& session, uint64_t seed) {
  testing::fill_inputs(session, seed);
  session.reset_states();
  session.run();
  return testing::results(session);
}

// The median over several inputs counts: random pixels sometimes enlarge a feature of a random network tenfold, and
// rounding errors with it. The tolerance leaves room for detectors; most networks are ten times closer.
void stays_near(const testing::Network& network, Precision precision, double tolerance) {
  // The stand-ins' weights are exact in f16, so fp16, which stores weights in 16 bits, may change nothing.
  const double least = precision == Precision::fp16 && network.file.empty() ? 0 : 1e-6;
  Session exact = open(network, Precision::fp32), rounded = open(network, precision);
  std::vector<double> errors;
  for (const uint64_t seed : {3, 4, 5}) {
    const std::vector<Tensor> expected = run(exact, seed), got = run(rounded, seed);
    ASSERT_EQ(got.size(), expected.size());
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), expected[i].dtype());
      EXPECT_EQ(got[i].shape(), expected[i].shape());
      largest = std::max(largest, relative_l2(got[i], expected[i]));
    }
    errors.push_back(largest);
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], tolerance);
  EXPECT_GE(errors[errors.size() / 2], least) << "nothing was computed in 16 bits";
}

class Precisions : public testing::NetworkTest {};

TEST_P(Precisions, Fp16StaysNearFp32) { stays_near(network_, Precision::fp16, 1e-2); }

TEST_P(Precisions, Bf16StaysNearFp32OrIsRefused) {
  try {
    check_precision(Precision::bf16);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
    GTEST_SKIP() << error.what();
  }
  stays_near(network_, Precision::bf16, 6e-2);
}

// The error of each precision on one input, the largest of all outputs.
double error_in(const Graph& graph, Precision precision) {
  SessionOptions options;
  options.threads = 1;
  options.passes.precision = Precision::fp32;
  Session exact(graph, options);
  options.passes.precision = precision;
  options.passes.emulate = true;  // bf16 everywhere
  Session rounded(graph, options);
  const std::vector<Tensor> expected = run(exact, 3), got = run(rounded, 3);
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) largest = std::max(largest, relative_l2(got[i], expected[i]));
  return largest;
}

// Three layers with ReLU between them; the weights are normal numbers that keep the size of what they are given.
Graph random_mlp() {
  Graph graph;
  Builder b(graph);
  Random random(11);
  ValueId x = b.input("x", DType::f32, {3, 200});
  int64_t depth = 200;
  for (const int64_t width : {333, 90, 7}) {
    Tensor weights(DType::f32, Shape{depth, width});
    for (float& w : weights.data<float>())
      w = static_cast<float>(random.normal() * std::sqrt(2.0 / static_cast<double>(depth)));
    x = b.add("MatMul", {x, b.constant(std::move(weights))});
    if (width != 7) x = b.add("Relu", {x});
    depth = width;
  }
  b.output(x, "y");
  return graph;
}

// Errors grow from format to format.
TEST(Formats, FewerBitsAreLessExact) {
  for (const char* name : {"tiny_driving_policy", "tiny_big_driving_supercombo", "driving_policy", "trained", "mlp"}) {
    SCOPED_TRACE(name);
    const Graph graph = std::string_view(name) == "trained" ? load_onnx("models/demo_supercombo.onnx")
                        : std::string_view(name) == "mlp"   ? random_mlp()
                                                            : build_zoo_model(name, 1);
    const double fp16 = error_in(graph, Precision::fp16), bf16 = error_in(graph, Precision::bf16);
    const double fp8 = error_in(graph, Precision::fp8), fp4 = error_in(graph, Precision::fp4);
    EXPECT_LE(fp16, bf16);
    EXPECT_LE(bf16, fp8);
    EXPECT_LE(fp8, fp4);
    EXPECT_GT(fp8, 1e-3);
    EXPECT_LT(fp8, 0.2);
    EXPECT_LT(fp4, 0.6);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Precisions, ::testing::ValuesIn(testing::networks()), testing::test_name);

}  // namespace precision_test
}  // namespace sparkpilot
