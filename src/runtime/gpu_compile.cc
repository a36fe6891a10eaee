#include "runtime/gpu_compile.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "hw/device_facts.h"
#include "runtime/kernel_tuner.h"
#include "tensor/gpu.h"

namespace sparkpilot {

std::optional<int> gpu_of_device(const std::string& device) {
  if (device == "auto" || device == "cpu") return {};
  int ordinal = 0;
  if (device.starts_with("cuda:")) {
    const char* const end = device.data() + device.size();
    const auto [stop, error] = std::from_chars(device.data() + 5, end, ordinal);
    if (error == std::errc() && stop == end && ordinal >= 0) return ordinal;
  } else if (device == "cuda") {
    return ask_device_facts().best_gpu;
  }
  fail("device: expected auto, cpu, cuda or cuda:N, got \"{}\"", device);
}

namespace {

struct Bytes {
  int64_t weights = 0, activations = 0;
};

// What a graph needs at least, whatever its kernels are: all constants, and the node with the most around it.
Bytes least_bytes(const Graph& graph) {
  const auto bytes_of = [&](ValueId id) -> int64_t {
    if (!id.present()) return 0;
    const Value& v = graph.value(id);
    return v.shape && v.kind != ValueKind::constant ? storage_bytes(v.dtype, v.shape->elements()) : 0;
  };
  Bytes out;
  for (int i = 0; i < graph.value_count(); ++i) {
    if (const Tensor* const constant = graph.constant(ValueId{i})) out.weights += constant->bytes();
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->traits.view) continue;
    int64_t around = 0;
    std::set<int> seen;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId value : *values) {
        if (seen.insert(value.index).second) around += bytes_of(value);
      }
    }
    for (size_t i = 0; i < node.outputs.size() && node.op->traits.in_place; ++i) {
      const int over = node.op->traits.in_place(node, static_cast<int>(i));
      int64_t shared = 0;
      for (int input = 0; input < std::ssize(node.inputs); ++input) {
        if (over == input || over == kAnyInput)
          shared = std::max(shared, bytes_of(node.inputs[static_cast<size_t>(input)]));
      }
      around -= std::min(shared, bytes_of(node.outputs[i]));
    }
    out.activations = std::max(out.activations, around);
  }
  return out;
}

}  // namespace

std::string ptx_text(const GpuFacts& gpu, int64_t ptx_ns) {
  return fmt::format(
      "{}: the driver compiled kernels from PTX in {} ms, since this program has no machine code for compute "
      "capability {}.{}",
      gpu.name, ptx_ns / 1'000'000, gpu.capability / 10, gpu.capability % 10);
}

CpuProgram compile_on_gpu(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states) {
  CpuProgram made{
      .plan = nullptr, .slices = nullptr, .threads = options.threads > 0 ? options.threads : available_processors()};
  const ThreadScope scope(made.threads);
  Graph graph = optimised(std::move(bound), plans.passes, {.device = Device::cuda});
  const int64_t ptx = plans.gpu->ptx_ns();
  KernelTuner(options, plans).tune(graph, made.threads);
  const Bytes least = least_bytes(graph);
  const GpuLoad load(
      *plans.gpu, least.weights + least.activations,
      fmt::format("at least, for weights ({:.3f} GB) and activations ({:.3f} GB)",
                  static_cast<double>(least.weights) / 1e9, static_cast<double>(least.activations) / 1e9));
  made.plan = std::make_unique<Plan>(std::move(graph), plans, states);
  const int64_t compiling = plans.gpu->ptx_ns() - ptx;
  plans.ptx_ns += compiling;
  if (options.say && compiling > 0) options.say(ptx_text(plans.gpu->facts(), compiling));
  if (options.say) {
    const std::vector<std::string> left = made.plan->nodes_left_to_cpu();
    if (left.size() == 1) options.say("1 node runs on the CPU: " + left.front());
    if (left.size() > 1)
      options.say(fmt::format("{} nodes run on the CPU, the first is {}", left.size(), left.front()));
  }
  return made;
}

}  // namespace sparkpilot
