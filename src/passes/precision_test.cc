#include "passes/precision.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "hw/cpu.h"
#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::distance;
using testing::Net;
using testing::random_inputs;
using testing::random_tensor;

using Texts = std::vector<std::string>;

bool has_bf16() {
  const CpuFeatures& cpu = cpu_features();
  return cpu.avx512_bf16 || cpu.amx_bf16 || cpu.neon_bf16;
}

int values_of(const Graph& graph, DType dtype) {
  int n = 0;
  for (int i = 0; i < graph.value_count(); ++i) n += graph.value(ValueId{i}).dtype == dtype;
  return n;
}

// Half precision throughout, as comma exports networks, with a cast at the input.
void half_net(Net& n) {
  const auto w = [&](const Shape& shape, uint64_t seed) {
    return n.b.constant(random_tensor(shape, seed, DType::f16, 0.2));
  };
  const ValueId x = n.op("Cast", {n.input("x", {1, 3, 6, 6})}, {{"to", onnx_code(DType::f16)}});
  ValueId y = n.op("Conv", {x, w({8, 3, 3, 3}, 1), w({8}, 2)});
  y = n.op("Relu", {y});
  y = n.op("Conv", {y, w({8, 8, 1, 1}, 3)});
  y = n.op("Flatten", {n.op("Mul", {y, n.b.scalar(DType::f16, 0.5)})});
  y = n.op("Gemm", {y, w({128, 4}, 4), w({4}, 5)});
  n.output(y, "half");
  n.output(n.op("Cast", {n.op("Softmax", {y})}, {{"to", onnx_code(DType::f32)}}), "single");
}

TEST(SetPrecision, Fp32ConvertsEverythingButTheBorder) {
  Net n;
  half_net(n);
  n.output(n.op("Relu", {n.input("h", {3}, DType::f16)}), "through");
  const std::vector<Tensor> inputs = random_inputs(n.graph, 3), before = interpret(n.graph, inputs);
  set_precision(n.graph, Precision::fp32);
  simplify_algebra(n.graph);
  infer(n.graph);
  EXPECT_EQ(count(n.graph, "Cast"), 3);  // one for input "h", two for the outputs
  EXPECT_EQ(values_of(n.graph, DType::f16), 3);
  const std::vector<Tensor> after = interpret(n.graph, inputs);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].dtype(), before[i].dtype());
    EXPECT_LE(distance(after[i], before[i]), 3e-3);
  }
}

TEST(SetPrecision, Fp32ReachesIntoBodies) {
  Net n;
  Graph body;
  Builder b(body, "");
  const ValueId in = body.add_input("in", DType::f16, Shape{2});
  body.add_output(b.add("Mul", {in, b.scalar(DType::f16, 0.5)}), "out");
  const auto shared = std::make_shared<const Graph>(std::move(body));
  const ValueId x = n.input("x", {2}, DType::f16);
  const ValueId condition = n.b.constant(Tensor::scalar<bool>(true));
  n.output(n.op("If", {condition, x}, {{"captures", int64_t{1}}, {"else_branch", shared}, {"then_branch", shared}}));
  const std::vector<Tensor> inputs = random_inputs(n.graph, 3), before = interpret(n.graph, inputs);
  set_precision(n.graph, Precision::fp32);
  const std::vector<Tensor> after = interpret(n.graph, inputs);
  EXPECT_LE(distance(after[0], before[0]), 1e-3);
}

// A model may pass on what a product or a Relu of one gives.
TEST(SetPrecision, StatesKeepTheirType) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Net n;
    const ValueId x = n.input("x", {3, 8}), before = n.b.state(Tensor(DType::f32, {3, 8}), "features");
    const auto product = [&](ValueId a, uint64_t seed) {
      return n.op("MatMul", {a, n.b.constant(random_tensor({8, 8}, seed))});
    };
    const ValueId features = n.op("Relu", {product(n.op("Add", {x, before}), 1)});
    n.b.next(before, features);
    n.output(product(features, 2));
    infer(n.graph);
    narrow_from_fp32(n.graph, precision, {});
    infer(n.graph);
    const State& state = n.graph.states()[0];
    EXPECT_EQ(n.graph.value(state.value).dtype, DType::f32);
    EXPECT_EQ(n.graph.value(state.next).dtype, DType::f32);
    EXPECT_EQ(values_of(n.graph, DType::bf16) > 0, precision == Precision::bf16);
  }
}

TEST(SetPrecision, Fp16StoresWeightsOnly) {
  Net n;
  half_net(n);
  const std::vector<Tensor> inputs = random_inputs(n.graph, 3), before = interpret(n.graph, inputs);
  run_passes(n.graph, {.precision = Precision::fp16});
  int half = 0, single = 0;
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    if (!is_op(node, "sparkpilot::Conv") && !is_op(node, "sparkpilot::Gemm")) continue;
    half += n.graph.value(node.inputs[1]).dtype == DType::f16;
    single += n.graph.value(node.outputs[0]).dtype == DType::f32;
  }
  EXPECT_EQ(half, 3);
  EXPECT_EQ(single, 3);
  const std::vector<Tensor> after = interpret(n.graph, inputs);
  EXPECT_LE(distance(after[1], before[1]), 3e-3);
}

// A norm between products runs in 16 bits if that loses nothing, and in f32 if its gain is not exact in bf16 or a head
// reads it.
// As for GPUs: products read and write f16, heads too; not where a weight is beyond f16's range, or all are below its
// normal numbers.
TEST(SetPrecision, Fp16StoresActivationsWhereTheTargetDoes) {
  Net n;
  const ValueId x = n.input("x", {4, 16});
  const ValueId first = n.op("Relu", {n.op("MatMul", {x, n.weight({16, 16}, 1)})});
  Tensor large = random_tensor(Shape{16, 16}, 2);
  large.data<float>()[7] = 70000;
  const ValueId second = n.op("MatMul", {first, n.b.constant(large)});
  const ValueId third = n.op("MatMul", {second, n.b.constant(random_tensor(Shape{16, 16}, 4, DType::f32, 1e-6))});
  n.output(n.op("MatMul", {third, n.weight({16, 8}, 3)}));
  infer(n.graph);
  widen_to_fp32(n.graph);
  EXPECT_GT(narrow_from_fp32(n.graph, Precision::fp16, {.device = Device::cuda}), 0);
  infer(n.graph);
  std::vector<DType> products;
  for (const NodeId id : n.graph.order()) {
    if (is_op(n.graph.node(id), "MatMul")) products.push_back(n.graph.value(n.graph.node(id).outputs[0]).dtype);
  }
  EXPECT_EQ(products, (std::vector<DType>{DType::f16, DType::f32, DType::f32, DType::f16}));
  EXPECT_EQ(n.graph.value(n.graph.outputs()[0].value).dtype, DType::f32);
}

// An epsilon that f16 has not, and what is computed of it up to the next product.
TEST(SetPrecision, Fp16LeavesEpsilonsInF32) {
  for (const float epsilon : {1e-8F, 1e-5F}) {
    Net n;
    const ValueId x = n.op("Relu", {n.op("MatMul", {n.input("x", {4, 16}), n.weight({16, 16}, 1)})});
    const ValueId sum = n.op("Add", {x, n.b.constant(Tensor::scalar(epsilon))});
    const ValueId share = n.op("Div", {x, sum});
    n.output(n.op("MatMul", {share, n.weight({16, 8}, 2)}));
    infer(n.graph);
    widen_to_fp32(n.graph);
    narrow_from_fp32(n.graph, Precision::fp16, {.device = Device::cuda});
    infer(n.graph);
    std::map<std::string_view, DType> types;  // of the last node of each op
    for (const NodeId id : n.graph.order()) {
      types[n.graph.node(id).op->name] = n.graph.value(n.graph.node(id).outputs[0]).dtype;
    }
    const DType expected = epsilon == 1e-8F ? DType::f32 : DType::f16;
    EXPECT_EQ(types["Relu"], DType::f16);
    EXPECT_EQ(types["Add"], expected);
    EXPECT_EQ(types["Div"], expected);
    EXPECT_EQ(types["MatMul"], DType::f16);
  }
}

// The same where the product before it has taken the epsilon; a bias of such numbers is none.
TEST(SetPrecision, Fp16LeavesProductsThatAddEpsilonsInF32) {
  for (const bool bias : {false, true}) {
    Net n;
    const ValueId x = n.op("sparkpilot::Gemm", {n.input("x", {4, 16}), n.weight({16, 16}, 1)});
    const Tensor little = random_tensor(bias ? Shape{16} : Shape{}, 3, DType::f32, 1e-9);
    const ValueId weights = n.weight({16, 16}, 2), constant = n.b.constant(little);
    const ValueId sum =
        bias ? n.op("sparkpilot::Gemm", {x, weights, constant})
             : n.op("sparkpilot::Gemm", {x, weights, ValueId{}, constant}, {{"epilogue", Texts{"add:3"}}});
    n.output(n.op("sparkpilot::Gemm", {n.op("Log", {sum}), n.weight({16, 8}, 4)}));
    infer(n.graph);
    widen_to_fp32(n.graph);
    narrow_from_fp32(n.graph, Precision::fp16, {.device = Device::cuda});
    infer(n.graph);
    std::vector<DType> products;
    for (const NodeId id : n.graph.order()) {
      if (!is_op(n.graph.node(id), "sparkpilot::Gemm")) continue;
      products.push_back(n.graph.value(n.graph.node(id).outputs[0]).dtype);
    }
    EXPECT_EQ(products, (std::vector<DType>{DType::f16, bias ? DType::f16 : DType::f32, DType::f16}));
  }
}

// For GPUs a product of one row has its weights in 16 bits and its row in f32; one of two rows, all in 16 bits. A head
// in bf16 has nothing in 16 bits.
TEST(SetPrecision, OneRowStaysInF32ForGpus) {
  for (const auto& [precision, narrow] : {std::pair{Precision::fp16, DType::f16}, {Precision::bf16, DType::bf16}}) {
    for (const int64_t rows : {1, 2}) {
      Net n;
      const ValueId first =
          n.op("sparkpilot::Gemm", {n.input("x", {rows, 16}), n.weight({16, 8}, 1)}, {{"epilogue", Texts{"relu"}}});
      n.output(n.op("sparkpilot::Gemm", {first, n.weight({8, 4}, 2)}));
      infer(n.graph);
      widen_to_fp32(n.graph);
      EXPECT_GT(narrow_from_fp32(n.graph, precision, {.device = Device::cuda}), 0);
      infer(n.graph);
      std::vector<DType> types;
      for (const NodeId id : n.graph.order()) {
        if (!is_op(n.graph.node(id), "sparkpilot::Gemm")) continue;
        for (size_t i = 0; i < 2; ++i) types.push_back(n.graph.value(n.graph.node(id).inputs[i]).dtype);
      }
      const DType row = rows == 1 ? DType::f32 : narrow, head = narrow == DType::bf16 ? DType::f32 : narrow;
      EXPECT_EQ(types, (std::vector<DType>{row, narrow, rows == 1 ? DType::f32 : head, head}));
      EXPECT_EQ(count(n.graph, "Cast") == 0, rows == 1);
    }
  }
}

TEST(SetPrecision, Bf16KeepsNormsBetweenProductsInIt) {
  if (!has_bf16()) GTEST_SKIP() << "this CPU has no bf16 arithmetic";
  Net n;
  const ValueId x = n.input("x", {4, 16});
  const auto product = [&](ValueId v, uint64_t seed) {
    return n.op("Relu", {n.op("MatMul", {v, n.weight({16, 16}, seed)})});
  };
  const auto norm = [&](ValueId v, const Tensor& gain) { return n.op("LayerNormalization", {v, n.b.constant(gain)}); };
  Tensor ones(DType::f32, Shape{16});
  for (float& v : ones.data<float>()) v = 1;
  const ValueId exact = norm(product(x, 1), ones), fine = norm(product(exact, 2), random_tensor(Shape{16}, 3));
  const ValueId last = norm(product(fine, 4), ones);
  n.output(n.op("MatMul", {last, n.weight({16, 8}, 5)}));
  infer(n.graph);
  set_precision(n.graph, Precision::bf16);
  std::vector<DType> norms;
  for (const NodeId id : n.graph.order()) {
    if (is_op(n.graph.node(id), "LayerNormalization"))
      norms.push_back(n.graph.value(n.graph.node(id).outputs[0]).dtype);
  }
  EXPECT_EQ(norms, (std::vector<DType>{DType::bf16, DType::f32, DType::f32}));
}

TEST(SetPrecision, Bf16TakesPixelsAtOnce) {
  if (!has_bf16()) GTEST_SKIP() << "this CPU has no bf16 arithmetic";
  Net n;
  const ValueId pixels = n.op("Cast", {n.input("x", {1, 4, 6, 6}, DType::u8)}, {{"to", onnx_code(DType::f32)}});
  ValueId y = n.op("Conv", {pixels, n.b.constant(random_tensor({8, 4, 1, 1}, 1))});
  y = n.op("Conv", {n.op("Relu", {y}), n.b.constant(random_tensor({8, 8, 1, 1}, 2))});
  n.output(n.op("Gemm", {n.op("Flatten", {y}), n.b.constant(random_tensor({288, 4}, 3))}), "y");
  set_precision(n.graph, Precision::bf16);
  drop_dead(n.graph);
  int casts = 0;
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    if (node.op->name != "Cast" || n.graph.value(node.inputs[0]).dtype != DType::u8) continue;
    EXPECT_EQ(n.graph.value(node.outputs[0]).dtype, DType::bf16) << "pixels go over fp32";
    ++casts;
  }
  EXPECT_EQ(casts, 1);
}

TEST(SetPrecision, Bf16LeavesFewChannelsInFp32) {
  if (!cpu_features().amx_bf16) GTEST_SKIP() << "this CPU has no AMX";
  for (const int64_t channels : {1, 3, 4}) {
    Net n;
    ValueId y = n.op("Conv", {n.input("x", {1, channels, 6, 6}), n.b.constant(random_tensor({8, channels, 3, 3}, 1))});
    const ValueId weights = n.b.constant(random_tensor({8, 1, 3, 3}, 2));  // one channel of eight groups
    y = n.op("Conv", {n.op("Relu", {y}), weights}, {{"group", int64_t{8}}});
    y = n.op("Conv", {n.op("Relu", {y}), n.b.constant(random_tensor({8, 8, 1, 1}, 3))});
    n.output(n.op("MatMul", {n.op("Flatten", {y}), n.b.constant(random_tensor({32, 4}, 4))}), "y");
    set_precision(n.graph, Precision::bf16);
    drop_dead(n.graph);
    std::map<DType, int> convolutions;
    for (const NodeId id : n.graph.order()) {
      const Node& node = n.graph.node(id);
      if (node.op->name == "Conv") ++convolutions[n.graph.value(node.inputs[0]).dtype];
    }
    EXPECT_EQ(convolutions[DType::f32], channels < 4 ? 1 : 0) << channels << " channels";
    EXPECT_EQ(convolutions[DType::bf16], channels < 4 ? 2 : 3) << channels << " channels";
  }
}

// On Arm products and convolutions in bf16 have kernels for some shapes, and for constant weights, only.
TEST(SetPrecision, Bf16LeavesInFp32WhatHasNoKernelOnArm) {
  if (!cpu_features().neon) GTEST_SKIP() << "this is no Arm processor";
  if (!has_bf16()) GTEST_SKIP() << "this CPU has no bf16 arithmetic";
  Net n;
  const auto w = [&](const Shape& shape) { return n.b.constant(random_tensor(shape, 1)); };
  const ValueId x = n.input("x", {1, 8, 6, 6});
  const ValueId pixel = n.op("Conv", {x, w({8, 8, 1, 1})}),
                single = n.op("Conv", {x, w({8, 1, 3, 3})}, {{"group", int64_t{8}}});
  const ValueId dense = n.op("Conv", {x, w({8, 8, 3, 3})});
  const ValueId strided = n.op("Conv", {x, w({8, 8, 1, 1})}, {{"strides", std::vector<int64_t>{2, 2}}});
  const ValueId at_run = n.op("MatMul", {x, n.input("m", {6, 6})});
  int i = 0;
  for (const ValueId y : {pixel, single, dense, strided, at_run}) {  // a product behind each, so that none is a head
    const Shape shape = n.b.shape(y);
    n.output(n.op("MatMul", {n.op("Relu", {y}), w({shape[3], 4})}), "y" + std::to_string(i++));
  }
  set_precision(n.graph, Precision::bf16);
  drop_dead(n.graph);
  std::map<DType, int> products;
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    if (node.op->name == "Conv" || (node.op->name == "MatMul" && !n.graph.constant(node.inputs[1])))
      ++products[n.graph.value(node.inputs[0]).dtype];
  }
  EXPECT_EQ(products[DType::bf16], 2);
  EXPECT_EQ(products[DType::f32], 3);
}

TEST(SetPrecision, Bf16KeepsHeadsInFp32) {
  if (!has_bf16()) GTEST_SKIP() << "this CPU has no bf16 arithmetic";
  Net n;
  const ValueId x = n.input("x", {4, 16});
  ValueId y = n.op("Relu", {n.op("MatMul", {x, n.weight({16, 16}, 1)})});
  y = n.op("LayerNormalization", {n.op("Add", {y, y}), n.weight({16}, 2)});
  y = n.op("Relu", {n.op("MatMul", {y, n.weight({16, 16}, 3)})});
  n.output(n.op("Softmax", {n.op("MatMul", {y, n.weight({16, 8}, 4)})}), "head");
  const std::vector<Tensor> inputs = random_inputs(n.graph, 3), before = interpret(n.graph, inputs);
  run_passes(n.graph, {.precision = Precision::bf16});
  std::vector<DType> gemms;
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    if (is_op(node, "sparkpilot::Gemm")) gemms.push_back(n.graph.value(node.outputs[0]).dtype);
  }
  EXPECT_EQ(gemms, (std::vector<DType>{DType::bf16, DType::bf16, DType::f32}));
  const std::vector<Tensor> after = interpret(n.graph, inputs);
  EXPECT_EQ(after[0].dtype(), DType::f32);
  EXPECT_LE(distance(after[0], before[0]), 2e-2);
  EXPECT_GT(distance(after[0], before[0]), 0);
}

// What attention reads has been rounded already, so it needs no casts, unless q, k or v is f32 or a head reads the
// result.
TEST(SetPrecision, Bf16KeepsAttentionBetweenProductsInIt) {
  if (!has_bf16()) GTEST_SKIP() << "this CPU has no bf16 arithmetic";
  for (const bool rounded : {true, false}) {
    for (const bool head : {true, false}) {
      Net n;
      const ValueId x = n.input("x", {2, 6, 16}), given = n.input("v", {2, 6, 16}), mask = n.input("mask", {6, 6});
      const ValueId q = n.op("MatMul", {x, n.weight({16, 16}, 1)}), k = n.op("MatMul", {x, n.weight({16, 16}, 2)});
      const ValueId v = rounded ? n.op("MatMul", {x, n.weight({16, 16}, 3)}) : given;
      ValueId y = n.op("Attention", {q, k, v, mask}, {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}});
      y = n.op("MatMul", {y, n.weight({16, 16}, 4)});
      if (!head) y = n.op("MatMul", {n.op("Relu", {y}), n.weight({16, 8}, 5)});
      n.output(y);
      n.output(n.op("Neg", {given}), "also");
      const std::vector<Tensor> inputs = random_inputs(n.graph, 7), before = interpret(n.graph, inputs);
      set_precision(n.graph, Precision::bf16);
      drop_dead(n.graph);
      const bool narrow = rounded && !head;
      for (const NodeId id : n.graph.order()) {
        const Node& node = n.graph.node(id);
        if (!is_op(node, "Attention")) continue;
        EXPECT_EQ(n.graph.value(node.outputs[0]).dtype, narrow ? DType::bf16 : DType::f32);
        EXPECT_EQ(n.graph.value(node.inputs[0]).dtype, narrow ? DType::bf16 : DType::f32);
        EXPECT_EQ(n.graph.value(node.inputs[3]).dtype, DType::f32);
      }
      EXPECT_LE(distance(interpret(n.graph, inputs)[0], before[0]), 2e-2);
    }
  }
}

TEST(SetPrecision, RefusesBf16WhereTheCpuHasNone) {
  if (has_bf16()) EXPECT_NO_THROW(check_precision(Precision::bf16));
  else EXPECT_THROW(check_precision(Precision::bf16), Error);
  EXPECT_EQ(parse_precision("bf16"), Precision::bf16);
  EXPECT_EQ(parse_precision("fp12"), std::nullopt);
  EXPECT_EQ(name(Precision::fp16), "fp16");
}

}  // namespace
}  // namespace sparkpilot
