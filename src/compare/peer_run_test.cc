// Peers in comparisons: one that computes what we do, and what is left of a comparison when one fails.
#include "compare/peer_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_files.h"
#include "compare/models.h"
#include "ir/op.h"
#include "onnx/export.h"
#include "onnx/import.h"

namespace sparkpilot::compare {
namespace {

// y = x * factor: tests/peers/peer_fake.py computes y = 1.5 * x, and misbehaves as its provider says.
class ComparePeers : public testing::Test {
 protected:
  Variant ours(float factor) {
    Graph graph;
    graph.opsets[""] = 21;
    Builder b(graph, "n", 21);
    const ValueId x = graph.add_input("x", DType::f32, Shape{2, 8});
    graph.add_output(b.add("Mul", {x, b.scalar(DType::f32, factor)}), "y");
    save_onnx(graph, folder / "model.onnx");
    return {.name = "ours", .file = folder / "model.onnx", .session = {.threads = 1}};
  }
  static Variant peer(Variant variant, const std::string& mode = {}) {
    variant.name = "fake " + mode;
    variant.peer = PeerName{"fake", mode};
    return variant;
  }
  ModelsComparison compare(const std::vector<std::string>& modes, float factor = 1.5f) {
    const Variant first = ours(factor);
    std::vector<Variant> variants{first};
    for (const std::string& mode : modes) variants.push_back(peer(first, mode));
    return compare_models(variants, options);
  }

  TempFolder folder;
  ModelsOptions options{.random = 3,
                        .turns = {.rounds = 5, .round_ms = 0.1, .min_runs = 3},
                        .peers = {.folders = {SPARKPILOT_SOURCE_DIR "/tests/peers"}, .python = "python3"}};
};

TEST_F(ComparePeers, OneThatAgrees) {
  const ModelsComparison c = compare({""});
  ASSERT_EQ(c.variants.size(), 2u);
  const VariantResult& fake = c.variants[1];
  EXPECT_EQ(fake.not_run, "");
  EXPECT_EQ(fake.engine, "Fake 1.0");
  EXPECT_EQ(fake.device, "CPU");
  EXPECT_EQ(fake.precision, "fp32");
  EXPECT_EQ(fake.threads, 1);
  ASSERT_EQ(fake.outputs.size(), 1u);
  EXPECT_EQ(fake.outputs[0].difference.elements, 3 * 16);
  EXPECT_TRUE(fake.outputs[0].difference.equal());
  EXPECT_GE(fake.ms.count, 15);
  EXPECT_EQ(fake.ratio.rounds, 5);
  EXPECT_GT(fake.ratio.median, 1);
  EXPECT_TRUE(fake.layers.empty());
}

TEST_F(ComparePeers, OneThatDiffers) {
  const ModelsComparison c = compare({""}, 1.0f);
  ASSERT_EQ(c.variants[1].outputs.size(), 1u);
  EXPECT_NEAR(c.variants[1].outputs[0].difference.relative_l2, 0.5, 1e-6);
}

// Each loses what it did not do, and the others nothing.
TEST_F(ComparePeers, OnesThatFail) {
  options.peers.run_s = 2;
  options.peers.load_s = 2;
  const ModelsComparison c = compare({"crash", "hang", "refuse", "garbage", "huge", "crash_later", ""});
  ASSERT_EQ(c.variants.size(), 8u);
  const char* const reasons[] = {"the adapter ended at load (exit code 1): RuntimeError: out of device memory",
                                 "no answer to load in 2 s",
                                 "this engine\\x0ahas no device",
                                 "its answer to load is not a JSON object",
                                 "output \"y\": its outputs are larger than",
                                 "the adapter ended at run (exit code 1): Segfault: in a kernel"};
  for (size_t i = 0; i < std::size(reasons); ++i) {
    const VariantResult& fake = c.variants[i + 1];
    EXPECT_EQ(fake.not_run.find(reasons[i]), 0u) << fake.not_run;
    EXPECT_EQ(fake.ms.count, 0) << reasons[i];
    EXPECT_EQ(fake.ratio.rounds, 0);
    EXPECT_TRUE(fake.outputs.empty());
  }
  EXPECT_GE(c.variants[0].ms.count, 15);
  EXPECT_EQ(c.variants[7].not_run, "");
  EXPECT_EQ(c.variants[7].outputs.size(), 1u);
  EXPECT_GE(c.variants[7].ms.count, 15);
}

// The fifth run is the first of the timing: the outputs are compared by then.
TEST_F(ComparePeers, OneThatFailsInTimingKeepsItsOutputs) {
  options.random = 2;
  const ModelsComparison c = compare({"crash_later"});
  EXPECT_EQ(c.variants[1].not_run, "the adapter ended at run (exit code 1): Segfault: in a kernel");
  EXPECT_EQ(c.variants[1].outputs.size(), 1u);
  EXPECT_EQ(c.variants[1].ms.count, 0);
}

TEST_F(ComparePeers, OutputsThatDoNotFit) {
  options.time = false;
  const ModelsComparison c = compare({"shape", "nan", "model"});
  EXPECT_TRUE(c.variants[1].outputs.empty());
  EXPECT_EQ(c.variants[1].not_compared, std::vector<std::string>{"y: [15], the first model's is [2,8]"});
  ASSERT_EQ(c.variants[2].outputs.size(), 1u);
  EXPECT_TRUE(std::isinf(c.variants[2].outputs[0].difference.relative_l2));
  EXPECT_EQ(c.variants[2].outputs[0].difference.not_finite, 3 * 16);
  EXPECT_EQ(c.variants[3].precision, "model");
  EXPECT_EQ(c.variants[3].variant.session.passes.precision, Precision::fp32);
}

TEST_F(ComparePeers, SidesOfABisection) {
  const Variant first = ours(1.0f);
  Session session = open_variant(first, nullptr);
  const Samples samples = load_samples(session, {}, 1, 2);
  const Graph graph = load_onnx(first.file);
  const auto search = [&](const std::string& mode) {
    const Side expected = peer_side_of(peer(first, mode), samples, 1, options.peers), got = side_of(first, samples);
    return bisect(graph, got, expected, {.max_relative_l2 = 1e-4});
  };
  const Bisection found = search("");
  ASSERT_TRUE(found.fault);
  EXPECT_EQ(found.fault->value, "y");
  EXPECT_NEAR(found.fault->difference.relative_l2, 1.0 / 3, 1e-6);
  EXPECT_THROW(search("crash"), Error);
  EXPECT_THROW(search("other_name"), Error);  // no output is in both
}

}  // namespace
}  // namespace sparkpilot::compare
