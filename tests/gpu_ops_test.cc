// The CUDA kernels of all ops, on the ops' own cases, on the emulated GPU.
#include <algorithm>
#include <set>

#include "gpu_main.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "ops/check_gpu.h"
#include "ops/cuda/images.h"
#include "ops/cuda/words_check.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace gpu_ops_test {

class GpuOps : public GpuTest {};

class GpuOpsOn : public GpuTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuOpsOn, EveryKernelComputesWhatTheReferenceDoes) {
  if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  emulate(GetParam());
  const auto gpu = GpuDevice::open(0);
  int passed = 0;
  for (const CheckResult& result : check_ops_on_gpu("", 1, *gpu)) {
    EXPECT_NE(result.outcome, CheckResult::failed)
        << result.op << "/" << result.kernel << " " << result.case_name << ": " << result.message;
    passed += result.outcome == CheckResult::passed;
  }
  EXPECT_GT(passed, 2900);
  // What gradients need is reached by their ops' cases.
  for (const char* kernel : {"adamw_f32", "conv_weights_f32", "depthwise_gradient_1_f32", "depthwise_gradient_3_f32",
                             "depthwise_gradient_5_f32", "depthwise_gradient_7_f32", "depthwise_gradient_sum_f32",
                             "gemm_km_f32_32x32", "gemm_km_f32_64x64"}) {
    EXPECT_GT(driver_count("kernel " + std::string(kernel)), 0) << kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, GpuOpsOn, ::testing::Values("gb10", "h100"), [](const auto& gpu) { return gpu.param; });

TEST_F(GpuOps, TheWordsAreCheckedAndAWrongOneIsNamed) {
  if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  for (const auto& [name, words] : {std::pair("gb10", 32u), {"h100", 30u}, {"a100", 29u}, {"b200", 30u}}) {
    emulate(name);
    const auto gpu = GpuDevice::open(0);
    EXPECT_EQ(cuda::check_words(*gpu), std::vector<std::string>()) << name;
    std::set<std::string_view> seen;
    for (const cuda::WordCase& c : cuda::word_cases()) {
      if (driver_count("kernel word_" + std::string(c.word)) > 0) seen.insert(c.word);
    }
    EXPECT_EQ(seen.size(), words) << name;
  }
  setenv("EMULATED_CUDA_WRONG", "word_mma_f16", 1);
  emulate("gb10");
  const std::vector<std::string> wrong = cuda::check_words(*GpuDevice::open(0));
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].substr(0, 29), "mma_f16: element 0: expected ");
  EXPECT_NE(wrong[0].find("1 of 128 differ"), std::string::npos) << wrong[0];
  emulate("gb10", "cuStreamSynchronize:5:700");
  const std::string error = error_of([] { cuda::check_words(*GpuDevice::open(0)); });
  EXPECT_EQ(error.substr(0, 5), "word ");
  EXPECT_NE(error.find("cuStreamSynchronize"), std::string::npos) << error;
  unsetenv("EMULATED_CUDA_FAIL");
  emulate("gb10");
}

// One node whose inputs and outputs lie one element after an address that is a multiple of 256.
std::vector<Tensor> run_shifted(GpuDevice& gpu, const Kernel& kernel, const Problem& problem,
                                const std::vector<Tensor>& tensors) {
  const auto state = kernel.prepare(problem);
  GpuStream stream(gpu.shared_from_this());
  std::vector<std::shared_ptr<Buffer>> memory;
  const auto room = [&](const TensorType& type) {
    const int64_t shift = storage_bytes(type.dtype, 1);
    memory.push_back(gpu.allocate(storage_bytes(type.dtype, type.shape.elements()) + shift, gpu.own_place()));
    return memory.back()->data() + shift;
  };
  std::vector<ConstView> inputs;
  std::vector<View> outputs;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TensorType& type = problem.inputs[i];
    inputs.push_back({type.dtype, type.shape, nullptr});
    if (!problem.has(i) || (state->consumed >> i & 1) || tensors[i].bytes() == 0) continue;
    std::byte* const to = room(type);
    stream.copy_to_gpu(to, tensors[i].raw(), tensors[i].bytes());
    inputs.back().data = to;
  }
  for (const TensorType& type : problem.outputs) outputs.push_back({type.dtype, type.shape, room(type)});
  const auto workspace = gpu.allocate(state->workspace, gpu.own_place());
  kernel.run({.node = problem.node,
              .inputs = inputs,
              .outputs = outputs,
              .workspace = workspace->data(),
              .state = state.get(),
              .stream = &stream});
  std::vector<Tensor> results;
  for (const View& output : outputs) {
    results.emplace_back(output.dtype, output.shape);
    if (output.bytes() > 0) stream.copy_to_host(results.back().raw(), output.data, output.bytes());
  }
  stream.wait();
  return results;
}

TEST_F(GpuOps, MemoryMayBeginAtAnyElement) {
  if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  const auto gpu = GpuDevice::open(0);
  int computed = 0;
  for (const char* name :
       {"Add", "Concat", "Cast", "Gather", "GatherElements", "LayerNormalization", "Pad", "ReduceMax", "Relu",
        "Reshape", "Resize", "Slice", "Softmax", "Split", "Transpose", "Where"}) {
    const OpDef& op = *find_op("", name, 23);
    for (const OpCase& op_case : op.cases()) {
      const std::vector<Tensor> tensors = case_inputs(op_case, 1);
      Graph graph = case_graph(op, op_case, tensors);
      infer(graph);
      const NodeProblem types(graph, graph.order()[0]);
      Problem problem = types.problem();
      problem.gpu = gpu.get();
      const std::vector<Tensor> expected = evaluate(case_node(op, op_case), tensors, op.cpu.back().name);
      for (const Kernel& kernel : op.cuda) {
        if (!kernel.accepts(problem)) continue;
        const std::vector<Tensor> results = run_shifted(*gpu, kernel, problem, tensors);
        for (size_t i = 0; i < results.size(); ++i) {
          EXPECT_LE(relative_l2(results[i], expected[i]),
                    std::max(op_case.tolerance, default_tolerance(expected[i].dtype())))
              << name << "/" << kernel.name << " " << op_case.name;
        }
        ++computed;
      }
    }
  }
  EXPECT_GT(computed, 100);
}

}  // namespace gpu_ops_test
}  // namespace sparkpilot
