// `auto`: a GPU that has computed the model as the CPU does, else the CPU.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gpu_sessions.h"

namespace sparkpilot {
namespace gpu_choice_test {

// auto takes the GPU once it has computed the model as the CPU does, and asks the file afterwards.
class GpuChoice : public GpuSession {
 protected:
  void SetUp() override {
    GpuSession::SetUp();
    file_ = std::filesystem::temp_directory_path() / ("gpu_choice" + std::to_string(getpid()) + ".json");
    std::filesystem::remove(file_);
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    GpuSession::TearDown();
  }
  SessionOptions choosing() {
    said_.clear();
    return {.device = "auto",
            .threads = 1,
            .tuning_file = file_.string(),
            .tune = Tune::off,
            .say = [this](const std::string& line) { said_.push_back(line); }};
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::filesystem::path file_;
  std::vector<std::string> said_;
};

TEST_F(GpuChoice, TakesAGpuThatHasPassed) {
  NEEDS_IMAGES();
  Session cpu(softmax_graph(false), {.device = "cpu", .threads = 1});
  for (const char* name : {"gb10", "rtx4090"}) {
    for (const bool known : {false, true}) {
      emulate(name);
      Session session(softmax_graph(false), choosing());
      EXPECT_EQ(session.device(), "cuda:0");
      ASSERT_EQ(said_.size(), 1u);
      EXPECT_NE(said_[0].find("the self-check has passed"), std::string::npos) << said_[0];
      EXPECT_EQ(said_[0].find(" ms; ") == std::string::npos, known) << said_[0];
      EXPECT_EQ(session.self_check_ms().has_value(), !known);
      expect_near(run(session, numbers(1)), run(cpu, numbers(1)));
      EXPECT_EQ(driver_count("kernel softmax_f32"), known ? 1 : 3);  // the self-check runs it twice
    }
  }
  // Entries of other GPUs, drivers, programs or models, and what is no entry, do not count.
  const std::string kept = read(file_);
  std::string poisoned = kept;
  for (size_t at = 0; (at = poisoned.find("\"passed\"", at)) != std::string::npos;)
    poisoned.replace(at, 8, "[true, 1]");
  std::string foreign = kept;
  for (size_t at = 0; (at = foreign.find("NVIDIA", at)) != std::string::npos; ++at) foreign[at] = 'X';
  for (const std::string& text : {poisoned, foreign, std::string("{"), std::string(2 << 20, ' ')}) {
    std::ofstream(file_) << text;
    emulate("gb10");
    Session session(softmax_graph(false), choosing());
    run(session, numbers(1));
    EXPECT_EQ(driver_count("kernel softmax_f32"), 3) << text.substr(0, 200);
  }
  std::ofstream(file_) << kept;
  emulate("gb10");
  SessionOptions half = choosing();
  half.passes.precision = Precision::fp16;
  Session other(softmax_graph(false), half);
  run(other, numbers(1));
  EXPECT_EQ(driver_count("kernel softmax_f32") + driver_count("kernel softmax_f16"), 3);
}

TEST_F(GpuChoice, TakesTheCpuForModelsThatDoNotRunOnAGpuWhole) {
  NEEDS_IMAGES();
  Session session(softmax_graph(true), choosing());
  EXPECT_EQ(session.device(), "cpu");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("1 of its nodes has no kernel for a GPU, such as Hardmax; the model runs on the CPU"),
            std::string::npos)
      << said_[0];
  emulate("none");
  Session none(softmax_graph(false), choosing());
  EXPECT_EQ(none.device(), "cpu");
  EXPECT_EQ(said_, std::vector<std::string>());
}

// Activations in 8 bits, of a file, by the range of the data, and by a calibration.
TEST_F(GpuChoice, TakesAGpuForCodes) {
  NEEDS_IMAGES();
  Graph bytes;
  const ValueId x = bytes.add_input("x", DType::f32, Shape{kRows, kSize});
  Builder b(bytes);
  bytes.add_output(b.add("QuantizeLinear", {x, bytes.add_constant(Tensor::scalar(0.1f))}), "y");
  Session quantized(std::move(bytes), choosing());
  EXPECT_EQ(quantized.device(), "cuda:0") << said_[0];

  Graph dynamic;
  Builder d(dynamic);
  const std::vector<ValueId> codes =
      d.add_many("DynamicQuantizeLinear", {dynamic.add_input("x", DType::f32, Shape{kRows, kSize})}, {}, 3);
  const Tensor bytes_of_weights = Tensor::of<int8_t>(Shape{kSize, kSize}, std::vector<int8_t>(kSize * kSize, 3));
  const ValueId sums = d.add("MatMulInteger", {codes[0], dynamic.add_constant(bytes_of_weights), codes[2]});
  dynamic.add_output(d.add("Mul", {d.add("Cast", {sums}, {{"to", onnx_code(DType::f32)}}), codes[1]}), "y");
  Session by_range(dynamic, choosing());
  EXPECT_EQ(by_range.device(), "cuda:0") << said_[0];
  Session cpu(dynamic, {.device = "cpu", .threads = 1});
  EXPECT_EQ(run(by_range, numbers(1)), run(cpu, numbers(1)));
  EXPECT_GT(driver_count("kernel qgemm_8"), 0);

  Graph products;
  Builder c(products);
  ValueId y = products.add_input("x", DType::f32, Shape{kRows, kSize});
  for (int i = 0; i < 2; ++i) {
    const Tensor weights = Tensor::of<float>(Shape{kSize, kSize}, std::vector<float>(kSize * kSize, 0.01f + 0.01f * i));
    y = c.add("Relu", {c.add("MatMul", {y, products.add_constant(weights)})});
  }
  products.add_output(c.add("Softmax", {y}), "y");
  SessionOptions options = choosing();
  options.passes.precision = Precision::fp8;
  options.passes.largest = {{"x", 3.0}};
  Session calibrated(products, options);
  EXPECT_EQ(calibrated.device(), "cuda:0") << said_[0];
  EXPECT_GT(driver_count("kernel e4m3_gemm_8"), 0);
  run(calibrated, numbers(1));
}

// The difference of two nearly equal columns is lost in bf16.
TEST_F(GpuChoice, NamesTheNodeThatDiffersAndTakesTheCpu) {
  NEEDS_IMAGES();
  for (const bool known : {false, true}) {
    Graph graph;
    const ValueId x = graph.add_input("x", DType::f32, Shape{kRows, kSize});
    Builder b(graph);
    Tensor columns(DType::f32, Shape{kSize, 2});
    for (int64_t i = 0; i < kSize; ++i) {
      const float weight = std::sin(static_cast<float>(i));
      columns.data<float>()[2 * i] = weight;
      columns.data<float>()[2 * i + 1] = weight * 1.0001f;
    }
    const ValueId wide = b.add("MatMul", {x, graph.add_constant(columns)}), size = b.add("Abs", {wide});
    const ValueId low = b.add("MatMul", {size, graph.add_constant(Tensor::of<float>({2, 1}, {1.0f, -1.0f}))});
    graph.value(wide).name = "wide";
    graph.value(size).name = "size";
    graph.value(low).name = "low";
    graph.add_output(b.add("Abs", {low}), "y");
    emulate("rtx4090");
    SessionOptions options = choosing();
    options.passes.precision = Precision::bf16;
    options.passes.emulate = true;
    Session session(std::move(graph), options);
    EXPECT_EQ(session.device(), "cpu");
    ASSERT_EQ(said_.size(), 1u);
    EXPECT_NE(said_[0].find("cuda:0 (NVIDIA GeForce RTX 4090): self-check: node \""), std::string::npos) << said_[0];
    EXPECT_NE(said_[0].find("(value \"low\") differs from the CPU by "), std::string::npos) << said_[0];
    EXPECT_EQ(session.self_check_ms().has_value(), !known);
    EXPECT_EQ(driver_count("call cuGraphLaunch") > 0, !known);
    run(session, numbers(1));
  }
}

// Each call fails once, or for good: the CPU's result, and a line that says so if the GPU was given up.
TEST_F(GpuChoice, FaultsBeforeTheFirstResultLeaveTheCpu) {
  NEEDS_IMAGES();
  Session cpu(accumulating_graph(), {.device = "cpu", .threads = 1});
  const auto twice = [&](Session& session) {
    run(session, numbers(1));
    return run(session, numbers(2));
  };
  const auto expected = twice(cpu);
  int given_up = 0;
  for (const char* gpu : {"gb10", "rtx4090"}) {
    for (const char* name : {"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuMemAlloc_v2", "cuMemAllocManaged",
                             "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2", "cuStreamCreate", "cuGraphInstantiateWithFlags",
                             "cuGraphLaunch", "cuStreamSynchronize", "cuLaunchKernelEx"}) {
      for (const char* code : {"2", "700"}) {
        for (const int nth : {1, 2, 3, 5, 8}) {
          emulate(gpu, (std::string(name) + ":" + std::to_string(nth) + ":" + code).c_str());
          bool first = false;
          try {
            Session session(accumulating_graph(), choosing());
            const View sum = session.device() == "cpu" ? View() : session.state("sum");
            run(session, numbers(1));
            first = true;
            if (session.device() == "cpu") {
              ++given_up;
              ASSERT_FALSE(said_.empty());
              EXPECT_NE(said_.back().find("the model runs on the CPU"), std::string::npos) << said_.back();
            }
            expect_near(run(session, numbers(2)), expected);
            EXPECT_TRUE(!sum.data || sum.data == session.state("sum").data);
          } catch (const Error& error) {
            EXPECT_TRUE(first) << gpu << " " << name << " " << nth << " " << code;
            EXPECT_EQ(error.kind(), ErrorKind::device) << error.what();
          }
          std::filesystem::remove(file_);
        }
      }
    }
  }
  EXPECT_GT(given_up, 60);
  unsetenv("EMULATED_CUDA_FAIL");
  emulate("gb10");
}

// Also where memory is given before the model is compiled: with open dimensions.
TEST_F(GpuChoice, FaultsOfInputsMemoryLeaveTheCpu) {
  NEEDS_IMAGES();
  const auto open = [] {
    Graph graph;
    const ValueId x = graph.add_input("x", DType::f32, std::vector<Dim>{{-1, "n"}, {kSize, ""}});
    Builder b(graph);
    graph.add_output(b.add("Softmax", {x}), "y");
    return graph;
  };
  for (const char* gpu : {"gb10", "rtx4090"}) {
    emulate(gpu);
    {
      Session session(open(), choosing());  // keeps that the self-check has passed
      EXPECT_EQ(session.device(), "cuda:0");
    }
    emulate(gpu, std::string(gpu) == "gb10" ? "cuMemAllocManaged:1:2" : "cuMemHostAlloc:1:2");
    Session session(open(), choosing());
    session.set_shape("x", Shape{kRows, kSize});
    Session cpu(softmax_graph(false), {.device = "cpu", .threads = 1});
    expect_near(run(session, numbers(1)), run(cpu, numbers(1)));
    EXPECT_EQ(session.device(), "cpu");
    ASSERT_FALSE(said_.empty());
    EXPECT_NE(said_.back().find("the model runs on the CPU"), std::string::npos) << said_.back();
    unsetenv("EMULATED_CUDA_FAIL");
  }
}

// Softmax(x), then what is between `end` and the first column: its shape depends on data, so it runs on the CPU.
Graph continued_graph() {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{kRows, kSize}),
                end = graph.add_input("end", DType::i64, Shape{1});
  Tensor ones = Tensor::zeros(DType::f32, Shape{1});
  ones.data<float>()[0] = 1;
  const ValueId one = graph.add_constant(ones);
  Builder b(graph);
  const ValueId soft = b.add("Softmax", {b.add("Add", {x, one})});
  const ValueId zero = graph.add_constant(Tensor::of<int64_t>({1}, {0})),
                axis = graph.add_constant(Tensor::of<int64_t>({1}, {1}));
  graph.add_output(b.add("Add", {b.add("Slice", {soft, zero, end, axis}), one}), "y");
  return graph;
}

TEST_F(GpuChoice, NodesAfterAShapeThatDependsOnDataAreLeftToTheCpu) {
  NEEDS_IMAGES();
  const auto result = [](Session& session) {
    session.input<int64_t>("end")[0] = 7;
    return run(session, numbers(1));
  };
  Session cpu(continued_graph(), {.device = "cpu", .threads = 1});
  for (const char* gpu : {"gb10", "rtx4090"}) {
    emulate(gpu);
    Session session(continued_graph(), {.device = "cuda"});
    EXPECT_EQ(session.nodes_on_cpu().size(), 2u);
    expect_near(result(session), result(cpu));
    Session chosen(continued_graph(), choosing());
    EXPECT_EQ(chosen.device(), "cpu");
    ASSERT_FALSE(said_.empty());
    EXPECT_NE(said_.back().find("2 of its nodes have no kernel for a GPU, such as Slice"), std::string::npos)
        << said_.back();
  }
}

// A GPU that keeps its states from one run to the next wrongly would not be found in one run.
TEST_F(GpuChoice, StatesOfTheCpuAreNotTaken) {
  NEEDS_IMAGES();
  const auto store = std::make_shared<StateStore>();
  Session cpu(accumulating_graph(), {.device = "cpu", .threads = 1, .states = store});
  run(cpu, numbers(1));
  SessionOptions options = choosing();
  options.states = store;
  Session session(accumulating_graph(), options);
  EXPECT_EQ(session.device(), "cpu");
  ASSERT_FALSE(said_.empty());
  EXPECT_EQ(said_.back(), "its states are shared with a session on the CPU; the model runs on the CPU");
  run(session, numbers(2));
}

TEST_F(GpuChoice, TakesTheFastestThatHasKernels) {
  NEEDS_IMAGES();
  for (const auto& [gpus, best] : {std::pair{"rtx5090,gb10", "cuda:0"},
                                   {"gb10,rtx5090", "cuda:1"},
                                   {"gb10,h100", "cuda:1"},
                                   {"wsl2,a100", "cuda:1"},
                                   {"gtx1080,gb10", "cuda:1"}}) {
    emulate(gpus);
    for (const char* device : {"auto", "cuda"}) {
      SessionOptions options = choosing();
      options.device = device;
      EXPECT_EQ(Session(softmax_graph(false), options).device(), best) << gpus << " " << device;
    }
  }
}

// y = (x W) V, each weight `size` times a sine.
Graph products_graph(float size) {
  const auto weights = [&](int64_t columns) {
    Tensor out(DType::f32, Shape{kSize, columns});
    for (int64_t i = 0; i < out.elements(); ++i) out.data<float>()[i] = size * std::sin(static_cast<float>(i));
    return out;
  };
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{kRows, kSize});
  Builder b(graph);
  const ValueId wide = b.add("MatMul", {x, graph.add_constant(weights(kSize))});
  graph.add_output(b.add("MatMul", {wide, graph.add_constant(weights(4))}), "y");
  return graph;
}

TEST_F(GpuChoice, PrecisionAutoIsFp16OnAGpuAndFp32OnTheCpu) {
  NEEDS_IMAGES();
  const auto options = [&](const char* device, Precision precision) {
    SessionOptions out = choosing();
    out.device = device;
    out.passes.precision = precision;
    return out;
  };
  const auto result = [](Session& session) { return run(session, numbers(1)); };
  Session cpu(products_graph(1), options("cpu", Precision::automatic));
  EXPECT_EQ(cpu.precision(), Precision::fp32);
  for (const char* device : {"auto", "cuda"}) {
    emulate("gb10");
    Session session(products_graph(1), options(device, Precision::automatic));
    EXPECT_EQ(session.device(), "cuda:0");
    EXPECT_EQ(session.precision(), Precision::fp16);
    const std::vector<float> y = result(session);
    Session half(products_graph(1), options("cuda", Precision::fp16)),
        wide(products_graph(1), options("cuda", Precision::fp32));
    EXPECT_EQ(y, result(half));
    EXPECT_NE(y, result(wide));
  }
  emulate("gb10");
  Session beyond(products_graph(1e4f), options("auto", Precision::automatic));  // 65,504 is the largest number of f16
  EXPECT_EQ(beyond.device(), "cpu");
  EXPECT_EQ(beyond.precision(), Precision::fp32);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find(", in fp16; --precision fp32 was not tried; the model runs on the CPU"), std::string::npos)
      << said_[0];

  emulate("gb10", "cuGraphLaunch:1:700");  // what the self-check found is kept in the file by now
  Session given_up(products_graph(1), options("auto", Precision::automatic));
  EXPECT_EQ(given_up.precision(), Precision::fp16);
  EXPECT_EQ(result(given_up), result(cpu));
  EXPECT_EQ(given_up.device(), "cpu");
  EXPECT_EQ(given_up.precision(), Precision::fp32);
  unsetenv("EMULATED_CUDA_FAIL");
  emulate("none");
  Session none(products_graph(1), options("auto", Precision::automatic));
  EXPECT_EQ(none.precision(), Precision::fp32);
}

TEST_F(GpuChoice, SaysThatADriverDoesNotWork) {
  NEEDS_IMAGES();
  for (const char* call : {"cuInit:2:999", "cuDeviceGetCount:1:999"}) {  // the first cuInit is emulate's
    emulate("gb10", call);
    Session session(softmax_graph(false), choosing());
    EXPECT_EQ(session.device(), "cpu");
    ASSERT_FALSE(said_.empty());
    EXPECT_EQ(said_.back(), "libcuda: CUDA_ERROR_UNKNOWN; the model runs on the CPU");
  }
}

}  // namespace gpu_choice_test
}  // namespace sparkpilot
