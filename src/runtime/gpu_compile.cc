#include "runtime/gpu_compile.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
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
    return 0;
  }
  fail("device: expected auto, cpu, cuda or cuda:N, got \"{}\"", device);
}

Tensor shared_zeros(GpuDevice& gpu, DType dtype, const Shape& shape) {
  const int64_t bytes = storage_bytes(dtype, shape.elements());
  Tensor out(dtype, shape, gpu.allocate(bytes, gpu.shared_place()), 0);
  std::memset(out.raw(), 0, static_cast<size_t>(bytes));
  return out;
}

CpuProgram compile_on_gpu(Graph bound, const SessionOptions& options, PlanOptions& plans, StateStore& states) {
  CpuProgram made{
      .plan = nullptr, .slices = nullptr, .threads = options.threads > 0 ? options.threads : available_processors()};
  const ThreadScope scope(made.threads);
  made.plan =
      std::make_unique<Plan>(optimised(std::move(bound), plans.passes, {.device = Device::cuda}), plans, states);
  if (options.say) {
    const std::vector<std::string> left = made.plan->nodes_left_to_cpu();
    if (!left.empty()) options.say(fmt::format("{} nodes run on the CPU, the first is {}", left.size(), left.front()));
  }
  return made;
}

}  // namespace sparkpilot
