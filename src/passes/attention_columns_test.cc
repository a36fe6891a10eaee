#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace attention_columns_test {

using testing::count;
using testing::Net;
using testing::run_and_compare;

constexpr int64_t kWidth = 24;
const Attributes kHeads{{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{3}}, {"is_causal", int64_t{1}}};

// Queries, keys and values of one product in an unusual order; and with queries from another product.
TEST(AttentionColumns, ReadsTheProduct) {
  for (const bool own : {false, true}) {
    Net n;
    const ValueId x = n.input("x", {2, 7, 3 * kWidth});
    const auto parts = n.b.add_many("Split", {x, n.b.ints({kWidth, kWidth, kWidth})}, {{"axis", int64_t{-1}}}, 3);
    const ValueId q = own ? n.input("q", {2, 7, kWidth}) : parts[2];
    n.output(n.op("Attention", {q, parts[0], parts[1]}, kHeads));
    EXPECT_EQ(run_and_compare(n.graph, attend_to_columns), 1);
    EXPECT_EQ(count(n.graph, "Split"), 0);
    EXPECT_EQ(count(n.graph, "sparkpilot::Attention"), 1);
  }
}

TEST(AttentionColumns, LeavesOtherSplits) {
  Net n;
  const ValueId x = n.input("x", {2, 21, kWidth});
  const auto parts = n.b.add_many("Split", {x, n.b.ints({7, 7, 7})}, {{"axis", int64_t{1}}}, 3);
  n.output(n.op("Attention", {parts[0], parts[1], parts[2]}, kHeads));
  EXPECT_EQ(run_and_compare(n.graph, attend_to_columns), 0);
}

}  // namespace attention_columns_test
}  // namespace sparkpilot
