// Times blocks fused into one node, compared with the same block node by node, with oneDNN's kernels if it has them.
//
//   block_bench [--threads N] [--ms MS] [--only TEXT]
//
// Inverted bottlenecks and depthwise with pointwise convolutions (ConvChain), first layers that read channels-first
// images, and attention: microseconds as one node, and how many times as long it takes node by node with the project's
// own choice of kernels and with oneDNN's (medians of runs in turns); how far the results are apart (relative L2). A
// table of docs/benchmarks.md ("Blocks").
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/statistics.h"
#include "ir/op.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace {

using Ints = std::vector<int64_t>;

struct Options {
  int threads = 1;
  double ms = 200;
  std::string only;
};

// A graph under construction: one input "x", weights at random.
class Network {
 public:
  Graph graph;

  Network() { graph.opsets[""] = 26; }
  ValueId input(const Shape& shape) { return graph.add_input("x", DType::f32, shape); }
  ValueId weight(const Shape& shape, double scale) {
    Tensor tensor(DType::f32, shape);
    for (float& v : tensor.data<float>()) v = static_cast<float>(scale * random_.normal());
    return b_.constant(std::move(tensor));
  }
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attributes attrs = {}) {
    return b_.add(name, std::move(inputs), std::move(attrs));
  }
  ValueId reshape(ValueId x, const Shape& shape) { return op("Reshape", {x, b_.constant(Tensor::ints(shape.dims()))}); }
  ValueId transpose(ValueId x, Ints perm) { return op("Transpose", {x}, {{"perm", std::move(perm)}}); }
  // Channels first, as exporters write it; followed by Relu unless `linear`.
  ValueId conv(ValueId x, int64_t out, int64_t kernel, int64_t stride, bool depthwise, bool linear = false) {
    const int64_t in = b_.shape(x)[1], pad = kernel / 2, group = depthwise ? in : 1;
    const double scale = 1 / std::sqrt(static_cast<double>(in / group * kernel * kernel));
    const ValueId y = op("Conv", {x, weight({out, in / group, kernel, kernel}, scale), weight({out}, 0.1)},
                         {{"group", group}, {"pads", Ints(4, pad)}, {"strides", Ints(2, stride)}});
    return linear ? y : op("Relu", {y});
  }
  // An image with channels last at the graph's interface.
  void image(int64_t side, int64_t channels, const std::function<ValueId(ValueId)>& layers) {
    const ValueId x = transpose(input({1, side, side, channels}), {0, 3, 1, 2});
    graph.add_output(transpose(layers(x), {0, 2, 3, 1}), "y");
  }
  ValueId scalar(double v) { return b_.scalar(DType::f32, v); }

 private:
  Builder b_{graph, "", 26};
  Random random_{1};
};

struct Block {
  std::string name;
  std::function<void(Network&)> build;
  std::string off;  // the pass that fuses it into one node
};

Block bottleneck(int64_t side, int64_t in, int64_t expanded, int64_t kernel, int64_t stride, int64_t out) {
  return {fmt::format("{0}x{0}x{1} to {2}, {3}x{3}/{4}, to {5}{6}", side, in, expanded, kernel, stride, out,
                      in == out && stride == 1 ? " and added" : ""),
          [=](Network& n) {
            n.image(side, in, [&](ValueId x) {
              const ValueId y = n.conv(n.conv(n.conv(x, expanded, 1, 1, false), expanded, kernel, stride, true), out, 1,
                                       1, false, true);
              return in == out && stride == 1 ? n.op("Add", {x, y}) : y;
            });
          },
          "chain"};
}

Block separable(int64_t side, int64_t in, int64_t stride, int64_t out) {
  return {fmt::format("{0}x{0}x{1}, 3x3/{2} by depth, to {3}", side, in, stride, out),
          [=](Network& n) {
            n.image(side, in, [&](ValueId x) { return n.conv(n.conv(x, in, 3, stride, true), out, 1, 1, false); });
          },
          "chain"};
}

Block first_layer(int64_t height, int64_t width, int64_t channels, int64_t kernel, int64_t stride, int64_t out) {
  return {fmt::format("{}x{}x{} channels first, {}x{}/{} to {}", channels, height, width, kernel, kernel, stride, out),
          [=](Network& n) {
            const ValueId y = n.conv(n.input({1, channels, height, width}), out, kernel, stride, false);
            n.graph.add_output(n.transpose(y, {0, 2, 3, 1}), "y");
          },
          "planes"};
}

// Softmax(q k^T / sqrt(size)) v of matrices whose columns lie side by side, as a single product leaves them.
Block attention(int64_t heads, int64_t queries, int64_t size, int64_t batch = 1) {
  return {fmt::format("attention: {}{} heads, {} positions, size {}", batch > 1 ? fmt::format("batch {}, ", batch) : "",
                      heads, queries, size),
          [=](Network& n) {
            const ValueId x = n.input({batch, queries, 3 * heads * size});
            const ValueId parts = n.reshape(x, {batch, queries, 3, heads, size});
            const auto part = [&](int64_t i) {
              const ValueId taken =
                  n.op("Gather", {parts, n.graph.add_constant(Tensor::scalar(i))}, {{"axis", int64_t{2}}});
              return n.transpose(taken, {0, 2, 1, 3});
            };
            const ValueId scale = n.scalar(1 / std::sqrt(static_cast<double>(size)));
            const ValueId scores = n.op("Mul", {n.op("MatMul", {part(0), n.transpose(part(1), {0, 1, 3, 2})}), scale});
            const ValueId y = n.op("MatMul", {n.op("Softmax", {scores}, {{"axis", int64_t{-1}}}), part(2)});
            n.graph.add_output(n.reshape(n.transpose(y, {0, 2, 1, 3}), {batch, queries, heads * size}), "y");
          },
          "recognise"};
}

std::vector<Block> all_blocks() {
  return {bottleneck(112, 16, 96, 3, 2, 24),
          bottleneck(56, 24, 144, 3, 1, 24),
          bottleneck(28, 40, 240, 5, 1, 40),
          bottleneck(14, 80, 480, 3, 1, 80),
          bottleneck(16, 96, 576, 5, 2, 160),
          separable(112, 32, 1, 16),
          separable(80, 32, 2, 64),
          separable(40, 64, 1, 64),
          separable(28, 128, 1, 128),
          separable(15, 256, 1, 256),
          first_layer(240, 320, 3, 3, 2, 16),
          first_layer(160, 320, 6, 3, 2, 32),
          first_layer(128, 256, 12, 3, 2, 32),
          first_layer(352, 352, 3, 3, 2, 24),
          first_layer(128, 256, 12, 5, 2, 32),
          first_layer(224, 224, 3, 4, 4, 96),
          attention(4, 20, 32),
          attention(4, 20, 32, 64),
          attention(8, 25, 64),
          attention(8, 128, 64),
          attention(4, 512, 32),
          attention(12, 197, 64)};
}

// One way to run a block.
struct Contender {
  Session session;
  std::vector<double> us = {};

  enum Way { whole, nodes, onednn };

  Contender(const Block& block, const Options& options, Way way) : session(make(block, options, way)) {
    Random random(7);
    for (float& v : session.input<float>("x")) v = static_cast<float>(random.normal());
    session.run();
  }
  static Session make(const Block& block, const Options& options, Way way) {
    Network network;
    block.build(network);
    SessionOptions how;
    how.threads = options.threads;
    if (way != whole) how.passes.off = {block.off};
    if (way == onednn) how.kernels = "onednn";
    return Session(std::move(network.graph), std::move(how));
  }
  double time_once() {
    const int64_t begin = now_ns();
    session.run();
    return static_cast<double>(now_ns() - begin) * 1e-3;
  }
};

double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(difference / norm);
}

void bench(const Options& options) {
  fmt::print("| block | us | node by node | by oneDNN | relative L2 |\n|---|---|---|---|---|\n");
  double product = 0;
  int count = 0;
  for (const Block& block : all_blocks()) {
    if (block.name.find(options.only) == std::string::npos) continue;
    std::vector<Contender> all;
    for (const auto way : {Contender::whole, Contender::nodes, Contender::onednn})
      all.emplace_back(block, options, way);
    // Ten runs of one, so that its weights and images are cached, then of the other; the first run does not count.
    const int64_t end = now_ns() + static_cast<int64_t>(options.ms * 1e6);
    while (now_ns() < end || all.back().us.size() < 20) {
      for (Contender& contender : all) {
        contender.time_once();
        for (int i = 0; i < 10; ++i) contender.us.push_back(contender.time_once());
      }
    }
    const auto p50 = [&](size_t i) { return summarize(all[i].us).p50; };
    fmt::print("| {} | {:.4g} | {:.2f} | {:.2f} | {:.1e} |\n", block.name, p50(0), p50(1) / p50(0), p50(2) / p50(0),
               distance(all[0].session.output<float>("y"), all[2].session.output<float>("y")));
    product += std::log(p50(2) / p50(0));
    ++count;
  }
  if (count) fmt::print("| **geometric mean** | | | **{:.2f}** | |\n", std::exp(product / count));
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  using namespace sparkpilot;
  Options options;
  CLI::App app("Times blocks that are one node here beside the same node by node, by oneDNN where it can");
  app.add_option("--threads", options.threads, "threads")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--ms", options.ms, "milliseconds a block")->capture_default_str()->check(CLI::Range(1.0, 1e6));
  app.add_option("--only", options.only, "rows whose text holds this");
  CLI11_PARSE(app, argc, argv);
  try {
    bench(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "block_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
