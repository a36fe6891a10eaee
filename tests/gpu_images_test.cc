// A network of images on the emulated GPU: no node of it runs on the CPU, and the results are those of the CPU.
#include <cmath>

#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace gpu_images_test {

class GpuImages : public GpuTest {};

using Ints = std::vector<int64_t>;

// Numbers that are drawn once, about `scale` large.
ValueId weights(Builder& b, const Shape& shape, float scale) {
  Tensor out = Tensor::zeros(DType::f32, shape);
  float at = static_cast<float>(shape.elements() % 97);
  for (float& value : out.data<float>()) value = scale * std::sin(at += 1.7f);
  return b.constant(out);
}

// A first layer, a depthwise convolution, a residual around 1x1 convolutions, pools, and attention over pixels.
Graph network() {
  Graph graph;
  Builder b(graph);
  const Ints same{1, 1, 1, 1}, twice{2, 2};
  ValueId x = b.input("x", DType::f32, {1, 3, 16, 24});
  x = b.add("Conv", {x, weights(b, {16, 3, 3, 3}, 0.3f), weights(b, {16}, 0.1f)}, {{"pads", same}, {"strides", twice}});
  x = b.add("Relu", {x});
  const ValueId before = x;
  x = b.add("Conv", {x, weights(b, {16, 1, 3, 3}, 0.5f)}, {{"pads", same}, {"group", int64_t{16}}});
  x = b.add("Relu", {b.add("Conv", {x, weights(b, {48, 16, 1, 1}, 0.4f)})});
  x = b.add("Conv", {x, weights(b, {16, 48, 1, 1}, 0.2f), weights(b, {16}, 0.1f)});
  x = b.add("Add", {x, before});
  x = b.add("MaxPool", {x}, {{"kernel_shape", Ints{3, 3}}, {"pads", same}});
  x = b.add("AveragePool", {x}, {{"kernel_shape", twice}, {"strides", twice}});
  const ValueId pixels = b.add("Reshape", {x, b.ints({1, 2, 8, 24})});
  const ValueId seen = b.add("Attention", {pixels, pixels, pixels}, {{"is_causal", int64_t{1}}});
  b.output(b.add("GlobalAveragePool", {b.add("Reshape", {seen, b.ints({1, 16, 4, 6})})}), "means");
  b.output(seen, "y");
  return graph;
}

std::vector<float> run(Session& session) {
  float at = 0;
  for (float& value : session.input<float>("x")) value = std::cos(at += 0.3f);
  session.run();
  std::vector<float> out;
  for (const char* name : {"y", "means"}) {
    for (const float value : session.output<float>(name)) out.push_back(value);
  }
  return out;
}

TEST_F(GpuImages, ANetworkOfImagesStaysOnTheGpu) {
  NEEDS_IMAGES();
  Session cpu(network(), {.device = "cpu", .threads = 1});
  const std::vector<float> expected = run(cpu);
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    Session gpu(network(), {.device = "cuda", .threads = 1});
    EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
    const std::vector<float> y = run(gpu);
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4f) << i;
    EXPECT_EQ(run(gpu), y);
    EXPECT_EQ(driver_count("call cuGraphLaunch"), 2);  // one stretch
  }
}

}  // namespace gpu_images_test
}  // namespace sparkpilot
