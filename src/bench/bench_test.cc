#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/statistics.h"
#include "bench/inputs.h"
#include "bench/model_bench.h"
#include "bench/op_bench.h"
#include "bench/report.h"
#include "bench/summary.h"

namespace sparkpilot {
namespace {

TEST(Statistics, PercentilesAreNearestRanks) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Statistics s = summarize(samples);
  EXPECT_EQ(s.count, 100);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 100);
  EXPECT_EQ(s.p50, 50);
  EXPECT_EQ(s.p90, 90);
  EXPECT_EQ(s.p99, 99);
}

TEST(Statistics, FewSamples) {
  const double one[] = {7};
  EXPECT_EQ(summarize(one).p99, 7);
  const double ten[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(summarize(ten).p90, 9);
  EXPECT_EQ(summarize(ten).p99, 10);
  EXPECT_EQ(summarize(std::span<const double>()).count, 0);
}

TEST(Summary, CountsWhatIsNotFinite) {
  const Tensor t = Tensor::of<float>(Shape{5}, {1, 3, INFINITY, NAN, 5});
  const TensorSummary s = summarize(t.view());
  EXPECT_EQ(s.not_finite, 2);
  EXPECT_DOUBLE_EQ(s.mean.value_or(0), 3);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 5);
  EXPECT_NEAR(s.deviation.value_or(0), 1.632993, 1e-6);
  EXPECT_FALSE(summarize(Tensor::zeros(DType::f32, Shape{0}).view()).max);
  const Tensor far = Tensor::of<double>(Shape{4}, {1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3});
  EXPECT_NEAR(summarize(far.view()).deviation.value_or(0), std::sqrt(1.25), 1e-6);
  const Tensor same = Tensor::of<float>(Shape{3}, {0.1F, 0.1F, 0.1F});
  EXPECT_EQ(summarize(same.view()).deviation, 0);
  const Tensor none = Tensor::of<float>(Shape{2}, {NAN, INFINITY});
  EXPECT_FALSE(summarize(none.view()).mean);
  EXPECT_EQ(summarize(none.view()).not_finite, 2);
}

TEST(Inputs, DependOnSeedAndName) {
  const auto fill = [](const char* name, uint64_t seed) {
    Tensor t(DType::u8, Shape{4096});
    fill_random(t.view(), name, seed);
    return std::vector<uint8_t>(t.data<uint8_t>().begin(), t.data<uint8_t>().end());
  };
  EXPECT_EQ(fill("img", 1), fill("img", 1));
  EXPECT_NE(fill("img", 1), fill("img", 2));
  EXPECT_NE(fill("img", 1), fill("big_img", 1));
  const auto bytes = fill("img", 1);
  EXPECT_GT(std::set<uint8_t>(bytes.begin(), bytes.end()).size(), 250u);  // the whole range of a pixel
}

TEST(Inputs, OpenDimensionsBecomeOneOrTheBatch) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, std::vector<Dim>{{-1, "batch"}, {-1, "time"}, {3, ""}});
  graph.add_output(x, "y");
  Session session(std::move(graph), {.threads = 1});
  const auto notes = bind_open_dimensions(session, 4);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "input \"x\": [batch, time, 3] taken as [4,1,3]");
  EXPECT_TRUE(bind_open_dimensions(session, 4).empty());
}

TEST(Inputs, ADimensionsNameHasOneSize) {
  Graph graph;
  graph.add_input("states", DType::f32, std::vector<Dim>{{-1, "b"}, {20, ""}});
  graph.add_input("tokens", DType::i64, std::vector<Dim>{{-1, "b"}, {-1, "n"}});
  for (const ValueId id : std::vector<ValueId>(graph.inputs())) graph.add_output(id, graph.value(id).name + "_out");
  Session session(std::move(graph));
  session.set_shape("states", Shape{4, 20});
  bind_open_dimensions(session);
  EXPECT_EQ(session.inputs()[1].shape, (Shape{4, 1}));
}

TEST(Inputs, ABatchThatChangesNothingIsRefused) {
  Graph open, fixed;
  open.add_input("scale", DType::f32, std::vector<Dim>{});
  open.add_input("x", DType::f32, std::vector<Dim>{{-1, "batch"}, {3, ""}});
  fixed.add_input("x", DType::f32, std::vector<Dim>{{1, ""}, {-1, "time"}});
  EXPECT_EQ(session_batch(open, {}, 4), 1);
  EXPECT_EQ(session_batch(fixed, {}, 1), 1);
  EXPECT_EQ(session_batch(fixed, {.dims = {{"time", 5}}}, 4), 4);
  for (const int64_t batch : {0, -1}) EXPECT_THROW(session_batch(open, {}, batch), Error) << batch;
  EXPECT_THROW(session_batch(open, {.dims = {{"batch", 2}}}, 4), Error);
  try {
    session_batch(fixed, {}, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"x\" is [1, time]"), std::string::npos) << error.what();
  }
  try {
    session_batch(Graph(), {}, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no inputs"), std::string::npos) << error.what();
  }
}

TEST(Bench, MissingFileIsNamed) {
  try {
    bench_model("/nowhere/model.onnx");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/model.onnx"), std::string::npos);
  }
}

TEST(Bench, OpsAreTimedByKernel) {
  const OpDef* op = find_op("", "Conv", 26);
  ASSERT_NE(op, nullptr);
  std::set<std::string> kernels;
  for (const OpBench& result : bench_op(*op, 1, 0.5)) {
    EXPECT_GT(result.p50_us, 0) << result.case_name;
    EXPECT_GT(result.flops, 0) << result.case_name;
    kernels.insert(result.kernel);
  }
  EXPECT_EQ(kernels.count("reference"), 1u);
  EXPECT_GE(kernels.size(), 2u);  // and a fast kernel
}

TEST(Report, SumsNodesByOpAndKernel) {
  Profile profile;
  profile.nodes.push_back(
      {.name = "a", .op = "Conv", .kernel = "fast", .shape = "", .calls = 2, .total_ns = 4'000'000});
  profile.nodes.push_back(
      {.name = "b", .op = "Conv", .kernel = "fast", .shape = "", .calls = 2, .total_ns = 2'000'000});
  profile.nodes.push_back({.name = "c", .op = "Add", .kernel = "fast", .shape = "", .calls = 2, .total_ns = 2'000'000});
  profile.nodes.push_back({.name = "view", .op = "Reshape", .kernel = "", .shape = ""});
  const auto times = times_by_op(profile);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].op, "Conv");
  EXPECT_EQ(times[0].nodes, 2);
  EXPECT_DOUBLE_EQ(times[0].mean_ms, 3);
  EXPECT_DOUBLE_EQ(times[0].share, 0.75);
  EXPECT_EQ(to_json(profile).size(), 3u);
}

TEST(Report, SumsNodesByWhyKernelsDeclined) {
  Profile profile;
  const auto node = [&](const char* kernel, std::vector<DeclinedKernel> declined) {
    profile.nodes.push_back({.name = "",
                             .op = "Conv",
                             .kernel = kernel,
                             .declined = std::move(declined),
                             .shape = "",
                             .calls = 1,
                             .total_ns = 1'000'000});
  };
  node("onednn", {});
  node("simd", {{"onednn", "stride 3"}});
  node("simd", {{"onednn", "stride 3"}});
  node("reference", {{"onednn", "stride 3"}, {"simd", "f16 activations"}});
  const auto declined = declined_kernels(profile);
  ASSERT_EQ(declined.size(), 3u);
  EXPECT_EQ(declined[0].kernel, "simd");
  EXPECT_EQ(declined[0].declined, "onednn");
  EXPECT_EQ(declined[0].reason, "stride 3");
  EXPECT_EQ(declined[0].nodes, 2);
  EXPECT_DOUBLE_EQ(declined[0].mean_ms, 2);
  EXPECT_EQ(to_json(profile)[3]["declined"].size(), 2u);
}

TEST(Report, JsonHasNoInfinity) {
  EXPECT_EQ(finite_or_null(0.5), 0.5);
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) EXPECT_TRUE(finite_or_null(value).is_null()) << value;
}

}  // namespace
}  // namespace sparkpilot
