// Every network with all passes, with each pass disabled, and with none: the same results.
#include "passes/pass.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ir/infer.h"
#include "ir/interpret.h"
#include "networks.h"
#include "ops/check.h"

namespace sparkpilot {
namespace rewrites_test {

// Relative L2. A GELU whose constants are stored in f16 is replaced by one with exact constants: the difference is
// f16's rounding.
double tolerance(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    if (graph.value(ValueId{i}).dtype == DType::f16) return 1e-4;
  }
  return 1e-5;
}

// Binds open dimensions to `open`, then fills inputs from a seed.
std::vector<Tensor> bind_and_fill(Graph& graph, int64_t open) {
  Random random(5);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : *graph.value(id).declared) sizes.push_back(dim.size < 0 ? open : dim.size);
    bind_input(graph, id, Shape(std::span<const int64_t>(sizes)));
    const DType dtype = graph.value(id).dtype;
    Tensor input(dtype, *graph.value(id).shape);
    for (int64_t i = 0; i < input.elements(); ++i) {
      const double value =
          is_float(dtype) ? random.normal() : static_cast<double>(random.integer(0, dtype == DType::u8 ? 255 : 1));
      store_element(dtype, input.raw(), i, value);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<Tensor> run_with(Graph graph, const std::vector<Tensor>& inputs, const PassOptions& options) {
  run_passes(graph, options);
  return interpret(graph, inputs);
}

class Passes : public testing::NetworkTest {};

TEST_P(Passes, ChangeNoResult) {
  Graph graph = network_.load();
  const std::vector<Tensor> inputs = bind_and_fill(graph, 2);
  const std::vector<Tensor> expected = run_with(graph, inputs, {.off = {"all"}, .precision = Precision::fp32});
  const auto expect_same = [&](const PassOptions& options) {
    const std::vector<Tensor> got = run_with(graph, inputs, options);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), expected[i].dtype());
      EXPECT_EQ(got[i].shape(), expected[i].shape());
      // An f16 output is rounded once more, which may differ by up to 2^-11.
      const double limit = got[i].dtype() == DType::f16 ? 5e-4 : tolerance(graph);
      EXPECT_LE(relative_l2(got[i], expected[i]), limit) << graph.outputs()[i].name;
    }
  };
  // Disabling a pass that rewrites nothing must change nothing.
  std::set<std::string> rewrite;
  expect_same({.precision = Precision::fp32, .observe = [&](std::string_view name, const Graph&, int changes) {
                 if (changes > 0) rewrite.insert(std::string(name));
               }});
  EXPECT_GE(rewrite.size(), 1u);
  if (!network_.file.empty()) return;  // one by one only for the small networks, which contain the same patterns
  for (const Pass& pass : all_passes()) {
    if (!pass.optional || !rewrite.contains(std::string(pass.name))) continue;
    SCOPED_TRACE("without " + std::string(pass.name));
    expect_same({.off = {std::string(pass.name)}, .precision = Precision::fp32});
  }
}

// A prepared graph is a graph like any other: it may be stored, changed, and lowered later.
TEST_P(Passes, InTwoHalvesGiveTheSameBits) {
  Graph graph = network_.load();
  const std::vector<Tensor> inputs = bind_and_fill(graph, 2);
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const PassOptions options{.precision = precision};
    const std::vector<Tensor> together = run_with(graph, inputs, options);
    Graph prepared = graph;
    prepare(prepared, options);
    const Graph kept = prepared;  // a copy, as adapters and gradients will need
    Graph lowered = kept;
    lower(lowered, {}, options);
    const std::vector<Tensor> apart = interpret(lowered, inputs);
    ASSERT_EQ(apart.size(), together.size());
    for (size_t i = 0; i < apart.size(); ++i) {
      ASSERT_EQ(apart[i].shape(), together[i].shape());
      EXPECT_EQ(std::memcmp(apart[i].raw(), together[i].raw(), static_cast<size_t>(apart[i].bytes())), 0)
          << graph.outputs()[i].name;
    }
    EXPECT_LE(relative_l2(interpret(kept, inputs)[0], together[0]), precision == Precision::fp32 ? 1e-4 : 1e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Passes, ::testing::ValuesIn(testing::networks()), testing::test_name);

}  // namespace rewrites_test
}  // namespace sparkpilot
