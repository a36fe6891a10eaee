// Every network with all passes, with each pass off, and with none: the same results.
#include "passes/pass.h"

#include <gtest/gtest.h>

#include "ir/infer.h"
#include "ir/interpret.h"
#include "networks.h"
#include "ops/check.h"

namespace sparkpilot {
namespace {

// Relative L2. A GELU whose constants are stored in f16 becomes one with the exact constants: f16's rounding.
double tolerance(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    if (graph.value(ValueId{i}).dtype == DType::f16) return 1e-4;
  }
  return 1e-5;
}

// Open dimensions become `open`; then inputs by seed.
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

TEST(Passes, ChangeNoResultOfAnyNetwork) {
  for (const testing::Network& network : testing::networks()) {
    Graph graph = network.load();
    const std::vector<Tensor> inputs = bind_and_fill(graph, 2);
    const std::vector<Tensor> expected = run_with(graph, inputs, {.off = {"all"}, .precision = Precision::fp32});
    std::vector<std::set<std::string>> choices{{}};
    for (const Pass& pass : all_passes()) {
      if (pass.optional) choices.push_back({std::string(pass.name)});
    }
    for (const std::set<std::string>& off : choices) {
      SCOPED_TRACE(network.name + (off.empty() ? " with all passes" : " without " + *off.begin()));
      const std::vector<Tensor> got = run_with(graph, inputs, {.off = off, .precision = Precision::fp32});
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].dtype(), expected[i].dtype());
        EXPECT_EQ(got[i].shape(), expected[i].shape());
        // An output in f16 is rounded once more: by up to 2^-11 where it falls the other way.
        const double limit = got[i].dtype() == DType::f16 ? 5e-4 : tolerance(graph);
        EXPECT_LE(relative_l2(got[i], expected[i]), limit) << graph.outputs()[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot
