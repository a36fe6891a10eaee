// Models and adapters for the tests of this room.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/apply.h"
#include "adapters/merge.h"
#include "ir/interpret.h"
#include "passes/test_graph.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::testing {

using List = std::vector<ValueId>;

// One layer of every form: Gemm with and without transB, MatMul of rank 2 and 3, convolutions with stride, dilation,
// groups, one axis, depthwise; weights in `dtype`, behind a Cast where that is not f32.
inline Graph every_layer(DType dtype = DType::f32) {
  Graph g;
  g.name = "every";
  g.opsets[""] = 26;
  Builder b(g);
  const auto weight = [&](const Shape& shape, const std::string& name, uint64_t seed) {
    const ValueId stored = b.constant(convert(random_tensor(shape, seed, DType::f32, 0.5), dtype), name);
    return dtype == DType::f32 ? stored : b.add("Cast", {stored}, {{"to", onnx_code(DType::f32)}});
  };
  const ValueId x = b.input("x", DType::f32, {1, 6}), s = b.input("s", DType::f32, {1, 5, 6});
  const ValueId image = b.input("image", DType::f32, {1, 4, 9, 8}), line = b.input("line", DType::f32, {1, 3, 11});
  ValueId v = b.add("Gemm", {x, weight({7, 6}, "net.fc.weight", 1), weight({7}, "net.fc.bias", 2)},
                    {{"transB", int64_t{1}}}, "/net/fc/Gemm");
  v = b.add("Gemm", {b.add("Tanh", {v}), weight({7, 5}, "onnx::Gemm_12", 3), weight({5}, "bias_13", 4)},
            {{"beta", 0.5f}}, "/net/out/Gemm");
  b.output(v, "linear");
  ValueId t = b.add("MatMul", {s, weight({6, 9}, "net.mix.weight", 5)}, {}, "/net/mix/MatMul");
  t = b.add("MatMul", {b.add("Relu", {t}), b.add("Transpose", {weight({4, 9}, "tied", 6)})}, {}, "MatMul_7");
  b.output(t, "sequence");
  const std::vector<int64_t> two{2, 2}, ones{1, 1, 1, 1};
  ValueId c = b.add("Conv", {image, weight({6, 4, 3, 3}, "stem.weight", 7), weight({6}, "stem.bias", 8)},
                    {{"strides", two}, {"pads", ones}}, "/stem/Conv");
  c = b.add("Conv", {b.add("Relu", {c}), weight({6, 1, 3, 3}, "depth.weight", 9)},
            {{"group", int64_t{6}}, {"pads", ones}}, "/depth/Conv");
  c = b.add("Conv", {c, weight({8, 3, 1, 1}, "grouped.weight", 10), weight({8}, "grouped.bias", 11)},
            {{"group", int64_t{2}}}, "/grouped/Conv");
  c = b.add("Conv", {c, weight({5, 8, 2, 3}, "dilated.weight", 12)}, {{"dilations", two}, {"pads", ones}}, "Conv_3");
  b.output(c, "picture");
  b.output(b.add("Conv", {line, weight({4, 3, 3}, "wave.weight", 13)}, {}, "/wave/Conv"), "wave");
  return g;
}

// Gives every tensor of an adapter numbers that training might: no B of zeros, magnitudes off the norms.
inline void shake(Adapter& adapter, uint64_t seed, double size = 0.3) {
  for (AdapterLayer& layer : adapter.layers) {
    const Tensor noise = random_tensor(layer.b.shape(), ++seed, DType::f32, size);
    std::ranges::copy(noise.data<float>(), layer.b.data<float>().begin());
    if (!layer.magnitude.present()) continue;
    Random random(++seed);
    for (float& m : layer.magnitude.data<float>()) m *= static_cast<float>(random.uniform(0.7, 1.3));
  }
}

inline std::vector<Tensor> inputs_of(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> out;
  for (const ValueId id : graph.inputs()) out.push_back(random_tensor(*graph.value(id).shape, ++seed));
  return out;
}

}  // namespace sparkpilot::testing
