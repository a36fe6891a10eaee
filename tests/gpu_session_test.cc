// Sessions on the emulated GPU: the same results as on the CPU, from one recording, with the copies that the memory
// needs and no others.
#include <array>
#include <cstring>
#include <thread>

#include "gpu_sessions.h"
#include "ir/interpret.h"
#include "passes/precision.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace gpu_session_test {

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
    EXPECT_EQ(driver_count("call cuLaunchKernelEx"), 1);
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
    EXPECT_EQ(said, std::vector<std::string>{"1 node runs on the CPU: Hardmax"});
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

TEST_F(GpuSession, StatesStayOnTheGpuUntilTheyAreAskedFor) {
  NEEDS_IMAGES();
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    const bool unified = std::string(name) == "gb10";
    Session cpu(accumulating_graph(), {.device = "cpu", .threads = 1}), gpu(accumulating_graph(), {.device = "cuda"});
    const auto both = [&](float first) {
      for (Session* const session : {&cpu, &gpu}) {
        std::ranges::copy(numbers(first), session->input<float>("w").begin());
        run(*session, numbers(first + 1));
      }
      for (const char* output : {"y", "z"}) {
        const auto a = cpu.output<float>(output), b = gpu.output<float>(output);
        expect_near({b.begin(), b.end()}, {a.begin(), a.end()});
      }
    };
    for (const float first : {1.0f, 2.0f, 3.0f}) both(first);
    Session::Transfers transfers = gpu.transfers();
    EXPECT_EQ(transfers.to_gpu, unified ? 0 : 1);   // both inputs
    EXPECT_EQ(transfers.to_host, unified ? 0 : 1);  // both outputs
    // The recording has one, which each run repeats; the three states were sent before the first.
    EXPECT_EQ(driver_count("call cuMemcpyHtoDAsync_v2"), unified ? 0 : 1 + 3);
    // Reads and writes by the caller, through memory that it keeps.
    const View sum = gpu.state("sum"), expected = cpu.state("sum");
    EXPECT_NEAR(sum.as<float>()[7], expected.as<float>()[7], 1e-6f);
    for (const View& state : {sum, expected}) state.as<float>()[7] = 100;
    for (const View& state : {gpu.state("fixed"), cpu.state("fixed")}) state.as<float>()[9] = 50;
    both(4);
    EXPECT_GE(sum.as<float>()[7], 100);
    EXPECT_NEAR(sum.as<float>()[7], expected.as<float>()[7], 1e-4f);
    for (const View& state : {sum, expected}) state.as<float>()[7] = -5;
    both(5);
    EXPECT_LT(gpu.output<float>("y")[7], 0);
    EXPECT_GT(gpu.output<float>("y")[9], 49);
    for (Session* const session : {&cpu, &gpu}) session->reset_states();
    both(6);
    EXPECT_LT(gpu.output<float>("y")[9], 40);
  }
}

// The CPU refuses an index out of range; a GPU, which cannot, leaves that update out.
TEST_F(GpuSession, UpdatesOutOfRangeAreLeftOut) {
  NEEDS_IMAGES();
  const auto scatter = [](const char* reduction, bool constant) {
    Graph out;
    const ValueId x = out.add_input("x", DType::f32, Shape{kRows, kSize});
    const Tensor tuples = Tensor::of<int64_t>({2, 1}, {1, -kRows - 1});
    const ValueId at = constant ? out.add_constant(tuples) : out.add_input("at", DType::i64, Shape{2, 1}),
                  ones = out.add_constant(Tensor::of<float>({2, kSize}, std::vector<float>(2 * kSize, 1)));
    Builder b(out);
    out.add_output(b.add("ScatterND", {x, at, ones}, {{"reduction", std::string(reduction)}}), "y");
    return out;
  };
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    Session session(scatter("add", false), {.device = "cuda"});
    EXPECT_EQ(session.nodes_on_cpu(), std::vector<std::string>());
    const auto at = session.input<int64_t>("at");
    at[0] = 1, at[1] = -kRows - 1;
    std::vector<float> expected = numbers(1);
    for (size_t i = kSize; i < 2 * kSize; ++i) expected[i] += 1;
    expect_near(run(session, numbers(1)), expected);
    EXPECT_EQ(Session(scatter("mul", false), {.device = "cuda"}).nodes_on_cpu(),
              std::vector<std::string>{"ScatterND (reduction mul)"});
    EXPECT_EQ(Session(scatter("add", true), {.device = "cuda"}).nodes_on_cpu(),
              std::vector<std::string>{"ScatterND (an index out of range)"});
  }
}

// A run that fails on the processor leaves states as they were, also those that the GPU computes.
TEST_F(GpuSession, AFailedRunLeavesTheStates) {
  NEEDS_IMAGES();
  const auto graph = [] {
    Graph out;
    const ValueId x = out.add_input("x", DType::f32, Shape{kRows, kSize}),
                  at = out.add_input("at", DType::i64, Shape{1, 1}),
                  last = out.add_state(Tensor::zeros(DType::f32, Shape{kRows, kSize}), "last");
    const ValueId one = out.add_constant(Tensor::of<float>({1, 1}, {1.0f}));
    Builder b(out);
    const ValueId soft = b.add("Softmax", {x});
    out.add_output(b.add("ScatterElements", {b.add("Softmax", {b.add("Mul", {last, last})}), at, one}), "y");
    out.set_next(last, soft);
    return out;
  };
  std::vector<float> expected;
  for (const char* device : {"cpu", "gb10", "rtx4090"}) {
    if (std::string(device) != "cpu") emulate(device);
    Session session(graph(), {.device = std::string(device) == "cpu" ? "cpu" : "cuda", .threads = 1});
    const auto with = [&](int64_t at, float first) {
      session.input<int64_t>("at")[0] = at;
      return run(session, numbers(first));
    };
    with(0, 1);
    EXPECT_THROW(with(1000, 2), Error);
    const std::vector<float> y = with(0, 3);
    if (expected.empty()) expected = y;
    expect_near(y, expected);
  }
}

// Two sessions that share their states run in turns, each on what the other left.
TEST_F(GpuSession, SharedStates) {
  NEEDS_IMAGES();
  emulate("rtx4090");
  const auto turns = [&](const char* device) {
    const auto store = std::make_shared<StateStore>();
    Session one(accumulating_graph(), {.device = device, .states = store}),
        two(accumulating_graph(), {.device = device, .states = store});
    std::vector<float> out;
    for (int i = 0; i < 4; ++i) out = run(i % 2 ? two : one, numbers(static_cast<float>(i)));
    return out;
  };
  expect_near(turns("cuda"), turns("cpu"));
}

// The same without a copy of states between them; the caller sees and changes them where it asks to.
TEST_F(GpuSession, SharedStatesThatStayOnTheGpu) {
  NEEDS_IMAGES();
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    const bool unified = std::string(name) == "gb10";
    const auto turns = [&](const char* device) {
      const auto store = std::make_shared<StateStore>();
      store->stay_on_gpu = true;
      Session one(accumulating_graph(), {.device = device, .states = store}),
          two(accumulating_graph(), {.device = device, .states = store});
      std::vector<float> out;
      for (int i = 0; i < 4; ++i) out = run(i % 2 ? two : one, numbers(static_cast<float>(i)));
      if (std::string(device) == "cuda") {
        // Each session's recording has one, and the three states were sent before the first run.
        EXPECT_EQ(driver_count("call cuMemcpyHtoDAsync_v2"), unified ? 0 : 2 + 3);
        EXPECT_EQ(driver_count("call cuMemcpyDtoHAsync_v2"), unified ? 0 : 2);
      }
      const auto contents = [&](const char* state) {
        const auto data = store->show(state).data<float>();
        out.insert(out.end(), data.begin(), data.end());
      };
      contents("sum");
      store->at("fixed").data<float>()[3] = 7;
      store->show("fixed");
      store->at("fixed").data<float>()[4] = 8;
      for (const float each : run(one, numbers(9))) out.push_back(each);
      store->clear("sum");
      store->clear("fixed");
      for (const float each : run(two, numbers(9))) out.push_back(each);
      contents("last");
      EXPECT_THROW(store->show("none"), Error);
      return out;
    };
    const std::vector<float> on_gpu = turns("cuda");
    expect_near(on_gpu, turns("cpu"));
  }
}

// States that are parts of one piece of memory are so on the GPU: what one session writes to a part another reads in
// the whole.
TEST_F(GpuSession, StatesThatShareMemory) {
  NEEDS_IMAGES();
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    const auto store = std::make_shared<StateStore>();
    store->stay_on_gpu = true;
    const auto gpu = GpuDevice::open(0);
    const int64_t bytes = kRows * kSize * 4, gap = (bytes + 63) / 64 * 64;
    const auto memory = gpu->allocate(2 * gap, gpu->shared_place());
    std::memset(memory->data(), 0, static_cast<size_t>(2 * gap));
    const Shape shape{kRows, kSize};
    store->emplace("first", Tensor(DType::f32, shape, memory, 0));
    store->emplace("second", Tensor(DType::f32, shape, memory, gap));
    store->emplace("both", Tensor(DType::f32, Shape{2 * gap / 4}, memory, 0));
    const auto writer = [&](std::initializer_list<const char*> states) {
      Graph graph;
      Builder b(graph);
      const ValueId y = b.add("Softmax", {graph.add_input("x", DType::f32, shape)});
      for (const char* state : states) graph.set_next(graph.add_state(store->at(state), state, false), y);
      graph.add_output(b.add("ReduceSum", {y}, {{"keepdims", int64_t{0}}}), "y");
      graph.opsets[""] = 23;
      return Session(std::move(graph), {.device = "cuda", .states = store});
    };
    Graph graph;
    const ValueId both = graph.add_state(store->at("both"), "both", false);
    graph.set_next(both, both);
    Builder b(graph);
    graph.add_output(b.add("ReduceSum", {both}, {{"keepdims", int64_t{0}}}), "y");
    graph.opsets[""] = 23;
    Session first = writer({"first"}), second = writer({"second"}), same = writer({"first", "second"}),
            sum(std::move(graph), {.device = "cuda", .states = store});
    EXPECT_EQ(sum.nodes_on_cpu(), std::vector<std::string>());
    run(first, numbers(1));
    sum.run();
    EXPECT_NEAR(sum.output<float>("y")[0], kRows, 1e-4);  // a softmax's rows have the sum 1
    run(second, numbers(2));
    sum.run();
    EXPECT_NEAR(sum.output<float>("y")[0], 2 * kRows, 1e-4);
    store->show("second");
    store->at("second").data<float>()[1] += 5;
    sum.run();
    EXPECT_NEAR(sum.output<float>("y")[0], 2 * kRows + 5, 1e-4);
    store->clear("first");
    sum.run();
    EXPECT_NEAR(sum.output<float>("y")[0], kRows + 5, 1e-4);
    run(same, numbers(3));
    sum.run();
    EXPECT_NEAR(sum.output<float>("y")[0], 2 * kRows, 1e-4);
  }
}

TEST_F(GpuSession, ALoadWaitsOnceAndReadsTheFreeMemoryAFewTimes) {
  NEEDS_IMAGES();
  emulate("rtx4090");
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{kRows, kSize});
  Builder b(graph);
  ValueId y = x;
  for (int i = 0; i < 20; ++i) {
    std::vector<float> weights = numbers(static_cast<float>(i));
    Tensor tensor(DType::f32, Shape{kRows, kSize});
    std::ranges::copy(weights, tensor.data<float>().begin());
    y = b.add("Softmax", {b.add("Add", {y, graph.add_constant(tensor)})});
  }
  graph.add_output(y, "y");
  Session gpu(std::move(graph), {.device = "cuda"});
  EXPECT_EQ(driver_count("call cuStreamSynchronize"), 1);
  EXPECT_LE(driver_count("call cuMemGetInfo_v2"), 4);
  EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
}

TEST_F(GpuSession, MemoryIsRefusedBeforeAnythingLargeIsAllocated) {
  NEEDS_IMAGES();
  for (const char* name : {"gb10", "rtx4090"}) {
    emulate(name);
    const std::string error =
        error_of([] { Session session(softmax_graph(false), {.device = "cuda", .memory_reserve = int64_t{1} << 50}); });
    EXPECT_NE(error.find("are needed at least, for weights (0.000 GB) and activations (0.000 GB) and 0.00 GB can be "
                         "taken (1125899.91 GB are kept for the system)"),
              std::string::npos)
        << error;
    EXPECT_EQ(driver_count("call cuMemAlloc_v2") + driver_count("call cuMemAllocManaged"), 0);
  }
}

// Views and what is computed in place need no memory besides their inputs'.
TEST_F(GpuSession, ModelsThatJustFitAreNotRefused) {
  NEEDS_IMAGES();
  constexpr int64_t kMegabytes = 40;
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{kMegabytes * 250, 1000});
  Builder b(graph);
  const ValueId shape = graph.add_constant(Tensor::of<int64_t>({2}, {kMegabytes * 500, 500}));
  graph.add_output(b.add("ReduceMax", {b.add("Reshape", {x, shape})}), "y");
  setenv("EMULATED_CUDA_MEMORY", std::to_string((kMegabytes + 10) * 1000000).c_str(), 1);
  emulate("rtx4090");
  Session session(std::move(graph), {.device = "cuda", .threads = 1});
  session.input<float>("x")[1234567] = 5;
  session.run();
  EXPECT_EQ(session.output<float>("y")[0], 5);
  unsetenv("EMULATED_CUDA_MEMORY");
}

TEST_F(GpuSession, ANegativeReserveIsRefused) {
  EXPECT_THROW(Session(softmax_graph(false), {.memory_reserve = -1}), Error);
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
  EXPECT_EQ(driver_count("call cuGraphLaunch"), 2);
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

// An inverted bottleneck of which one stage has a weight of NaN and one of infinity.
Graph bottleneck_with(int stage) {
  Graph graph;
  Builder b(graph);
  int at = 0;
  const auto conv = [&](ValueId x, int64_t out, int64_t kernel, int64_t groups) {
    Tensor weights(DType::f32, Shape{out, b.shape(x)[1] / groups, kernel, kernel});
    for (int64_t i = 0; i < weights.elements(); ++i)
      weights.data<float>()[i] = 0.2f * std::sin(static_cast<float>(i + 1));
    // The first tap of two channels that come out, which never reaches the outputs of the first row and column.
    const int64_t of_one = weights.elements() / out;
    if (at++ == stage) weights.data<float>()[2 * of_one] = NAN, weights.data<float>()[5 * of_one] = INFINITY;
    const std::vector<int64_t> pads(4, kernel / 2);
    return b.add("Conv", {x, b.constant(weights)}, {{"pads", pads}, {"group", groups}});
  };
  const ValueId wide = conv(b.input("x", DType::f32, {1, 8, 6, 5}), 16, 3, 1);
  b.output(conv(conv(wide, 16, 3, 16), 24, 1, 1), "y");
  return graph;
}

TEST_F(GpuSession, WeightsThatAreNotFiniteStayOnTheGpuAndReachTheSameElements) {
  NEEDS_IMAGES();
  for (const int stage : {0, 1, 2}) {
    const Graph graph = bottleneck_with(stage);
    Tensor x(DType::f32, Shape{1, 8, 6, 5});
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = std::cos(static_cast<float>(i));
    const Tensor expected = interpret(graph, std::array{x}, nullptr, "reference")[0];
    for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16}) {
      SessionOptions options{.device = "cuda", .threads = 1};
      options.passes.precision = precision;
      Session session(graph, options);
      EXPECT_EQ(session.nodes_on_cpu(), std::vector<std::string>()) << stage;
      std::ranges::copy(x.data<float>(), session.input<float>("x").begin());
      session.run();
      const auto y = session.output<float>("y");
      for (size_t i = 0; i < y.size(); ++i) {
        const float want = expected.data<float>()[i];
        EXPECT_EQ(std::isfinite(y[i]), std::isfinite(want)) << name(precision) << " " << stage << " " << i;
        EXPECT_NEAR(std::isfinite(want) ? y[i] : 0, std::isfinite(want) ? want : 0, 0.05f) << stage << " " << i;
      }
    }
  }
}

// The CPU refuses it. A kernel cannot, and takes zeros; what is known before is left to the CPU.
TEST_F(GpuSession, AnIndexOutOfRange) {
  NEEDS_IMAGES();
  const auto session = [](const char* device, bool constant) {
    Graph graph;
    Builder b(graph);
    const ValueId x = b.input("x", DType::f32, {kRows, kSize});
    const ValueId index = constant ? b.ints({1, 3}) : b.input("index", DType::i64, {2});
    b.output(b.add("Gather", {x, index}), "y");
    Session out(std::move(graph), {.device = device, .threads = 1});
    if (!constant) std::ranges::copy(std::array<int64_t, 2>{1, 3}, out.input<int64_t>("index").begin());
    return out;
  };
  for (const bool constant : {false, true}) {
    const auto refused = [&](const char* device) -> std::string {
      try {
        Session refuses = session(device, constant);
        run(refuses, numbers(1));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::user);
        return error.what();
      }
      return "not at all";
    };
    EXPECT_NE(refused("cpu").find("index 3 is outside [-3,3)"), std::string::npos) << refused("cpu");
    if (constant) {
      EXPECT_EQ(refused("cuda"), refused("cpu"));
      continue;
    }
    Session gpu = session("cuda", false);
    EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
    std::vector<float> expected = numbers(1);
    expected.erase(expected.begin(), expected.begin() + kSize);
    std::fill(expected.begin() + kSize, expected.end(), 0.0f);
    EXPECT_EQ(run(gpu, numbers(1)), expected);
  }
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

}  // namespace gpu_session_test
}  // namespace sparkpilot
