#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::Net;
using testing::random_tensor;
using testing::run_and_compare;

std::vector<DType> weight_types(const Graph& graph) {
  std::vector<DType> out;
  for (const NodeId id : graph.order()) out.push_back(graph.value(graph.node(id).inputs[1]).dtype);
  return out;
}

ValueId layer(Net& n, const Shape& x, const Tensor& weights) {
  return n.op("sparkpilot::Gemm", {n.input("x", x), n.b.constant(weights)});
}

Tensor exact(DType dtype, double scale = 1) {
  return convert(random_tensor(Shape{128, 96}, 1, dtype, scale), DType::f32);
}

TEST(StoreHalf, TakesWeightsThatLoseNothing) {
  Net n;
  n.output(layer(n, {1, 128}, exact(DType::f16)), "f16");
  n.output(layer(n, {2, 3, 128}, exact(DType::bf16, 1e-6)), "bf16");  // too small for f16
  EXPECT_EQ(run_and_compare(n.graph, store_half, 1e-6), 2);
  EXPECT_EQ(weight_types(n.graph), (std::vector<DType>{DType::f16, DType::bf16}));
}

TEST(StoreHalf, LeavesOthersAndProductsOfManyRows) {
  Net n;
  Tensor odd = exact(DType::f16);
  odd.data<float>()[700] = 0.1f;
  n.output(layer(n, {1, 128}, odd), "odd");
  Tensor large = exact(DType::f16);
  large.data<float>()[7] = 131072;  // too large for f16, not for bf16
  n.output(layer(n, {1, 128}, large), "large");
  n.output(layer(n, {20, 128}, exact(DType::f16)), "rows");
  EXPECT_EQ(run_and_compare(n.graph, store_half, 0), 0);
}

}  // namespace
}  // namespace sparkpilot
