// Runs one op on random inputs, for those who count instructions: build/one_op CASE RUNS.
//
// Prints the arithmetic of a run, in multiply-adds and other operations on one number, and the kernel that does it.
// scripts/check_arm64.py runs it under qemu with few and with more runs: the difference is what runs take, without what
// loading takes.
#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "sparkpilot/builder.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace {

struct Case {
  Graph graph = {};
  int64_t arithmetic = 0;
};

Tensor random(const Shape& shape, DType dtype) {
  Tensor out(dtype, shape);
  std::mt19937 engine(1);
  const double high = dtype == DType::i8 ? 127 : 1;
  std::uniform_real_distribution<double> numbers(-high, high);
  for (int64_t i = 0; i < shape.elements(); ++i)
    store_element(dtype, out.raw(), i, std::round(numbers(engine) * 64) / 64);
  return out;
}

constexpr int64_t kDepth = 1024, kColumns = 256;  // of products
constexpr int64_t kChannels = 128, kSide = 16;    // of convolutions

Case product(DType dtype, int64_t rows) {
  Case out{.arithmetic = rows * kDepth * kColumns};
  Builder b(out.graph);
  const ValueId x = b.input("x", dtype, {rows, kDepth});
  b.output(b.add("MatMul", {x, b.constant(random({kDepth, kColumns}, dtype))}), "y");
  return out;
}

// With channels last, as in a network.
Case convolution(DType dtype, int64_t kernel, int64_t groups = 1) {
  Case out{.arithmetic = kChannels * kChannels / groups * kernel * kernel * kSide * kSide};
  Builder b(out.graph);
  const ValueId x = b.input("x", dtype, {1, kSide, kSide, kChannels});
  const ValueId weights = b.constant(random({kChannels, kChannels / groups, kernel, kernel}, dtype));
  const int64_t pad = kernel / 2, on = 1;
  b.output(b.add("sparkpilot::Conv", {x, weights},
                 {{"channels_last", on}, {"pads", std::vector<int64_t>(4, pad)}, {"group", groups}}),
           "y");
  return out;
}

Case attention() {
  constexpr int64_t kHeads = 4, kTokens = 128, kSize = 64;
  // Of a score: the largest, the difference, the sum, and an exponential of a polynomial of degree 6 (exp_below).
  constexpr int64_t kSoftmax = 16;
  Case out{.arithmetic = kHeads * kTokens * kTokens * (2 * kSize + kSoftmax)};
  Builder b(out.graph);
  const Shape shape{1, kHeads, kTokens, kSize};
  const ValueId q = b.input("q", DType::f32, shape), k = b.input("k", DType::f32, shape);
  b.output(b.add("Attention", {q, k, b.input("v", DType::f32, shape)}), "y");
  return out;
}

Case bytes() {
  constexpr int64_t kRows = 96;
  Case out{.arithmetic = kRows * kDepth * kColumns};
  Builder b(out.graph);
  const ValueId x = b.input("x", DType::u8, {kRows, kDepth});
  const ValueId weights = b.constant(random({kDepth, kColumns}, DType::i8));
  const ValueId step = b.scalar(DType::f32, 0.01), fine = b.scalar(DType::f32, 0.5), zero = b.scalar(DType::u8, 128);
  b.output(b.add("QLinearMatMul", {x, step, zero, weights, step, b.scalar(DType::i8, 0), fine, zero}), "y");
  return out;
}

const std::map<std::string, std::function<Case()>, std::less<>>& cases() {
  static const std::map<std::string, std::function<Case()>, std::less<>> all = {
      {"product", [] { return product(DType::f32, 96); }},
      {"product_row", [] { return product(DType::f32, 1); }},
      {"product_bf16", [] { return product(DType::bf16, 96); }},
      {"product_int8", bytes},
      {"conv3x3", [] { return convolution(DType::f32, 3); }},
      {"conv1x1", [] { return convolution(DType::f32, 1); }},
      {"conv1x1_bf16", [] { return convolution(DType::bf16, 1); }},
      {"depthwise3x3", [] { return convolution(DType::f32, 3, kChannels); }},
      {"attention", attention},
  };
  return all;
}

int run(std::string_view name, std::string_view runs_text) {
  const auto found = cases().find(name);
  int runs = 0;
  const auto end = runs_text.data() + runs_text.size();
  if (found == cases().end() || std::from_chars(runs_text.data(), end, runs).ptr != end || runs < 1) {
    fmt::print(stderr, "one_op: expected a case (");
    for (const auto& [each, make] : cases()) fmt::print(stderr, "{} ", each);
    fmt::print(stderr, ") and a number of runs\n");
    return 2;
  }
  Case one = found->second();
  Session session(std::move(one.graph), {.threads = 1, .tune = Tune::off, .passes = {.precision = Precision::model}});
  for (int i = 0; i < runs; ++i) session.run();
  std::string kernels;
  for (const KernelDecision& each : session.choices()) kernels += " " + each.kernel;
  fmt::print("{}{}\n", one.arithmetic, kernels);
  return 0;
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  try {
    return sparkpilot::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "one_op: {}\n", error.what());
    return 1;
  }
}
