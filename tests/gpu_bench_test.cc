// bench's figures of a GPU, on the emulated one: its times mean nothing, that they are there and agree does.
#include <pthread.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/test_files.h"
#include "bench/model_bench.h"
#include "bench/report.h"
#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot {
namespace gpu_bench_test {

class GpuBench : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    NEEDS_IMAGES();
  }
};

TEST_F(GpuBench, Limits) {
  for (const char* name : {"gb10", "wsl2"}) {
    emulate(name);
    const std::shared_ptr<GpuDevice> gpu = GpuDevice::open(0);
    const GpuLimits limits = measure_gpu_limits(*gpu);
    ASSERT_EQ(limits.peak.units.size(), 3U);
    for (const UnitPeak& unit : limits.peak.units) EXPECT_GT(unit.flops_per_second, 0) << unit.name;
    EXPECT_EQ(limits.peak.unit(Arithmetic::f16).name, "mma fp16");
    ASSERT_EQ(limits.peak.levels.size(), 2U);
    EXPECT_GT(limits.peak.levels[1].reads_per_second, 0);
    // This GPU is too slow for as many bytes as its cache holds, so the cache is not measured, nor said to be.
    EXPECT_EQ(limits.peak.levels[0].reads_per_second, 0);
    EXPECT_EQ(limits.peak.levels[0].bytes_per_second, 0);
    EXPECT_EQ(to_json(limits.peak)["levels"].size(), 1U);
    EXPECT_EQ(limits.peak.levels[0].bytes, static_cast<double>(gpu->facts().l2_bytes));
    EXPECT_TRUE(std::isinf(limits.peak.levels[1].bytes));
    EXPECT_GT(limits.node_ns, 0);
    EXPECT_GT(limits.run_us, 0);
    EXPECT_EQ(limits.to_gpu > 0, !gpu->unified());
    EXPECT_EQ(limits.to_host > 0, !gpu->unified());
    if (!gpu->unified()) continue;
    // A second measurement never makes a limit smaller.
    const GpuLimits again = measure_gpu_limits(*gpu);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_GE(again.peak.units[i].flops_per_second, limits.peak.units[i].flops_per_second);
    EXPECT_LE(again.node_ns, limits.node_ns);
  }
}

// What is read to measure memory must not be in the cache, and what is read to measure the cache must.
TEST(GpuLimitBytes, AreFourTimesTheCacheAndHalfOfIt) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  for (const int64_t l2 : {2, 6, 24, 50, 72, 96, 126}) {
    for (const int64_t available : {8'000, 80'000}) {
      const LimitBytes bytes = limit_bytes(l2 * kMiB, available * kMiB);
      EXPECT_EQ(bytes.memory, 4 * l2 * kMiB);
      EXPECT_EQ(bytes.l2, l2 * kMiB / 2);
    }
    // With too little memory the cache is left out, and a half of the memory is the most, with the copy's.
    const LimitBytes few = limit_bytes(l2 * kMiB, l2 * kMiB);
    EXPECT_LE(few.memory + few.memory / 2, std::max(l2 * kMiB / 2, 3 * kMiB / 2)) << l2;
    EXPECT_EQ(few.l2 > 0, l2 == 2) << l2;
  }
}

// y = relu(relu(x) weights): a product, and no more. With `open`, of as many rows as the caller wants.
std::filesystem::path small_model(bool open = false) {
  Graph graph;
  Builder b(graph);
  Tensor weights = Tensor::zeros(DType::f32, {64, 48});
  for (float& value : weights.data<float>()) value = 0.01f;
  const ValueId x = open ? graph.add_input("x", DType::f32, std::vector<Dim>{{.symbol = "rows"}, {.size = 64}})
                         : b.input("x", DType::f32, {1, 64});
  graph.add_output(b.add("Relu", {b.add("MatMul", {b.add("Relu", {x}), b.constant(weights)})}), "y");
  const std::filesystem::path file = ::testing::TempDir() + "gpu_bench_" + std::to_string(getpid()) + ".onnx";
  save_onnx(graph, file);
  return file;
}

TEST_F(GpuBench, SaysWhereTheTimeOfARunGoes) {
  const std::filesystem::path file = small_model();
  for (const char* name : {"gb10", "wsl2"}) {
    emulate(name);
    const bool unified = std::string(name) == "gb10";
    BenchOptions options{.session = {.device = "cuda"}, .runs = 5, .warmup = 1, .streams = 2, .profile = true};
    const ModelBench bench = bench_model(file, options);
    ASSERT_TRUE(bench.gpu);
    const GpuFigures& gpu = *bench.gpu;
    EXPECT_EQ(gpu.facts.unified, unified);
    EXPECT_GT(gpu.a_run.launches, 0);
    EXPECT_EQ(gpu.compute.count, 5);
    EXPECT_GT(gpu.compute.min, 0);
    EXPECT_GT(gpu.enqueue.min, 0);
    EXPECT_EQ(gpu.to_gpu.min > 0, !unified);
    EXPECT_EQ(gpu.to_host.min > 0, !unified);
    EXPECT_EQ(gpu.streams, 2);
    EXPECT_EQ(gpu.stream_ms.count, 10);
    EXPECT_GT(gpu.stream_frames_per_second, 0);
    EXPECT_TRUE(bench.trials.empty());  // numbers of threads are not tried
    EXPECT_EQ(bench.peak.units.at(0).name, "fp32");
    EXPECT_GT(bench.roofline_share, 0);
    int64_t launches = 0;
    for (const NodeProfile& node : bench.profile.nodes) {
      launches += std::ssize(node.launches);
      for (const LaunchProfile& launch : node.launches) {
        EXPECT_FALSE(launch.kernel.empty());
        EXPECT_GT(launch.blocks, 0) << launch.kernel;
        EXPECT_GT(launch.threads, 0) << launch.kernel;
      }
    }
    EXPECT_EQ(launches, gpu.a_run.launches);
    const auto json = to_json(bench, options);
    EXPECT_EQ(json["gpu"]["compute_ms"]["p50"], gpu.compute.p50);
    EXPECT_EQ(json["gpu"]["streams"]["count"], 2);
    EXPECT_FALSE(json["profile"].at(0)["launches"].empty());
  }
  const BenchOptions on_cpu{.session = {.device = "cpu"}, .threads = 1, .runs = 1, .warmup = 0};
  EXPECT_FALSE(bench_model(file, on_cpu).gpu);
  std::filesystem::remove(file);
}

// A node without a kernel for the GPU is not held against the GPU's limits, and does not count in the model's share.
TEST_F(GpuBench, NodesLeftToTheCpuHaveNoShare) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {256, 256});
  graph.add_output(b.add("Softmax", {b.add("Hardmax", {b.add("Softmax", {x})})}), "y");
  const TempFolder folder;
  const std::filesystem::path file = folder.file("hardmax.onnx");
  save_onnx(graph, file);
  const BenchOptions options{.session = {.device = "cuda"}, .runs = 5, .warmup = 0, .profile = true};
  const ModelBench bench = bench_model(file, options);
  double limit_ns = 0, on_gpu_ns = 0;
  int on_cpu = 0;
  for (const NodeProfile& node : bench.profile.nodes) {
    const bool has_share = node.op == "Softmax";
    on_cpu += !has_share;
    EXPECT_EQ(node.roofline_share > 0, has_share) << node.op;
    EXPECT_EQ(node.roofline_limit.empty(), !has_share) << node.op << " " << node.roofline_limit;
    limit_ns += node.roofline_share * node.mean_ns();
    on_gpu_ns += has_share ? node.mean_ns() : 0;
  }
  EXPECT_EQ(on_cpu, 1);
  EXPECT_NEAR(bench.roofline_share, limit_ns / on_gpu_ns, 1e-9);
  const auto json = to_json(bench, options)["profile"];
  ASSERT_EQ(json.size(), 3U);
  EXPECT_TRUE(json[1]["roofline_share"].is_null()) << json[1];
  EXPECT_TRUE(json[0]["roofline_share"].is_number()) << json[0];
}

// Refused before anything is timed: auto takes the CPU, or too many are asked for.
TEST_F(GpuBench, StreamsAreForAGpu) {
  const std::filesystem::path file = small_model();
  bool timed = false;
  const auto refusal = [&](BenchOptions options) -> std::string {
    options.progress = [&](double) { timed = true; };
    options.runs = 100'000;  // of which some would be told to `progress`
    options.threads = 1;
    try {
      bench_model(file, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      return error.what();
    }
    return "";
  };
  const int64_t no_memory = int64_t{900'000'000'000'000};
  const SessionOptions left_to_cpu{.device = "auto", .memory_reserve = no_memory, .tune = Tune::off};
  EXPECT_NE(refusal({.session = left_to_cpu, .streams = 2}).find("several run on a GPU only"), std::string::npos);
  EXPECT_NE(refusal({.session = {.device = "cuda"}, .streams = 65}).find("expected 1 to 64, got 65"),
            std::string::npos);
  EXPECT_FALSE(timed);
  std::filesystem::remove(file);
}

// Address space for the stacks of two threads and a half: those that started do not wait for the one that cannot.
TEST_F(GpuBench, StreamsWithoutThreadsForThem) {
  const std::filesystem::path file = small_model();
  std::vector<Session> sessions;
  for (int i = 0; i < 4; ++i) {
    sessions.emplace_back(load_onnx(file), SessionOptions{.device = "cuda", .threads = 1});
    sessions.back().run();
  }
  const long page = sysconf(_SC_PAGESIZE);
  constexpr size_t kStack = size_t{1} << 30;
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  pthread_attr_t stacks, before;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&stacks);
  pthread_attr_setstacksize(&stacks, kStack);
  rlimit unlimited{};
  getrlimit(RLIMIT_AS, &unlimited);
  rlimit little = unlimited;
  little.rlim_cur = static_cast<rlim_t>(pages * page) + kStack * 5 / 2;
  pthread_setattr_default_np(&stacks);
  setrlimit(RLIMIT_AS, &little);
  GpuFigures figures;
  std::string refused;
  try {
    measure_streams(sessions, 1, 1, 1, figures);
  } catch (const Error& error) {
    refused = error.what();
  }
  setrlimit(RLIMIT_AS, &unlimited);
  pthread_setattr_default_np(&before);
  pthread_attr_destroy(&stacks);
  EXPECT_NE(refused.find("lets only 2 of 4 threads start"), std::string::npos) << refused;
  sessions.clear();
  std::filesystem::remove(file);
}

// Whether there is memory for a model shows when its sizes are bound: also where the self-check is known to have
// passed.
TEST_F(GpuBench, AutoTakesTheCpuWhereTheMemoryIsTooSmall) {
  const TempFolder folder;
  const std::filesystem::path file = small_model(true);
  std::vector<std::string> said;
  BenchOptions options{.session = {.device = "auto",
                                   .tuning_file = folder.file("tuning.json"),
                                   .tune = Tune::off,
                                   .say = [&](const std::string& line) { said.push_back(line); }},
                       .threads = 1,
                       .runs = 1,
                       .warmup = 0};
  EXPECT_TRUE(bench_model(file, options).gpu);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("the self-check has passed"), std::string::npos) << said[0];
  said.clear();
  options.session.memory_reserve = int64_t{900'000'000'000'000};
  EXPECT_FALSE(bench_model(file, options).gpu);
  ASSERT_FALSE(said.empty());
  EXPECT_NE(said.back().find("the model runs on the CPU"), std::string::npos) << said.back();
  std::filesystem::remove(file);
}

}  // namespace gpu_bench_test
}  // namespace sparkpilot
