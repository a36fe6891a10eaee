#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

constexpr double kRootTwoOverPi = 0.7978845608028654;

struct TanhGelu {
  bool pow = false, swapped = false, half_first = true, half_precision = false;
};
ValueId tanh_gelu(Net& n, ValueId x, const TanhGelu& form) {
  const auto c = [&](double v) {
    return n.scalar(form.half_precision ? half_to_float(float_to_half(static_cast<float>(v))) : v);
  };
  const auto op = [&](std::string_view name, ValueId a, ValueId b) {
    return form.swapped ? n.op(name, {b, a}) : n.op(name, {a, b});
  };
  const ValueId cube = form.pow ? n.op("Pow", {x, n.scalar(3)}) : op("Mul", op("Mul", x, x), x);
  const ValueId inner = op("Mul", op("Add", x, op("Mul", cube, c(0.044715))), c(kRootTwoOverPi));
  const ValueId outer = op("Add", n.op("Tanh", {inner}), c(1));
  if (form.half_first) return op("Mul", op("Mul", x, c(0.5)), outer);
  return op("Mul", op("Mul", x, outer), c(0.5));
}

TEST(Recognise, TanhGeluInItsForms) {
  for (const TanhGelu& form : {TanhGelu{}, TanhGelu{.pow = true}, TanhGelu{.swapped = true},
                               TanhGelu{.half_first = false}, TanhGelu{.swapped = true, .half_first = false}}) {
    Net n;
    const ValueId x = n.op("Add", {n.input("x", {2, 5}), n.weight({5}, 3)});
    n.output(n.op("Relu", {tanh_gelu(n, x, form)}));
    EXPECT_EQ(run_and_compare(n.graph, recognise_patterns, 2e-6), 1);
    EXPECT_EQ(count(n.graph, "Gelu"), 1);
    EXPECT_EQ(n.graph.node_count(), 3);
  }
}

TEST(Recognise, ConstantsRoundedToHalfPrecisionStillMeanGelu) {
  Net n;
  n.output(tanh_gelu(n, n.input("x", {64}), {.half_precision = true}));
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns, 1e-4), 1);
}

TEST(Recognise, LeavesOtherTanhFormulas) {
  Net n;
  const ValueId x = n.input("x", {7});
  const auto gelu_with = [&](double factor, double one) {
    const ValueId cube = n.op("Mul", {n.op("Mul", {x, x}), x});
    const ValueId inner =
        n.op("Mul", {n.op("Add", {x, n.op("Mul", {cube, n.scalar(factor)})}), n.scalar(kRootTwoOverPi)});
    return n.op("Mul", {n.op("Mul", {x, n.scalar(0.5)}), n.op("Add", {n.op("Tanh", {inner}), n.scalar(one)})});
  };
  n.output(gelu_with(0.0448, 1), "a");
  n.output(gelu_with(0.044715, 1.01), "b");
  const ValueId t = n.op("Tanh", {x});
  n.output(n.op("Mul", {n.op("Mul", {x, n.scalar(0.5)}), n.op("Add", {t, n.scalar(1)})}), "c");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 0);
}

TEST(Recognise, LeavesGeluWhoseInsideIsUsed) {
  Net n;
  const ValueId x = n.input("x", {7});
  const ValueId t = n.op("Erf", {n.op("Div", {x, n.scalar(std::sqrt(2.0))})});
  n.output(n.op("Mul", {n.op("Mul", {x, n.scalar(0.5)}), n.op("Add", {t, n.scalar(1)})}));
  n.output(t, "erf");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 0);
}

TEST(Recognise, ErfGeluSwishAndHardSwish) {
  Net n;
  const ValueId x = n.input("x", {3, 7});
  const ValueId e = n.op("Erf", {n.op("Mul", {x, n.scalar(std::sqrt(0.5))})});
  n.output(n.op("Mul", {n.op("Mul", {x, n.op("Add", {e, n.scalar(1)})}), n.scalar(0.5)}), "erf");
  n.output(n.op("Mul", {n.op("Sigmoid", {x}), x}), "swish");
  const ValueId clip = n.op("Clip", {n.op("Add", {x, n.scalar(3)}), n.scalar(0), n.scalar(6)});
  n.output(n.op("Mul", {x, n.op("Div", {clip, n.scalar(6)})}), "hard_swish");
  const ValueId hard = n.op("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  n.output(n.op("Mul", {x, hard}), "hard_swish2");
  n.output(n.op("Mul", {x, n.op("Tanh", {n.op("Softplus", {x})})}), "mish");
  n.output(n.op("Mul", {n.input("z", {3, 7}), n.op("Sigmoid", {x})}), "gate");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns, 2e-6), 5);
  EXPECT_EQ(count(n.graph, "Gelu"), 1);
  EXPECT_EQ(count(n.graph, "Swish"), 1);
  EXPECT_EQ(count(n.graph, "HardSwish"), 2);
  EXPECT_EQ(count(n.graph, "Mish"), 1);
}

struct NormForm {
  bool pow = false, reciprocal = false, affine = true, rms = false;
  std::vector<int64_t> axes{-1};
};
ValueId norm(Net& n, ValueId x, const NormForm& form, double epsilon = 1e-5) {
  const ValueId axes = n.b.ints(form.axes);
  const ValueId d = form.rms ? x : n.op("Sub", {x, n.op("ReduceMean", {x, axes})});
  const ValueId square = form.pow ? n.op("Pow", {d, n.scalar(2)}) : n.op("Mul", {d, d});
  const ValueId variance = n.op("ReduceMean", {square, axes});
  const ValueId root = n.op("Sqrt", {n.op("Add", {variance, n.scalar(epsilon)})});
  ValueId y = form.reciprocal ? n.op("Mul", {d, n.op("Reciprocal", {root})}) : n.op("Div", {d, root});
  if (!form.affine) return y;
  y = n.op("Mul", {y, n.weight({6}, 11)});
  return form.rms ? y : n.op("Add", {n.weight({6}, 12), y});
}

TEST(Recognise, LayerNormAndRmsNormInTheirForms) {
  for (const bool rms : {false, true}) {
    for (const NormForm& form : {NormForm{}, NormForm{.pow = true}, NormForm{.reciprocal = true},
                                 NormForm{.affine = false}, NormForm{.axes = {2}}, NormForm{.axes = {-1, 1}}}) {
      NormForm f = form;
      f.rms = rms;
      Net n;
      n.output(norm(n, n.op("Relu", {n.input("x", {2, 5, 6})}), f));
      run_and_compare(n.graph, recognise_patterns, 3e-6);
      EXPECT_EQ(count(n.graph, rms ? "RMSNormalization" : "LayerNormalization"), 1);
      EXPECT_EQ(n.graph.node_count(), 2);
    }
  }
}

TEST(Recognise, LeavesNormsOverOtherAxesAndUnlikeMeans) {
  Net n;
  const ValueId x = n.input("x", {2, 6, 6});
  n.output(norm(n, x, {.affine = false, .axes = {1}}), "middle");
  const ValueId d = n.op("Sub", {x, n.op("ReduceMean", {x, n.b.ints({-1, -2})})});
  const ValueId v = n.op("ReduceMean", {n.op("Mul", {d, d}), n.b.ints({1})});
  n.output(n.op("Div", {d, n.op("Sqrt", {n.op("Add", {v, n.scalar(1e-5)})})}), "mixed");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 0);
}

TEST(Recognise, L2NormalisationInItsForms) {
  Net n;
  const ValueId x = n.input("x", {3, 4, 5});
  const ValueId axes = n.b.ints({1});
  const ValueId sum = n.op("ReduceSum", {n.op("Mul", {x, x}), axes});
  n.output(n.op("Div", {x, n.op("Clip", {n.op("Sqrt", {sum}), n.scalar(1e-6)})}), "root_then_clip");
  const ValueId sum2 = n.op("ReduceSumSquare", {x, axes});
  n.output(n.op("Div", {x, n.op("Sqrt", {n.op("Max", {sum2, n.scalar(4)})})}), "max_then_root");
  const ValueId length = n.op("ReduceL2", {x, n.b.ints({-1})});
  const ValueId clipped = n.op("Clip", {length, n.scalar(1e-12)});
  n.output(n.op("Div", {x, n.op("Expand", {clipped, n.b.ints({3, 4, 5})})}), "normalize");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 3);
  EXPECT_EQ(count(n.graph, "sparkpilot::L2Normalize"), 3);
  EXPECT_EQ(n.graph.node_count(), 3);
}

TEST(Recognise, LeavesLengthsOfOtherValues) {
  Net n;
  const ValueId x = n.input("x", {4, 4}), z = n.input("z", {4, 4});
  n.output(n.op("Div", {x, n.op("Clip", {n.op("ReduceL2", {z, n.b.ints({1})}), n.scalar(1e-6)})}), "other");
  const ValueId flat = n.op("ReduceL2", {x, n.b.ints({1})}, {{"keepdims", int64_t{0}}});
  n.output(n.op("Div", {x, n.op("Clip", {flat, n.scalar(1e-6)})}), "across");
  const ValueId spread = n.op("Expand", {n.op("Clip", {flat, n.scalar(1e-12)}), n.b.ints({4, 4})});
  n.output(n.op("Div", {x, spread}), "spread");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 0);
}

enum class Mask { none, added, causal, causal_finite, runtime };
ValueId attention(Net& n, ValueId x, int64_t rows, Mask mask, bool prescaled = false) {
  const int64_t heads = 2, size = 4;
  const ValueId qkv = n.op("MatMul", {x, n.weight({8, 24}, 5)});
  const std::vector<ValueId> parts = n.b.add_many("Split", {qkv, n.b.ints({8, 8, 8})}, {{"axis", int64_t{2}}}, 3);
  const auto split = [&](ValueId v) { return n.reshape(v, {2, rows, heads, size}); };
  ValueId q = n.transpose(split(parts[0]), {0, 2, 1, 3});
  ValueId k = n.transpose(split(parts[1]), {0, 2, 3, 1});
  const ValueId v = n.transpose(split(parts[2]), {0, 2, 1, 3});
  if (prescaled) {
    q = n.op("Mul", {q, n.scalar(0.7)});
    k = n.op("Mul", {k, n.scalar(0.7)});
  }
  ValueId scores = n.op("MatMul", {q, k});
  if (!prescaled) scores = n.op("Div", {scores, n.scalar(2)});
  if (mask == Mask::added) scores = n.op("Add", {n.input("mask", {2, 1, rows, rows}), scores});
  if (mask == Mask::causal || mask == Mask::causal_finite) {
    Tensor drop = Tensor::zeros(DType::boolean, Shape{1, 1, rows, rows});
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = i + 1; j < rows; ++j) drop.data<bool>()[static_cast<size_t>(i * rows + j)] = true;
    }
    scores = n.op("Where", {n.b.constant(drop), n.scalar(mask == Mask::causal ? -INFINITY : -1e30), scores});
  }
  if (mask == Mask::runtime) {
    const ValueId keep = n.op("Greater", {n.input("chosen", {rows, rows}), n.scalar(-1)});
    scores = n.op("Where", {keep, scores, n.scalar(-INFINITY)});
  }
  const ValueId weights = n.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  return n.reshape(n.transpose(n.op("MatMul", {weights, v}), {0, 2, 1, 3}), {2, rows, heads * size});
}

TEST(Recognise, AttentionWithItsMasks) {
  for (const Mask mask : {Mask::none, Mask::added, Mask::causal, Mask::causal_finite, Mask::runtime}) {
    for (const bool prescaled : {false, true}) {
      Net n;
      n.output(attention(n, n.input("x", {2, 5, 8}), 5, mask, prescaled));
      run_and_compare(n.graph, recognise_patterns, 2e-6);
      ASSERT_EQ(count(n.graph, "Attention"), 1) << static_cast<int>(mask);
      EXPECT_EQ(count(n.graph, "Softmax"), 0);
      EXPECT_EQ(count(n.graph, "Transpose"), 0);
      for (const NodeId id : n.graph.order()) {
        const Node& node = n.graph.node(id);
        if (!is_op(node, "Attention")) continue;
        const bool causal = mask == Mask::causal || mask == Mask::causal_finite;
        EXPECT_EQ(node.attrs.integer("is_causal", 0), causal);
        EXPECT_EQ(node.inputs.size(), mask == Mask::added || mask == Mask::runtime ? 4u : 3u);
      }
    }
  }
}

// As many numbers as a causal mask has, and the same ones, but a row for each batch or head.
TEST(Recognise, AMaskOfBatchesOrHeadsIsNotCausal) {
  for (const Shape& shape : {Shape{4, 1, 1, 4}, Shape{1, 4, 1, 4}, Shape{4, 1, 4}}) {
    SCOPED_TRACE(shape.str());
    Net n;
    Tensor mask = Tensor::zeros(DType::f32, shape);
    for (size_t i = 0; i < 16; ++i) mask.data<float>()[i] = i % 4 > i / 4 ? -1e9f : 0.0f;
    const auto input = [&](const char* name) { return n.input(name, {4, 4, 4, 3}); };
    const ValueId scores = n.op("MatMul", {input("q"), n.transpose(input("k"), {0, 1, 3, 2})});
    const ValueId weights = n.op("Softmax", {n.op("Add", {scores, n.b.constant(mask)})}, {{"axis", int64_t{-1}}});
    n.output(n.op("MatMul", {weights, input("v")}));
    run_and_compare(n.graph, recognise_patterns, 2e-6);
    for (const NodeId id : n.graph.order()) EXPECT_EQ(n.graph.node(id).attrs.integer("is_causal", 0), 0);
  }
}

// Stacked and then split, as in many vision transformers: attention still reads the product.
TEST(Recognise, AttentionOnStackedHeads) {
  for (const bool last_part_only : {false, true}) {
    Net n;
    const ValueId qkv = n.op("MatMul", {n.input("x", {2, 5, 8}), n.weight({8, 24}, 5)});
    const ValueId stacked = n.transpose(n.reshape(qkv, {2, 5, 3, 2, 4}), {2, 0, 3, 1, 4});
    const auto parts = n.b.add_many("Split", {stacked, n.b.ints({1, 1, 1})}, {{"axis", int64_t{0}}}, 3);
    const auto part = [&](size_t i) { return n.op("Squeeze", {parts[i], n.b.ints({0})}); };
    const ValueId v = part(2);
    if (last_part_only) {
      n.output(v);
      EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 1);
      continue;
    }
    const ValueId scores = n.op("MatMul", {part(0), n.transpose(part(1), {0, 1, 3, 2})});
    const ValueId weights = n.op("Softmax", {n.op("Mul", {scores, n.scalar(0.5)})}, {{"axis", int64_t{-1}}});
    n.output(n.reshape(n.transpose(n.op("MatMul", {weights, v}), {0, 2, 1, 3}), {2, 5, 8}));
    run_and_compare(n.graph, recognise_patterns, 2e-6);
    EXPECT_EQ(count(n.graph, "Attention"), 1);
    EXPECT_EQ(count(n.graph, "Transpose"), 0);
    EXPECT_EQ(run_and_compare(n.graph, attend_to_columns), 1);
    EXPECT_EQ(count(n.graph, "Split"), 0);
  }
}

TEST(Recognise, AttentionOnMatricesWithoutHeads) {
  Net n;
  const ValueId q = n.input("q", {3, 5, 8}), k = n.input("k", {3, 7, 8}), v = n.input("v", {3, 7, 6});
  const ValueId scores = n.op("Mul", {n.op("MatMul", {q, n.transpose(k, {0, 2, 1})}), n.scalar(0.3)});
  n.output(n.op("MatMul", {n.op("Softmax", {scores}), v}));
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns, 2e-6), 1);
  EXPECT_EQ(count(n.graph, "Attention"), 1);
}

TEST(Recognise, LeavesScoresThatTheirMaskEnlarges) {
  const auto with_mask = [](const Shape& q, const Shape& mask) {
    Net n;
    const ValueId k = n.input("k", {1, q[1], 4, 5}), v = n.input("v", {1, q[1], 5, 4});
    const ValueId scores = n.op("Add", {n.op("MatMul", {n.input("q", q), k}), n.input("mask", mask)});
    n.output(n.op("MatMul", {n.op("Softmax", {scores}), v}));
    return run_and_compare(n.graph, recognise_patterns, 2e-6);
  };
  EXPECT_EQ(with_mask({1, 2, 3, 4}, {2, 1, 3, 5}), 0);  // of the batch
  EXPECT_EQ(with_mask({1, 2, 1, 4}, {1, 1, 3, 5}), 0);  // of the queries
  EXPECT_EQ(with_mask({1, 1, 3, 4}, {1, 2, 3, 5}), 0);  // of the heads
  EXPECT_EQ(with_mask({1, 2, 3, 4}, {1, 1, 3, 5}), 1);
}

TEST(Recognise, LeavesSoftmaxThatIsNoAttention) {
  Net n;
  const ValueId x = n.input("x", {2, 4, 4}), v = n.input("v", {2, 4, 4});
  const ValueId scores = n.op("MatMul", {x, n.transpose(x, {0, 2, 1})});
  n.output(n.op("MatMul", {n.op("Softmax", {scores}, {{"axis", int64_t{1}}}), v}), "other_axis");
  const ValueId seen = n.op("Softmax", {n.op("MatMul", {v, n.transpose(x, {0, 2, 1})})});
  n.output(n.op("MatMul", {seen, v}), "seen");
  n.output(seen, "weights");
  n.output(n.op("MatMul", {v, n.op("Softmax", {n.op("MatMul", {v, v})})}), "second");
  EXPECT_EQ(run_and_compare(n.graph, recognise_patterns), 0);
}

}  // namespace
}  // namespace sparkpilot
