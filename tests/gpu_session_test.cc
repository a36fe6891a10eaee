// Sessions on the emulated GPU: the same results as on the CPU, from one recording, with the copies that the memory
// needs and no others.
#include <cmath>
#include <cstring>
#include <thread>

#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace {

#define NEEDS_IMAGES() \
  if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code"

class GpuSession : public GpuTest {};

constexpr int64_t kRows = 3, kSize = 50;

// y = softmax(x); with `in_between`, an op that no GPU has a kernel for stands between two of them.
Graph softmax_graph(bool in_between) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{kRows, kSize});
  Builder b(graph);
  ValueId y = b.add("Softmax", {x});
  if (in_between) y = b.add("Softmax", {b.add("Hardmax", {y})});
  graph.add_output(y, "y");
  return graph;
}

std::vector<float> numbers(float first) {
  std::vector<float> out(kRows * kSize);
  for (size_t i = 0; i < out.size(); ++i) out[i] = 3 * std::sin(first + static_cast<float>(i));
  return out;
}

std::vector<float> run(Session& session, const std::vector<float>& x) {
  std::ranges::copy(x, session.input<float>("x").begin());
  session.run();
  const auto y = session.output<float>("y");
  return {y.begin(), y.end()};
}

void expect_near(const std::vector<float>& y, const std::vector<float>& expected) {
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-6f) << i;
}

TEST_F(GpuSession, ComputesAsTheCpuWithTheCopiesThatItsMemoryNeeds) {
  NEEDS_IMAGES();
  Session cpu(softmax_graph(false), {.device = "cpu", .threads = 1});
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    Session gpu(softmax_graph(false), {.device = "cuda", .threads = 1});
    EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
    for (const float first : {1.0f, 2.0f, 3.0f}) expect_near(run(gpu, numbers(first)), run(cpu, numbers(first)));
    const bool unified = std::string(name) == "gb10";
    const Session::Transfers transfers = gpu.transfers();
    EXPECT_EQ(transfers.launches, 1);
    EXPECT_EQ(transfers.to_gpu, unified ? 0 : 1);
    EXPECT_EQ(transfers.to_host, unified ? 0 : 1);
    EXPECT_EQ(transfers.bytes_to_gpu, unified ? 0 : kRows * kSize * 4);
    // A run is one launch of the recording and one wait; the plan waited once, for what is constant.
    EXPECT_EQ(driver_count("call cuGraphLaunch"), 3);
    EXPECT_EQ(driver_count("call cuStreamSynchronize"), 3);
    EXPECT_EQ(driver_count("call cuLaunchKernel"), 1);
    EXPECT_EQ(driver_count("kernel softmax_f32"), 3);
    EXPECT_EQ(driver_count("call cuMemAlloc_v2") > 0, !unified);
  }
}

TEST_F(GpuSession, WhatHasNoKernelRunsOnTheCpuAndIsSaidOnce) {
  NEEDS_IMAGES();
  Session cpu(softmax_graph(true), {.device = "cpu", .threads = 1});
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    std::vector<std::string> said;
    Session gpu(softmax_graph(true),
                {.device = "cuda:0", .threads = 1, .say = [&](const std::string& line) { said.push_back(line); }});
    EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>{"Hardmax"});
    EXPECT_EQ(said, std::vector<std::string>{"1 nodes run on the CPU, the first is Hardmax"});
    for (const float first : {1.0f, 2.0f}) expect_near(run(gpu, numbers(first)), run(cpu, numbers(first)));
    EXPECT_EQ(gpu.transfers().to_gpu, std::string(name) == "gb10" ? 0 : 2);
    EXPECT_EQ(gpu.transfers().to_host, std::string(name) == "gb10" ? 0 : 2);
    EXPECT_EQ(driver_count("call cuGraphLaunch"), 4);  // two stretches
  }
}

TEST_F(GpuSession, StatesGoFromOneRunToTheNext) {
  NEEDS_IMAGES();
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    std::vector<std::vector<float>> results[2];
    for (const char* device : {"cpu", "cuda"}) {
      Graph graph = softmax_graph(false);
      const ValueId state = graph.add_state(Tensor::zeros(DType::f32, Shape{kRows, kSize}), "memory");
      Builder b(graph);
      const ValueId next = b.add("Softmax", {b.add("Hardmax", {b.add("Softmax", {state})})});
      graph.set_next(state, next);
      graph.add_output(b.add("Identity", {state}), "was");
      Session session(std::move(graph), {.device = device, .threads = 1});
      auto& mine = results[std::string(device) == "cuda"];
      for (int i = 0; i < 3; ++i) {
        run(session, numbers(static_cast<float>(i)));
        const auto was = session.output<float>("was");
        mine.emplace_back(was.begin(), was.end());
      }
      session.reset_states();
      run(session, numbers(0));
      const auto was = session.output<float>("was");
      mine.emplace_back(was.begin(), was.end());
    }
    for (size_t i = 0; i < results[0].size(); ++i) expect_near(results[1][i], results[0][i]);
  }
}

TEST_F(GpuSession, AProfileTimesEachStepOnTheGpu) {
  NEEDS_IMAGES();
  Session gpu(softmax_graph(false), {.device = "cuda", .threads = 1, .profile = true});
  run(gpu, numbers(1));
  run(gpu, numbers(2));
  const Profile profile = gpu.profile();
  ASSERT_EQ(profile.nodes.size(), 1u);
  EXPECT_EQ(profile.nodes[0].kernel, "rows");
  EXPECT_EQ(profile.nodes[0].calls, 2);
  EXPECT_GT(profile.nodes[0].total_ns, 0);
  EXPECT_EQ(driver_count("call cuGraphLaunch"), 0);
}

TEST_F(GpuSession, SeveralSessionsAndThreads) {
  NEEDS_IMAGES();
  Session cpu(softmax_graph(false), {.device = "cpu", .threads = 1});
  std::vector<std::vector<float>> results(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Session gpu(softmax_graph(false), {.device = "cuda", .threads = 1});
      for (int i = 0; i < 5; ++i) results[static_cast<size_t>(t)] = run(gpu, numbers(static_cast<float>(t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 2; ++t) expect_near(results[static_cast<size_t>(t)], run(cpu, numbers(static_cast<float>(t))));
}

TEST_F(GpuSession, DevicesThatAreNotThereAreRefused) {
  EXPECT_NE(error_of([] { Session session(softmax_graph(false), {.device = "cuda:3"}); }).find("there is no GPU 3"),
            std::string::npos);
  try {
    Session session(softmax_graph(false), {.device = "cuda:x"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_STREQ(error.what(), "device: expected auto, cpu, cuda or cuda:N, got \"cuda:x\"");
  }
}

// In loading, running and at the end: an Error of kind device, nothing held, and a session on the CPU goes on as
// before.
TEST_F(GpuSession, EachDriverCallMayFail) {
  NEEDS_IMAGES();
  Session cpu(softmax_graph(true), {.device = "cpu", .threads = 1});
  const auto expected = run(cpu, numbers(1));
  std::vector<std::string> names;
#define SPARKPILOT_NAME(name, parameters) names.push_back(#name);
  SPARKPILOT_CUDA_FUNCTIONS(SPARKPILOT_NAME)
  int failed = 0;
  for (const char* gpu : {"gb10", "rtx4090"}) {
    for (const std::string& name : names) {
      for (const char* code : {"2", "700"}) {
        for (int nth = 1; nth <= 3; ++nth) {
          emulate(gpu, (name + ":" + std::to_string(nth + (name == "cuInit")) + ":" + code).c_str());
          const std::string error = error_of([&] {
            Session session(softmax_graph(true), {.device = "cuda", .threads = 1});
            for (int i = 0; i < 2; ++i) expect_near(run(session, numbers(1)), expected);
          });
          failed += !error.empty();
          const bool is_end = name.find("Free") != std::string::npos || name.find("Destroy") != std::string::npos ||
                              name.find("Unload") != std::string::npos || name.find("Release") != std::string::npos ||
                              name == "cuCtxSetCurrent";
          if (std::string(code) == "2" && !is_end) {
            EXPECT_EQ(held_by_driver(), kNothingHeld) << gpu << " " << name << " " << nth << " " << error;
          }
        }
      }
    }
  }
  EXPECT_GT(failed, 100);
  expect_near(run(cpu, numbers(1)), expected);
  unsetenv("EMULATED_CUDA_FAIL");
  emulate("gb10");
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) { return sparkpilot::run_with_emulated_driver(argc, argv); }
