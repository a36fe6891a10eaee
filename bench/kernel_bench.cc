// Times the project's own kernels compared with oneDNN's: single nodes, in turns on one machine.
//
//   kernel_bench [--threads N] [--ms MS] [--only TEXT]
//
// Each line is one node with constant weights: microseconds (median), GFLOP/s, the share of the core's measured fp32
// peak (bf16 may reach twice that, bytes four times), and how many times faster than oneDNN the project's first
// candidate is. `--only` takes the rows whose text holds TEXT. The table of docs/benchmarks.md ("Kernels").
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/op_bench.h"
#include "hw/peak.h"
#include "int8_peer.h"
#include "ops/cpu/limit.h"

namespace sparkpilot {
namespace {

struct Options {
  int threads = 1;
  double ms = 100;
  std::string only;
};

struct Work {
  std::string op;
  OpCase op_case;
};

using Steps = std::vector<std::string>;

// [m, k] x [k, n] with a bias and an epilogue; the steps' operands have the output's shape.
Work gemm(int64_t m, int64_t k, int64_t n, const Steps& steps = {}, DType dtype = DType::f32) {
  OpCase c{fmt::format("{}x{}x{}", m, k, n),
           {CaseInput::of({m, k}, dtype), CaseInput::of({k, n}, dtype).fixed(), CaseInput::of({n}).fixed()},
           {}};
  if (!steps.empty()) c.attrs.set("epilogue", steps);
  for (const std::string& step : steps) {
    c.name += " " + step;
    if (step.find(':') != std::string::npos) c.inputs.push_back(CaseInput::of({m, n}, dtype));
  }
  if (dtype != DType::f32) c.name += fmt::format(" {}", name(dtype));
  return {"Gemm", c};
}

// A convolution of a channels-last image.
Work conv(int64_t side, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups,
          DType dtype = DType::f32) {
  const int64_t pad = kernel / 2;
  OpCase c{fmt::format("{0}x{0}x{1} {2}x{2}/{3} to {4}{5}", side, in, kernel, stride, out,
                       groups > 1 ? fmt::format(", {} groups", groups) : ""),
           {CaseInput::of({1, side, side, in}, dtype), CaseInput::of({out, in / groups, kernel, kernel}, dtype).fixed(),
            CaseInput::of({out}).fixed()},
           {{"channels_last", int64_t{1}},
            {"group", groups},
            {"pads", std::vector<int64_t>(4, pad)},
            {"strides", std::vector<int64_t>(2, stride)},
            {"epilogue", Steps{"relu"}}}};
  if (dtype != DType::f32) c.name += fmt::format(" {}", name(dtype));
  return {"Conv", c};
}

// The gradients of a convolution by its weights and by its image, a batch of 8 in either layout.
Work conv_gradient(int64_t side, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups,
                   bool by_weights, bool last) {
  const int64_t pad = kernel / 2, to = (side + 2 * pad - kernel) / stride + 1;
  const auto image = [&](int64_t size, int64_t channels) {
    return CaseInput::of(last ? Shape{8, size, size, channels} : Shape{8, channels, size, size});
  };
  const CaseInput x = image(side, in), dy = image(to, out);
  OpCase c{fmt::format("8x{0}x{0}x{1} {2}x{2}/{3} to {4}{5}", side, in, kernel, stride, out,
                       groups > 1 ? fmt::format(", {} groups", groups) : "") +
               (last ? " last" : ""),
           {by_weights ? x : dy, by_weights ? dy : CaseInput::of({out, in / groups, kernel, kernel})},
           {{"group", groups},
            {"kernel_shape", std::vector<int64_t>(2, kernel)},
            {"channels_last", int64_t{last}},
            {"pads", std::vector<int64_t>(4, pad)},
            {"strides", std::vector<int64_t>(2, stride)}}};
  const int64_t missing = side + 2 * pad - kernel - (to - 1) * stride;
  if (!by_weights) c.attrs.set("output_padding", std::vector<int64_t>(2, missing));
  return {by_weights ? "ConvWeightGradient" : "ConvTranspose", c};
}

// The same work on bytes.
Work quantized(Work work, std::string op, int64_t channels) {
  OpCase& c = work.op_case;
  c.name += " u8";
  c.inputs[0] = CaseInput::range(c.inputs[0].shape, 0, 255, DType::u8);
  c.inputs[1] = CaseInput::range(c.inputs[1].shape, -128, 127, DType::i8).fixed();
  c.inputs[2] = CaseInput::range({channels}, 0.001, 0.003).fixed();
  c.inputs.push_back(CaseInput::range({channels}, -999, 999, DType::i32).fixed());
  c.attrs.erase("epilogue");
  c.attrs.set("y_dtype", int64_t{onnx_code(DType::u8)});
  return {std::move(op), std::move(c)};
}
Work int8_gemm(int64_t m, int64_t k, int64_t n) { return quantized(gemm(m, k, n), "QGemm", n); }
Work int8_conv(int64_t side, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups) {
  return quantized(conv(side, in, out, kernel, stride, groups), "QConv", out);
}

std::vector<Work> int8_work() {
  return {int8_gemm(1, 1024, 1024),           int8_gemm(16, 512, 512),
          int8_gemm(512, 256, 1024),          int8_gemm(512, 1024, 256),
          int8_gemm(2048, 2048, 2048),        int8_conv(112, 16, 96, 1, 1, 1),
          int8_conv(56, 144, 24, 1, 1, 1),    int8_conv(56, 64, 256, 1, 1, 1),
          int8_conv(14, 80, 480, 1, 1, 1),    int8_conv(14, 480, 80, 1, 1, 1),
          int8_conv(8, 512, 512, 1, 1, 1),    int8_conv(224, 6, 32, 3, 2, 1),
          int8_conv(56, 64, 64, 3, 1, 1),     int8_conv(28, 128, 128, 3, 1, 1),
          int8_conv(14, 256, 256, 3, 1, 1),   int8_conv(28, 128, 256, 3, 2, 1),
          int8_conv(112, 32, 32, 3, 1, 32),   int8_conv(112, 96, 96, 3, 2, 96),
          int8_conv(56, 144, 144, 3, 1, 144), int8_conv(28, 240, 240, 5, 1, 240),
          int8_conv(14, 480, 480, 3, 1, 480), int8_conv(14, 672, 672, 5, 2, 672)};
}

std::vector<Work> all_work() {
  std::vector<Work> all;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    all.push_back(gemm(1, 128, 1024, {}, dtype));
    all.push_back(gemm(1, 512, 512, {}, dtype));
    all.push_back(gemm(1, 512, 2048, {"gelu_tanh"}, dtype));
    all.push_back(gemm(1, 1024, 256, {"relu"}, dtype));
    all.push_back(gemm(1, 2048, 2048, {}, dtype));
    all.push_back(gemm(8, 512, 2048, {}, dtype));
    all.push_back(gemm(20, 128, 512, {"gelu_tanh"}, dtype));
    all.push_back(gemm(20, 512, 128, {"add:3"}, dtype));
    all.push_back(gemm(64, 2048, 512, {}, dtype));
    all.push_back(gemm(128, 512, 512, {"gelu_erf"}, dtype));
    all.push_back(gemm(512, 256, 1024, {"gelu_tanh"}, dtype));
    all.push_back(gemm(512, 1024, 256, {"add:3"}, dtype));
    all.push_back(gemm(1280, 128, 512, {"gelu_tanh"}, dtype));
    all.push_back(gemm(4096, 64, 64, {"relu"}, dtype));
    all.push_back(gemm(4096, 512, 512, {}, dtype));
    all.push_back(gemm(2048, 2048, 2048, {}, dtype));
    all.push_back(gemm(2048, 64, 192, {}, dtype));
    all.push_back(gemm(2048, 64, 192, {"gelu_tanh"}, dtype));
    all.push_back(gemm(2048, 64, 192, {"gelu_erf"}, dtype));
    all.push_back(gemm(2048, 192, 64, {"add:3"}, dtype));
    all.push_back(gemm(128, 256, 768, {"gelu_tanh"}, dtype));
    all.push_back(gemm(32, 512, 1536, {"gelu_tanh"}, dtype));
    all.push_back(gemm(32, 1536, 512, {"add:3"}, dtype));
    all.push_back(gemm(32, 4096, 4096, {}, dtype));
    all.push_back(conv(8, 512, 512, 1, 1, 1, dtype));
    all.push_back(conv(16, 256, 64, 1, 1, 1, dtype));
    all.push_back(conv(56, 64, 256, 1, 1, 1, dtype));
    all.push_back(conv(28, 40, 240, 1, 1, 1, dtype));
    all.push_back(conv(14, 480, 80, 1, 1, 1, dtype));
    all.push_back(conv(28, 128, 128, 3, 1, 1, dtype));
    all.push_back(conv(28, 192, 192, 7, 1, 192, dtype));
    all.push_back(conv(28, 192, 192, 3, 1, 192, dtype));
    all.push_back(conv(112, 96, 96, 3, 2, 96, dtype));
    all.push_back(conv(28, 240, 240, 5, 1, 240, dtype));
    all.push_back(conv(14, 672, 672, 5, 2, 672, dtype));
    all.push_back(conv(32, 64, 128, 7, 2, 64, dtype));
  }
  for (const auto& [by_weights, last] : {std::pair{true, true}, {false, true}, {true, false}, {false, false}}) {
    const auto add = [&all, weights = by_weights, channels_last = last](
                         int64_t side, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups) {
      all.push_back(conv_gradient(side, in, out, kernel, stride, groups, weights, channels_last));
    };
    add(72, 32, 192, 1, 1, 1), add(72, 16, 96, 1, 1, 1), add(36, 144, 24, 1, 1, 1), add(18, 384, 64, 1, 1, 1);
    add(9, 576, 160, 1, 1, 1), add(9, 320, 1280, 1, 1, 1), add(36, 64, 256, 1, 1, 1);
    add(36, 64, 64, 3, 1, 1), add(36, 128, 128, 3, 2, 1), add(144, 3, 32, 3, 2, 1), add(36, 64, 64, 3, 1, 4);
    add(72, 96, 96, 3, 1, 96), add(72, 96, 96, 3, 2, 96), add(36, 144, 144, 5, 1, 144), add(18, 576, 576, 5, 1, 576);
    add(36, 144, 144, 3, 1, 144), add(18, 384, 384, 3, 1, 384), add(18, 576, 576, 5, 2, 576);
    add(9, 576, 576, 5, 1, 576), add(9, 960, 960, 3, 1, 960), add(28, 192, 192, 7, 1, 192);
  }
  for (Work& work : int8_work()) all.push_back(std::move(work));
  return all;
}

void bench(const Options& options) {
  const double peak = measure_peak(options.threads).unit(Arithmetic::f32).flops_per_second;
  fmt::print("| node | kernel | us | GFLOP/s | of peak | times oneDNN's speed |\n|---|---|---|---|---|---|\n");
  for (const Work& work : all_work()) {
    if (work.op_case.name.find(options.only) == std::string::npos) continue;
    const OpDef* op = find_op("sparkpilot", work.op, 1);
    if (!op) fail_internal("no op {}", work.op);
    std::vector<OpBench> results = bench_case(*op, work.op_case, options.threads, options.ms, 1, true);
    double onednn = 0;
    if (work.op[0] == 'Q') {
      const auto peer = time_onednn_int8(work.op, work.op_case, options.threads, options.ms);
      if (peer) results.push_back(results[0]);
      if (peer) results.back().p50_us = peer->p50_us;
      if (peer) results.back().kernel = "onednn";
    }
    for (const OpBench& r : results) {
      if (r.kernel == "onednn") onednn = r.p50_us;
    }
    for (const OpBench& r : results) {
      fmt::print("| {} {} | {} | {:.2f} | {:.1f} | {:.2f} | {} |\n", work.op, r.case_name, r.kernel, r.p50_us,
                 r.flops / r.p50_us * 1e-3, r.flops / r.p50_us * 1e6 / peak,
                 onednn > 0 ? fmt::format("{:.2f}", onednn / r.p50_us) : "-");
    }
  }
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  using namespace sparkpilot;
  Options options;
  CLI::App app("Times the project's own kernels beside oneDNN's");
  app.add_option("--threads", options.threads, "threads")->capture_default_str();
  app.add_option("--ms", options.ms, "milliseconds a kernel and node")->capture_default_str();
  app.add_option("--only", options.only, "rows whose text holds this");
  app.add_option_function<std::string>(
      "--cpu", [](const std::string& level) { limit_kernels(level); },
      "the kernels of a lesser processor: avx512, avx2, baseline");
  CLI11_PARSE(app, argc, argv);
  try {
    bench(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
