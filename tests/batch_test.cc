// Networks made for one batch entry run several at once: each entry's result equals that of a separate run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "networks.h"
#include "ops/check.h"

namespace sparkpilot {
namespace batch_test {

constexpr int64_t kBatch = 3;

class Batch : public testing::NetworkTest {};

// Entry `at` of a tensor that holds kBatch entries.
Tensor entry(const ConstView& whole, int64_t at) {
  Tensor out(whole.dtype, whole.shape.with(0, whole.shape[0] / kBatch));
  const auto bytes = static_cast<size_t>(out.bytes());
  std::memcpy(out.raw(), static_cast<const std::byte*>(whole.data) + static_cast<size_t>(at) * bytes, bytes);
  return out;
}

TEST_P(Batch, EntriesAreRuns) {
  const Graph graph = network_.load();
  for (const ValueId input : graph.inputs()) {
    const std::vector<Dim> dims = graph.value(input).declared.value_or(std::vector<Dim>{});
    if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.size < 0; })) {
      GTEST_SKIP() << "an input has open dimensions, which take a batch themselves";
    }
  }
  Session together(graph, {.threads = 2, .batch = kBatch}), alone(graph, {.threads = 2});
  testing::fill_inputs(together, 7);
  together.run();
  for (int64_t at = 0; at < kBatch; ++at) {
    for (const TensorInfo& info : std::vector<TensorInfo>(alone.inputs())) {
      const View whole = together.input(info.name);
      const bool shared = whole.shape == *info.shape;
      if (shared) alone.set_input(info.name, whole);
      else alone.set_input(info.name, entry(whole, at).view());
    }
    alone.run();
    for (const TensorInfo& info : alone.outputs()) {
      const ConstView expected = alone.output(info.name), got = together.output(info.name);
      ASSERT_EQ(got.shape[0], expected.shape[0] * kBatch) << info.name;
      Tensor own(expected.dtype, expected.shape);
      std::memcpy(own.raw(), expected.data, static_cast<size_t>(expected.bytes()));
      EXPECT_LE(relative_l2(entry(got, at), own), 1e-3) << info.name << ", entry " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Batch, ::testing::ValuesIn(testing::networks()), testing::test_name);

}  // namespace batch_test
}  // namespace sparkpilot
