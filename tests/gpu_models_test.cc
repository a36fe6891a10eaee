// Whole networks on the emulated GPU: what they compute, what is left to the CPU, and what is copied.
#include <cmath>
#include <fstream>
#include <sstream>

#include "gpu_main.h"
#include "ir/infer.h"
#include "networks.h"
#include "ops/cuda/images.h"
#include "passes/pass.h"
#include "passes/precision.h"
#include "passes/quantize_graph.h"
#include "passes/small_weights.h"
#include "tensor/difference.h"

namespace sparkpilot::testing {
namespace gpu_models_test {

class GpuNetwork : public NetworkTest {
 protected:
  void SetUp() override {
    emulate_plainly();
    NetworkTest::SetUp();
  }

  std::unique_ptr<Session> session(const char* device, Precision precision) const {
    SessionOptions options{.device = device, .threads = 1, .tune = Tune::off};
    options.passes.precision = precision;
    auto out = std::make_unique<Session>(network_.load(), options);
    fill_inputs(*out, 7);
    return out;
  }
};

// Two runs, so that states count. The same seed fills both; the CPU computes in fp32 and, for 16 bits, so does the
// bound: what rounding stored tensors costs these networks was measured at up to a fifth of it.
TEST_P(GpuNetwork, ComputesWhatTheCpuDoes) {
  NEEDS_IMAGES();
  const auto cpu = session("cpu", Precision::fp32);
  for (int run = 0; run < 2; ++run) cpu->run();
  struct Run {
    const char* gpu;
    Precision precision;
    double bound;
  };
  std::vector<Run> runs = {{"gb10", Precision::fp32, 5e-5}, {"h100", Precision::fp16, 2e-2}};
  if (network_.file.empty()) {  // the real ones take seconds
    runs.push_back({"rtx4090", Precision::fp32, 5e-5});
    runs.push_back({"gb10", Precision::bf16, 1e-1});
  }
  for (const auto& [gpu_name, precision, bound] : runs) {
    emulate(gpu_name);
    const auto gpu = session("cuda", precision);
    for (int run = 0; run < 2; ++run) gpu->run();
    for (const TensorInfo& output : cpu->outputs()) {
      const double error = difference_of(gpu->output(output.name), cpu->output(output.name)).relative_l2;
      EXPECT_LE(error, bound) << gpu_name << " " << name(precision) << " " << output.name;
    }
    EXPECT_EQ(gpu->nodes_on_cpu(), std::vector<std::string>());
    const Session::Transfers transfers = gpu->transfers();
    // One copy each way, whatever it has of inputs, outputs and states.
    const bool unified = std::string_view(gpu_name) == "gb10";
    EXPECT_EQ(transfers.to_gpu, unified ? 0 : 1);
    EXPECT_EQ(transfers.to_host, unified ? 0 : 1);
    EXPECT_GT(transfers.launches, 5);
  }
}

// The network after two runs on the same inputs.
std::unique_ptr<Session> after_runs(const Graph& graph, const char* device, const PassOptions& passes = {}) {
  SessionOptions options{.device = device, .threads = 1, .tune = Tune::off};
  options.passes = passes;
  auto out = std::make_unique<Session>(graph, options);
  fill_inputs(*out, 7);
  for (int run = 0; run < 2; ++run) out->run();
  return out;
}

void expect_outputs_near(Session& gpu, Session& cpu, double bound) {
  for (const TensorInfo& output : cpu.outputs())
    EXPECT_LE(difference_of(gpu.output(output.name), cpu.output(output.name)).relative_l2, bound) << output.name;
  EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
}

// Weights in 8 and 4 bits are read packed, and are those of the CPU, whose activations are f32.
TEST(GpuSmallWeights, ComputeWhatTheCpuDoes) {
  NEEDS_IMAGES();
  emulate_plainly();
  for (const char* model : {"tiny_driving_policy", "tiny_big_driving_supercombo", "tiny_driving_vision"}) {
    const Graph graph = build_zoo_model(model, 1);
    for (const auto& [gpu_name, precision] : {std::pair("gb10", Precision::fp4), std::pair("h100", Precision::fp8)}) {
      SCOPED_TRACE(fmt::format("{} {} {}", model, gpu_name, name(precision)));
      emulate(gpu_name);
      const auto cpu = after_runs(graph, "cpu", {.precision = precision});
      const auto gpu = after_runs(graph, "cuda", {.precision = precision});
      expect_outputs_near(*gpu, *cpu, 1e-2);
      const std::vector<KernelDecision> choices = gpu->choices();
      EXPECT_TRUE(
          std::ranges::any_of(choices, [](const KernelDecision& each) { return each.kernel.starts_with("decode "); }));
    }
  }
}

// Sums that differ in their last bits now and then give neighbouring codes, and those others: that is 1e-2 to 1e-1 of a
// result. So of five inputs most have the same codes.
void expect_same_codes_of_most(Session& gpu, Session& cpu) {
  constexpr int kInputs = 5;
  int same = 0;
  for (uint64_t seed = 1; seed <= kInputs; ++seed) {
    bool near = true;
    for (Session* session : {&gpu, &cpu}) {
      session->reset_states();
      fill_inputs(*session, seed);
      session->run();
    }
    for (const TensorInfo& output : cpu.outputs()) {
      const double apart = difference_of(gpu.output(output.name), cpu.output(output.name)).relative_l2;
      EXPECT_LE(apart, 0.3) << output.name << " of input " << seed;
      near &= apart <= 1e-4;
    }
    same += near ? 1 : 0;
  }
  EXPECT_GT(2 * same, kInputs);
  EXPECT_EQ(gpu.nodes_on_cpu(), std::vector<std::string>());
}

// The largest magnitude of each value that has a name, in fp32.
std::map<std::string, double> largest_of(const Graph& graph) {
  SessionOptions options{.device = "cpu", .threads = 1, .tune = Tune::off};
  options.passes.off = {"all"};
  options.keep = {"all"};
  Session session(graph, options);
  fill_inputs(session, 7);
  session.run();
  std::map<std::string, double> out;
  session.visit_values([&](const RunValue& value) {
    if (value.name.empty() || value.view.dtype != DType::f32) return;
    double& largest = out[std::string(value.name)];
    for (int64_t i = 0; i < value.view.elements(); ++i)
      largest = std::max(largest, std::fabs(static_cast<double>(value.view.as<float>()[i])));
  });
  return out;
}

// With a calibration products multiply codes, on older GPUs decoded; nothing of it runs on the CPU. As a file, whose
// types the GPU keeps, with the CPU's results. As a precision f16 comes before the codes and moves some of them by a
// step.
TEST(GpuSmallWeights, MultiplyCodesOfActivations) {
  NEEDS_IMAGES();
  emulate_plainly();
  struct Run {
    const char *model, *gpu;
    bool as_file;
  };
  for (const auto& [model, gpu_name, as_file] : {Run{"tiny_driving_policy", "h100", false},
                                                 {"tiny_driving_policy", "h100", true},
                                                 {"tiny_driving_policy", "a100", true},
                                                 {"tiny_driving_vision", "h100", false},
                                                 {"tiny_driving_vision", "h100", true},
                                                 {"tiny_driving_vision", "a100", true}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", model, gpu_name, as_file));
    const Graph graph = build_zoo_model(model, 1);
    const std::map<std::string, double> largest = largest_of(graph);
    Graph file = graph;
    infer(file);
    widen_to_fp32(file);
    store_small(file, plan_small(file, Precision::fp8), largest);
    emulate(gpu_name);
    PassOptions passes;
    if (!as_file) passes.precision = Precision::fp8, passes.largest = largest;
    const auto cpu = after_runs(as_file ? file : graph, "cpu", passes);
    const auto gpu = after_runs(as_file ? file : graph, "cuda", passes);
    if (as_file) expect_same_codes_of_most(*gpu, *cpu);
    else expect_outputs_near(*gpu, *cpu, 0.1);
    EXPECT_GT(driver_count("kernel quantize"), 0);
    const auto count = [](const std::string& kernel) {
      return driver_count("kernel " + kernel + "8") + driver_count("kernel " + kernel + "32");
    };
    const bool old = std::string_view(gpu_name) == "a100";
    const auto convolutions = [](const std::string& way) {
      int64_t sum = 0;
      for (const char* end : {"16_32", "4_32", "1_32", "16_256", "4_256", "1_256"})
        sum += driver_count("kernel e4m3_conv_" + way + end);
      return sum;
    };
    const bool vision = std::string_view(model) == "tiny_driving_vision";
    EXPECT_EQ(count("e4m3_gemm_") > 0, !old);
    EXPECT_EQ(count("e4m3_gemm_decoded_") > 0, old);
    EXPECT_EQ(convolutions("") > 0, vision && !old);
    EXPECT_EQ(convolutions("decoded_") > 0, vision && old);
  }
}

// Products in NVFP4 round what they read themselves, where a GPU multiplies such blocks; nothing of it runs on the CPU.
TEST(GpuSmallWeights, RoundWhatTheyReadToFourBits) {
  NEEDS_IMAGES();
  emulate_plainly();
  for (const char* model : {"tiny_driving_policy", "tiny_driving_vision"}) {
    SCOPED_TRACE(model);
    const Graph graph = build_zoo_model(model, 1);
    const PassOptions passes{.precision = Precision::fp4, .largest = largest_of(graph)};
    emulate("gb10");
    const auto cpu = after_runs(graph, "cpu", passes);
    auto gpu = after_runs(graph, "cuda", passes);
    const auto weights_alone = after_runs(graph, "cpu", {.precision = Precision::fp4});
    expect_outputs_near(*gpu, *cpu, 0.2);
    int64_t products = 0;
    for (const char* kernel : {"f32_8", "f32_32", "f16_8", "f16_32"})
      products += driver_count("kernel nvfp4_gemm_" + std::string(kernel));
    EXPECT_GT(products, 0);
    for (const TensorInfo& output : cpu->outputs()) {  // further from what they round than from each other
      const double rounded = difference_of(cpu->output(output.name), weights_alone->output(output.name)).relative_l2;
      EXPECT_LT(difference_of(gpu->output(output.name), cpu->output(output.name)).relative_l2,
                (std::string_view(model) == "tiny_driving_policy" ? 0.5 : 0.7) * rounded);
    }
    gpu.reset();
    emulate("h100");
    try {
      after_runs(graph, "cuda", passes);
      FAIL() << "an H100 has no such product";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      EXPECT_NE(std::string(error.what()).find("activations in NVFP4 need compute capability 12.0, this is 9.0"),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("--device cpu or auto"), std::string::npos) << error.what();
    }
    // Emulated, the CPU computes them.
    PassOptions emulated = passes;
    emulated.emulate = true;
    const auto old = after_runs(graph, "cuda", emulated);
    EXPECT_FALSE(old->nodes_on_cpu().empty());
    for (const TensorInfo& output : cpu->outputs())
      EXPECT_LE(difference_of(old->output(output.name), cpu->output(output.name)).relative_l2, 0.2) << output.name;
  }
}

// The network in int8, its activations in ranges about 0.
Graph in_bytes(Graph graph) {
  prepare(graph, {.precision = Precision::fp32});
  const std::map<std::string, double> largest = largest_of(graph);
  const QuantizePlan plan = plan_quantization(graph, {});
  std::map<ValueId, ValueRange> ranges;
  for (const ValueId tensor : plan.tensors) {
    const double most = largest.at(graph.value(tensor).name);
    ranges[tensor] = {-most, most};
  }
  quantize_graph(graph, plan, ranges);
  return graph;
}

// No node of a quantized network runs on the CPU, and what is computed in integers has its bits. In vision a float op
// between two of them may round a number to the next byte.
TEST(GpuBytes, ComputeWhatTheCpuDoes) {
  NEEDS_IMAGES();
  emulate_plainly();
  struct Run {
    const char *model, *gpu;
    double bound;
    std::vector<std::string> kernels;
  };
  for (const auto& [model, gpu_name, bound, kernels] :
       {Run{"tiny_driving_policy", "gb10", 2e-2, {"qgemm_8", "qgemm_32", "qadd", "quantize", "dequantize"}},
        {"tiny_dmonitoring_model", "rtx4090", 0, {"qconv_1_256", "qconv_4_256", "qconv_16_256", "qdepthwise_4"}},
        {"tiny_driving_vision", "h100", 2e-2, {"qconv_16_256", "qdepthwise_1", "qadd"}}}) {
    SCOPED_TRACE(model);
    const Graph graph = in_bytes(build_zoo_model(model, 1));
    emulate(gpu_name);
    const auto cpu = after_runs(graph, "cpu"), gpu = after_runs(graph, "cuda");
    expect_outputs_near(*gpu, *cpu, bound);
    for (const std::string& kernel : kernels) EXPECT_GT(driver_count("kernel " + kernel), 0) << kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuNetwork, ::testing::ValuesIn(networks()), test_name);

// The program, as a user calls it.
TEST(GpuCommand, RunsAModelOnTheGpuThatAFlagNames) {
  NEEDS_IMAGES();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("gpu_program" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  setenv("SPARKPILOT_TUNE", "off", 1);  // the user's tuning file stays as it is
  const std::string program = SPARKPILOT_PROGRAM;
  const auto shell = [&](const std::string& command) {
    return std::system((command + " >" + (folder / "out").string() + " 2>&1").c_str());
  };
  const auto said = [&] {
    std::ifstream file(folder / "out");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  ASSERT_EQ(shell(program + " zoo build tiny_driving_policy --out " + folder.string()), 0) << said();
  const std::string model = (folder / "tiny_driving_policy.onnx").string();
  EXPECT_EQ(shell("EMULATED_GPU=gb10 EMULATED_CUDA_REPORT=" + (folder / "report").string() + " " + program + " run " +
                  model + " --device cuda"),
            0)
      << said();
  EXPECT_NE(said().find("run on an H100 and an H200"), std::string::npos) << said();
  std::ifstream report(folder / "report");
  std::string first;
  std::getline(report, first);
  EXPECT_EQ(first, kNothingHeld);
  EXPECT_EQ(WEXITSTATUS(shell("EMULATED_GPU=none " + program + " run " + model + " --device cuda")), 2) << said();
  EXPECT_EQ(WEXITSTATUS(shell("EMULATED_GPU=gb10 EMULATED_CUDA_FAIL=cuMemAllocManaged:2:2 " + program + " run " +
                              model + " --device cuda")),
            3)
      << said();
  EXPECT_EQ(WEXITSTATUS(shell("EMULATED_GPU=gb10 EMULATED_CUDA_FAIL=cuStreamSynchronize:1:700 " + program + " run " +
                              model + " --device cuda")),
            3)
      << said();
  std::filesystem::remove_all(folder);
}

}  // namespace gpu_models_test
}  // namespace sparkpilot::testing
