#include "ops/cuda/candidates.h"

#include <array>

#include "ops/cuda/rows.h"

namespace sparkpilot::cuda {

std::optional<std::string_view> storage_suffix(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    default: return {};
  }
}

std::unique_ptr<OneLaunch> one_launch(const Problem& problem, const std::string& kernel, const GpuLaunch& how) {
  auto state = std::make_unique<OneLaunch>();
  state->function = &kernel_on(*problem.gpu, kernel, static_cast<int64_t>(how.shared_bytes));
  state->how = how;
  return state;
}

namespace {

SoftmaxArguments softmax_of(const Shape& shape) {
  const int64_t size = shape[shape.rank() - 1];
  return {nullptr, nullptr, size ? shape.elements() / size : 0, static_cast<int>(size)};
}

Acceptance accepts_softmax(const Problem& p) {
  const Shape& shape = p.inputs[0].shape;
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (normalize_axis(p.attrs().integer("axis", -1), shape.rank()) != shape.rank() - 1) return "not along the last axis";
  if (shape.elements() == 0) return "empty input";
  const SoftmaxArguments arguments = softmax_of(shape);
  return shape[shape.rank() - 1] < int64_t{1} << 31 && arguments.rows < int64_t{1} << 31;
}

constexpr std::array kSoftmax = {Kernel{
    .name = "rows",
    .accepts = accepts_softmax,
    .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> {
      const std::string name = fmt::format("softmax_{}", *storage_suffix(p.inputs[0].dtype));
      return one_launch(p, name, softmax_launch(softmax_of(p.inputs[0].shape)));
    },
    .run =
        [](const Call& c) {
          SoftmaxArguments arguments = softmax_of(c.inputs[0].shape);
          arguments.x = c.inputs[0].data;
          arguments.y = c.outputs[0].data;
          const auto& state = c.as<OneLaunch>();
          c.stream->launch(*state.function, state.how, arguments);
        },
}};

}  // namespace

std::span<const Kernel> softmax_candidates() { return kSoftmax; }

}  // namespace sparkpilot::cuda
