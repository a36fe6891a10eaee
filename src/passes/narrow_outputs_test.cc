#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace narrow_outputs_test {

using testing::count;
using testing::flops;
using testing::Net;
using testing::run_and_compare;

constexpr int64_t kRows = 20, kWidth = 16, kHeads = 2;

ValueId layer_norm(Net& n, ValueId x, uint64_t seed) {
  return n.op("LayerNormalization", {x, n.weight({kWidth}, seed), n.weight({kWidth}, seed + 1)});
}

ValueId block(Net& n, ValueId x, uint64_t seed) {
  const ValueId norm = layer_norm(n, x, seed);
  const ValueId qkv = n.op("MatMul", {norm, n.weight({kWidth, 3 * kWidth}, seed + 2)});
  const ValueId biased = n.op("Add", {qkv, n.weight({3 * kWidth}, seed + 9)});
  const auto parts = n.b.add_many("Split", {biased, n.b.ints({kWidth, kWidth, kWidth})}, {{"axis", int64_t{2}}}, 3);
  const ValueId attention =
      n.op("Attention", {parts[0], parts[1], parts[2]},
           {{"is_causal", int64_t{1}}, {"q_num_heads", kHeads}, {"kv_num_heads", kHeads}, {"scale", 0.3f}});
  const ValueId h = n.op("Add", {x, n.op("MatMul", {attention, n.weight({kWidth, kWidth}, seed + 3)})});
  const ValueId up = n.op("Gelu", {n.op("MatMul", {layer_norm(n, h, seed + 4), n.weight({kWidth, 64}, seed + 6)})});
  return n.op("Add", {h, n.op("MatMul", {up, n.weight({64, kWidth}, seed + 7)})});
}

// A transformer of which one position is used: the last block is computed for one row instead of all, and without keys
// and values.
TEST(NarrowOutputs, LastPositionOfATransformer) {
  for (const int64_t position : {kRows - 1, int64_t{7}}) {
    Net n;
    const ValueId x = n.input("x", {2, kRows, kWidth});
    const ValueId body = layer_norm(n, block(n, block(n, x, 10), 30), 50);
    const ValueId logits = n.op("MatMul", {body, n.weight({kWidth, 100}, 60)});
    n.output(n.op("Gather", {logits, n.b.constant(Tensor::scalar<int64_t>(position))}, {{"axis", int64_t{1}}}));
    const double before = flops(n.graph);
    run_and_compare(n.graph, narrow_outputs, 2e-6);
    const double after = flops(n.graph);
    // Weights used by a row of a block: 4 W W + 2 * 64 W. Keys and values of the position are merged into other
    // weights.
    const double row = 2.0 * 2 * (4 * kWidth * kWidth + 128 * kWidth), head = 2.0 * 2 * kWidth * 100;
    const double kv = 2.0 * 2 * 2 * kWidth * kWidth;
    const double saved = (kRows - 1) * (row - kv + head);
    EXPECT_GT(before - after, saved);
    EXPECT_LT(before - after, saved + 1.3 * kRows * kv + 0.3 * saved);  // also saved: norms and activations
    EXPECT_LE(count(n.graph, "Slice"), 2);
  }
}

// For one query among many keys, keys and values are never computed, whatever biases they have and however heads are
// shared.
TEST(NarrowOutputs, FewQueriesNeedNoKeys) {
  for (const int64_t kv_heads : {int64_t{1}, kHeads}) {
    const int64_t kv = kv_heads * kWidth / kHeads;
    for (const int64_t queries : {int64_t{1}, kRows}) {
      Net n;
      const ValueId x = n.input("x", {9, kRows, kWidth}), asked = n.input("q", {9, queries, kWidth});
      const auto linear = [&](ValueId v, int64_t columns, uint64_t seed) {
        return n.op("Add", {n.op("MatMul", {v, n.weight({kWidth, columns}, seed)}), n.weight({columns}, seed + 1)});
      };
      const auto parts = n.b.add_many("Split", {linear(x, 2 * kv, 3), n.b.ints({kv, kv})}, {{"axis", int64_t{-1}}}, 2);
      const ValueId y = n.op("Attention", {linear(asked, kWidth, 5), parts[0], parts[1]},
                             {{"q_num_heads", kHeads}, {"kv_num_heads", kv_heads}});
      n.output(n.op("MatMul", {y, n.weight({kWidth, 10}, 7)}));
      const double before = flops(n.graph);
      const bool few = queries == 1;
      EXPECT_EQ(run_and_compare(n.graph, narrow_outputs, 2e-6), few);
      EXPECT_EQ(count(n.graph, "Split"), !few);
      EXPECT_LE(flops(n.graph), few ? 0.5 * before : before);
    }
  }
}

TEST(NarrowOutputs, ColumnsOfAProductAndChannelsOfAConvolution) {
  Net n;
  const ValueId x = n.input("x", {3, 8});
  const auto slice = [&](ValueId v, int64_t axis, int64_t from, int64_t to) {
    return n.op("Slice", {v, n.b.ints({from}), n.b.ints({to}), n.b.ints({axis})});
  };
  const ValueId g = n.op("Gemm", {x, n.weight({10, 8}, 1), n.weight({10}, 2)}, {{"transB", int64_t{1}}});
  n.output(slice(n.op("Sigmoid", {g}), 1, 2, 5), "columns");
  const ValueId c = n.op("Conv", {n.input("image", {1, 3, 6, 6}), n.weight({9, 3, 3, 3}, 3), n.weight({9}, 4)});
  n.output(slice(n.op("Softmax", {c}, {{"axis", int64_t{3}}}), -3, -4, 99), "channels");
  const double before = flops(n.graph);
  EXPECT_GT(run_and_compare(n.graph, narrow_outputs), 0);
  EXPECT_LT(flops(n.graph), before / 1.9);
  EXPECT_EQ(count(n.graph, "Slice"), 0);
}

// A number for each row, of as many rows as columns: its columns cannot be taken.
TEST(NarrowOutputs, ABiasOfRowsStays) {
  Net n;
  const ValueId s = n.op("Add", {n.op("MatMul", {n.input("x", {6, 4}), n.weight({4, 6}, 1)}), n.weight({6, 1}, 2)});
  const std::vector<ValueId> parts = n.b.add_many("Split", {s, n.b.ints({2, 4})}, {{"axis", int64_t{1}}}, 2);
  n.output(n.op("Slice", {parts[0], n.b.ints({0}), n.b.ints({2}), n.b.ints({0})}), "rows");
  n.output(n.op("Relu", {parts[1]}), "rest");
  run_and_compare(n.graph, narrow_outputs);
}

TEST(NarrowOutputs, ThroughReshapeTransposeConcatAndReduction) {
  Net n;
  const ValueId a = n.op("MatMul", {n.input("a", {4, 6, 8}), n.weight({8, 8}, 1)});
  const ValueId b = n.op("MatMul", {n.input("b", {4, 6, 8}), n.weight({8, 8}, 2)});
  ValueId v = n.op("Concat", {a, b}, {{"axis", int64_t{2}}});
  v = n.reshape(v, {4, 6, 4, 4});
  v = n.transpose(v, {2, 1, 0, 3});
  v = n.op("Add", {v, n.weight({6, 1, 4}, 3)});
  n.output(n.op("Slice", {v, n.b.ints({1}), n.b.ints({3}), n.b.ints({1})}));
  EXPECT_GT(run_and_compare(n.graph, narrow_outputs), 0);
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    if (!is_op(node, "MatMul")) continue;
    EXPECT_EQ((*n.graph.value(node.outputs[0]).shape)[1], 2);
  }
}

// Which keys a query sees depends on its position; a query moved to the front would see others.
TEST(NarrowOutputs, QueriesOfAWindowStayTogether) {
  for (const char* window : {"left_window_size", "right_window_size"}) {
    for (const int64_t causal : {0, 1}) {
      Net n;
      const ValueId q = n.input("q", {2, kRows, kWidth}), k = n.input("k", {2, kRows, kWidth});
      const ValueId y =
          n.op("Attention", {q, k, k},
               {{"q_num_heads", kHeads}, {"kv_num_heads", kHeads}, {window, int64_t{3}}, {"is_causal", causal}});
      n.output(n.op("Gather", {n.op("Gelu", {y}), n.b.constant(Tensor::scalar<int64_t>(11))}, {{"axis", int64_t{1}}}));
      run_and_compare(n.graph, narrow_outputs, 1e-5);
    }
  }
}

TEST(NarrowOutputs, StaysWhereNothingIsSaved) {
  Net n;
  const ValueId image = n.input("image", {1, 3, 6, 6});
  const ValueId c = n.op("Relu", {n.op("Conv", {image, n.weight({4, 3, 3, 3}, 1)})});
  n.output(n.op("Slice", {c, n.b.ints({0}), n.b.ints({2}), n.b.ints({3})}), "width");
  const ValueId m = n.op("MatMul", {n.input("x", {5, 8}), n.weight({8, 8}, 2)});
  n.output(n.op("Slice", {m, n.b.ints({0}), n.b.ints({1}), n.b.ints({0})}), "row");
  n.output(m, "whole");
  const ValueId s = n.op("Softmax", {n.input("z", {5, 8})});
  n.output(n.op("Slice", {s, n.b.ints({0}), n.b.ints({3}), n.b.ints({1})}), "along_softmax");
  EXPECT_EQ(run_and_compare(n.graph, narrow_outputs), 0);
}

}  // namespace narrow_outputs_test
}  // namespace sparkpilot
