// `auto`: a GPU that has computed the model as the CPU does, else the CPU.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gpu_sessions.h"

namespace sparkpilot {
namespace {

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
      EXPECT_EQ(driver_count("kernel softmax_f32"), known ? 1 : 2);  // the self-check runs it once
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
    EXPECT_EQ(driver_count("kernel softmax_f32"), 2) << text.substr(0, 200);
  }
  std::ofstream(file_) << kept;
  emulate("gb10");
  SessionOptions half = choosing();
  half.passes.precision = Precision::fp16;
  Session other(softmax_graph(false), half);
  run(other, numbers(1));
  EXPECT_EQ(driver_count("kernel softmax_f32") + driver_count("kernel softmax_f16"), 2);
}

TEST_F(GpuChoice, TakesTheCpuForModelsThatDoNotRunOnAGpuWhole) {
  NEEDS_IMAGES();
  Session session(softmax_graph(true), choosing());
  EXPECT_EQ(session.device(), "cpu");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("1 of its nodes has no kernel for a GPU, such as Hardmax; the model runs on the CPU"),
            std::string::npos)
      << said_[0];
  Graph integers;
  const ValueId x = integers.add_input("x", DType::f32, Shape{kRows, kSize});
  Builder b(integers);
  integers.add_output(b.add("QuantizeLinear", {x, integers.add_constant(Tensor::scalar(0.1f))}), "y");
  Session quantized(std::move(integers), choosing());
  EXPECT_EQ(quantized.device(), "cpu");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("no kernel for a GPU computes QuantizeLinear"), std::string::npos) << said_[0];
  emulate("none");
  Session none(softmax_graph(false), choosing());
  EXPECT_EQ(none.device(), "cpu");
  EXPECT_EQ(said_, std::vector<std::string>());
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
                             "cuGraphLaunch", "cuStreamSynchronize", "cuLaunchKernel"}) {
      for (const char* code : {"2", "700"}) {
        for (const int nth : {1, 2, 3, 5, 8}) {
          emulate(gpu, (std::string(name) + ":" + std::to_string(nth) + ":" + code).c_str());
          try {
            Session session(accumulating_graph(), choosing());
            run(session, numbers(1));
            if (session.device() == "cpu") {
              ++given_up;
              ASSERT_FALSE(said_.empty());
              EXPECT_NE(said_.back().find("the model runs on the CPU"), std::string::npos) << said_.back();
            }
            expect_near(run(session, numbers(2)), expected);
          } catch (const Error& error) {  // after the first result
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

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) { return sparkpilot::run_with_emulated_driver(argc, argv); }
