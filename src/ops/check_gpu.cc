#include "ops/check_gpu.h"

#include <cstring>

#include "base/error.h"
#include "ir/infer.h"
#include "ir/launch.h"
#include "tensor/gpu.h"

namespace sparkpilot {
namespace {

// The f32 tensors of a case in another type.
OpCase in_type(OpCase op_case, DType dtype) {
  for (CaseInput& input : op_case.inputs) {
    if (input.dtype != DType::f32 || input.fill == CaseInput::absent) continue;
    input.dtype = dtype;
    if (input.fill != CaseInput::given) continue;
    Tensor converted(dtype, input.tensor.shape());
    for (int64_t i = 0; i < converted.elements(); ++i) {
      store_element(dtype, converted.raw(), i, load_element(DType::f32, input.tensor.raw(), i));
    }
    input.tensor = converted;
  }
  return op_case;
}

// One node whose memory is the GPU's.
class NodeOnGpu {
 public:
  explicit NodeOnGpu(GpuDevice& gpu) : gpu_(gpu), stream_(gpu.shared_from_this()) {}

  // `variant`: empty, or one of the kernel's.
  std::vector<Tensor> run(const Kernel& kernel, const std::string& variant, const Problem& problem,
                          const std::vector<Tensor>& tensors) {
    const std::unique_ptr<KernelState> state = kernel.prepare ? kernel.prepare(problem) : nullptr;
    if (!variant.empty()) kernel.take_variant(problem, variant, *state);
    std::vector<std::shared_ptr<Buffer>> memory;
    std::vector<ConstView> inputs;
    for (size_t i = 0; i < problem.inputs.size(); ++i) {
      const bool packed = state && i < 64 && (state->consumed >> i & 1);
      if (!problem.has(i) || packed) {
        inputs.push_back({problem.inputs[i].dtype, problem.inputs[i].shape, nullptr});
        continue;
      }
      memory.push_back(gpu_.upload(tensors[i].raw(), tensors[i].bytes()));
      inputs.push_back({tensors[i].dtype(), tensors[i].shape(), memory.back()->data()});
    }
    std::vector<View> outputs;
    std::vector<Tensor> results;
    for (const TensorType& type : problem.outputs) {
      results.emplace_back(type.dtype, type.shape);
      memory.push_back(gpu_.allocate(results.back().bytes(), gpu_.own_place()));
      stream_.fill(memory.back()->data(), 0xff, results.back().bytes());
      outputs.push_back({type.dtype, type.shape, memory.back()->data()});
    }
    const auto workspace = gpu_.allocate(state ? state->workspace : 0, gpu_.own_place());
    kernel.run({.node = problem.node,
                .inputs = inputs,
                .outputs = outputs,
                .workspace = workspace->data(),
                .state = state.get(),
                .stream = &stream_});
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].bytes() > 0) stream_.copy_to_host(results[i].raw(), outputs[i].data, results[i].bytes());
    }
    stream_.wait();
    return results;
  }

 private:
  GpuDevice& gpu_;
  GpuStream stream_;
};

void compare(const std::vector<Tensor>& first, const std::vector<Tensor>& second, const std::vector<Tensor>& expected,
             double tolerance, CheckResult& result) {
  for (size_t i = 0; i < first.size() && result.message.empty(); ++i) {
    const DType dtype = first[i].dtype();
    // A case's own may be below f32's; in the other types that a case is tried in it does not hold.
    const bool own = tolerance > 0 && dtype == DType::f32;
    result.tolerance = own ? tolerance : std::max(tolerance, default_tolerance(dtype));
    result.error = std::max(result.error, relative_l2(first[i], expected[i]));
    if (!(result.error <= result.tolerance)) {
      result.message = fmt::format("output {} differs by {:.3g}, allowed {:.3g}", i, result.error, result.tolerance);
    } else if (std::memcmp(first[i].raw(), second[i].raw(), static_cast<size_t>(first[i].bytes())) != 0) {
      result.message = fmt::format("output {} differs from run to run", i);
    }
  }
}

}  // namespace

std::vector<CheckResult> check_case_on_gpu(const OpDef& op, const OpCase& as_it_is, uint64_t seed, GpuDevice& gpu,
                                           DType dtype) {
  const OpCase op_case = dtype == DType::none ? as_it_is : in_type(as_it_is, dtype);
  std::vector<CheckResult> results;
  const std::vector<Tensor> tensors = case_inputs(op_case, seed);
  Graph graph = case_graph(op, op_case, tensors);
  const NodeId id = graph.order()[0];
  try {
    infer(graph);
  } catch (const Error&) {
    return results;  // the op does not take this type
  }
  const NodeProblem types(graph, id);
  Problem problem = types.problem();
  problem.gpu = &gpu;
  std::vector<Tensor> expected;
  for (const Kernel& kernel : op.cuda) {
    CheckResult result{
        .op = qualified(op), .case_name = op_case.name, .kernel = std::string(kernel.name), .message = {}};
    if (dtype != DType::none) result.case_name += fmt::format(" in {}", name(dtype));
    if (kernel.accepts) {
      if (const Acceptance accepts = kernel.accepts(problem); !accepts) {
        result.outcome = CheckResult::skipped;
        result.message = accepts.reason();
        results.push_back(result);
        continue;
      }
    }
    std::vector<std::string> variants = kernel.variants ? kernel.variants(problem) : std::vector<std::string>();
    if (variants.size() < 2) variants = {""};
    for (const std::string& variant : variants) {
      CheckResult one = result;
      if (!variant.empty()) one.kernel += " " + variant;
      try {
        if (expected.empty()) expected = evaluate(case_node(op, op_case), tensors, op.cpu.back().name);
        NodeOnGpu node(gpu);
        compare(node.run(kernel, variant, problem, tensors), node.run(kernel, variant, problem, tensors), expected,
                op_case.tolerance, one);
      } catch (const Error& error) {
        one.message = error.what();
      }
      one.outcome = one.message.empty() ? CheckResult::passed : CheckResult::failed;
      results.push_back(one);
    }
  }
  return results;
}

std::vector<CheckResult> check_op_on_gpu(const OpDef& op, uint64_t seed, GpuDevice& gpu) {
  std::vector<CheckResult> results;
  for (const OpCase& op_case : op.cases()) {
    for (const DType dtype : {DType::none, DType::f16, DType::bf16}) {
      const auto of_case = check_case_on_gpu(op, op_case, seed, gpu, dtype);
      results.insert(results.end(), of_case.begin(), of_case.end());
    }
  }
  return results;
}

std::vector<CheckResult> check_ops_on_gpu(const std::string& filter, uint64_t seed, GpuDevice& gpu) {
  std::vector<CheckResult> results;
  for (const OpDef* op : all_ops()) {
    if (op->cuda.empty() || op->cpu.empty() || !op->cases || qualified(*op).find(filter) == std::string::npos) continue;
    const auto of_op = check_op_on_gpu(*op, seed, gpu);
    results.insert(results.end(), of_op.begin(), of_op.end());
  }
  return results;
}

}  // namespace sparkpilot
