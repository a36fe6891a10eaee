#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

using Ints = std::vector<int64_t>;

// An image of `channels`, moved to channels last and convolved.
ValueId first_layer(Net& n, int64_t channels, int64_t kernel, Ints dilations = {1, 1}) {
  const ValueId x = n.transpose(n.input("x", {2, channels, 19, 23}), {0, 2, 3, 1});
  const ValueId w = n.weight({20, channels, kernel, kernel}, 3);
  return n.op("sparkpilot::Conv", {x, w, n.weight({20}, 5)},
              {{"channels_last", int64_t{1}},
               {"pads", Ints{1, 1, 1, 1}},
               {"strides", Ints{2, 2}},
               {"dilations", std::move(dilations)},
               {"epilogue", std::vector<std::string>{"relu"}}});
}

TEST(ReadPlanes, TakesAnImageAsItComes) {
  Net n;
  n.output(first_layer(n, 3, 3));
  EXPECT_EQ(run_and_compare(n.graph, read_planes), 1);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
}

TEST(ReadPlanes, LeavesTheTransposeToItsOtherReaders) {
  Net n;
  const ValueId y = first_layer(n, 6, 5);
  n.output(y);
  n.output(n.graph.node(n.graph.value(y).producer).inputs[0], "moved");
  EXPECT_EQ(run_and_compare(n.graph, read_planes), 1);
  EXPECT_EQ(count(n.graph, "Transpose"), 1);
}

TEST(ReadPlanes, LeavesManyChannelsPointwiseDilatedAndMuchWork) {
  for (const auto& [channels, kernel, dilation] : {std::array<int64_t, 3>{40, 3, 1}, {3, 1, 1}, {3, 3, 2}, {3, 9, 1}}) {
    Net n;
    n.output(first_layer(n, channels, kernel, {dilation, dilation}));
    EXPECT_EQ(run_and_compare(n.graph, read_planes, 0), 0);
  }
}

}  // namespace
}  // namespace sparkpilot
