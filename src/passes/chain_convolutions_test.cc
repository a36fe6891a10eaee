#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// What each test builds: expand 1x1, depthwise, project 1x1, residual.
struct Block {
  Net n;
  ValueId x = n.input("x", {1, 22, 21, 24});
  int64_t dilation = 1;
  std::string auto_pad;

  ValueId conv(ValueId in, int64_t out, int64_t kernel, int64_t stride, bool depthwise, Texts epilogue,
               ValueId operand = {}) {
    const int64_t channels = n.b.shape(in)[3];
    const int64_t pad = depthwise ? kernel / 2 * dilation : 0;
    Attributes attrs{
        {"channels_last", int64_t{1}}, {"epilogue", std::move(epilogue)}, {"strides", Ints{stride, stride}}};
    if (auto_pad.empty()) attrs.set("pads", Ints{pad, pad, pad, pad});
    else attrs.set("auto_pad", auto_pad);
    if (depthwise) attrs.set("group", channels);
    if (depthwise && dilation > 1) attrs.set("dilations", Ints{dilation, dilation});
    const ValueId w = n.weight({out, depthwise ? 1 : channels, kernel, kernel}, 3);
    std::vector<ValueId> inputs{in, w, n.weight({out}, 5)};
    if (operand.present()) inputs.push_back(operand);
    return n.op("sparkpilot::Conv", inputs, attrs);
  }
  ValueId expand() { return conv(x, 96, 1, 1, false, {"clip:0:6"}); }
  ValueId depthwise(ValueId in, int64_t stride = 1) { return conv(in, n.b.shape(in)[3], 3, stride, true, {"relu"}); }
  ValueId project(ValueId in) { return conv(in, 24, 1, 1, false, {}); }
  int run() { return run_and_compare(n.graph, chain_convolutions); }
};

TEST(ChainConvolutions, TakesAnInvertedBottleneckWithItsResidual) {
  Block b;
  b.n.output(b.conv(b.depthwise(b.expand()), 24, 1, 1, false, {"add:3", "relu"}, b.x));
  EXPECT_EQ(b.run(), 1);
  EXPECT_EQ(count(b.n.graph, "sparkpilot::ConvChain"), 1);
  EXPECT_EQ(count(b.n.graph, "sparkpilot::Conv"), 0);
}

TEST(ChainConvolutions, TakesOneAfterTheOther) {
  Block b;
  const ValueId half = b.project(b.depthwise(b.expand(), 2));
  b.n.output(b.project(b.depthwise(b.conv(half, 300, 1, 1, false, {"silu"}))));
  EXPECT_EQ(b.run(), 2);
  EXPECT_EQ(count(b.n.graph, "sparkpilot::Conv"), 0);
}

TEST(ChainConvolutions, KeepsTheOperandsOfEveryStage) {
  Block b;
  const ValueId expanded = b.conv(b.x, 96, 1, 1, false, {"mul:3", "relu"}, b.n.weight({96}, 11));
  const ValueId filtered = b.conv(expanded, 96, 3, 1, true, {"tanh", "add:3"}, b.n.weight({96}, 13));
  b.n.output(b.conv(filtered, 24, 1, 1, false, {"add:3"}, b.x));
  EXPECT_EQ(b.run(), 1);
}

TEST(ChainConvolutions, WritesAutomaticPaddingOut) {
  for (const char* how : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    Block b;
    b.auto_pad = how;
    b.n.output(b.project(b.depthwise(b.expand(), 2)));
    EXPECT_EQ(b.run(), 1) << how;
  }
}

TEST(ChainConvolutions, LeavesAnImageThatSomebodyElseReads) {
  Block b;
  const ValueId expanded = b.expand(), filtered = b.depthwise(expanded);
  b.n.output(b.project(filtered));
  b.n.output(filtered, "filtered");
  EXPECT_EQ(b.run(), 0);
  Block c;  // the expanded image alone: the rest is chained
  const ValueId kept = c.expand();
  c.n.output(c.project(c.depthwise(kept)));
  c.n.output(kept, "kept");
  EXPECT_EQ(c.run(), 1);
  EXPECT_EQ(count(c.n.graph, "sparkpilot::Conv"), 1);
}

TEST(ChainConvolutions, LeavesWhatStaysInCacheAnyway) {
  Block b;  // the image between depthwise and project is large enough
  b.x = b.n.input("small", {1, 10, 9, 24});
  b.n.output(b.project(b.depthwise(b.expand())));
  EXPECT_EQ(b.run(), 1);
  EXPECT_EQ(count(b.n.graph, "sparkpilot::Conv"), 1);
  Block c;
  c.x = c.n.input("few", {1, 4, 6, 24});
  c.n.output(c.project(c.depthwise(c.expand())));
  EXPECT_EQ(c.run(), 0);
}

TEST(ChainConvolutions, LeavesDilatedFilters) {
  Block b;
  b.dilation = 2;
  b.n.output(b.project(b.depthwise(b.expand())));
  EXPECT_EQ(b.run(), 0);
}

}  // namespace
}  // namespace sparkpilot
