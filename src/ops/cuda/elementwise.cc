#include "ops/cuda/elementwise.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot::cuda {

ElementwiseArguments make_elementwise(void* y, ElementType type, const std::vector<int64_t>& sizes,
                                      const std::vector<ElementwiseInput>& inputs,
                                      const std::vector<ElementwiseStep>& steps) {
  if (inputs.empty() || inputs.size() > ElementwiseArguments::kMostOperands ||
      steps.size() > ElementwiseArguments::kMostSteps) {
    fail_internal("{} operands and {} steps for an elementwise kernel", inputs.size(), steps.size());
  }
  StridedLoops loops{.sizes = sizes, .strides = {contiguous_strides(sizes)}};
  for (const ElementwiseInput& input : inputs) {
    loops.strides.push_back(input.strides.empty() ? broadcast_strides(input.sizes, sizes) : input.strides);
  }
  loops = loops.merged();
  ElementwiseArguments out{};
  out.y = y, out.type = type;
  out.dimensions = make_dimensions(loops);
  out.elements = static_cast<int>(loops.elements());
  out.width = element_bytes(type) >= 4 ? 4 : 8;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (element_bytes(inputs[i].type) >= 4 && loops.strides[i + 1].back() != 0) out.width = 4;
  }
  const int64_t row = (loops.sizes.back() + out.width - 1) / out.width;
  out.vectors_of_a_row = make_divisor(std::max<int64_t>(row, 1));
  out.vectors = static_cast<unsigned>(row * (out.elements / std::max<int64_t>(loops.sizes.back(), 1)));
  out.operand_count = static_cast<int>(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.operands[i].data = inputs[i].data, out.operands[i].type = inputs[i].type;
    set_strides(out.operands[i].strides, loops.strides[i + 1]);
  }
  out.step_count = static_cast<int>(steps.size());
  std::copy(steps.begin(), steps.end(), out.steps);
  return out;
}

bool elementwise_wide_accepts(const ElementwiseArguments& arguments) {
  const auto wide = [&](const void* data, ElementType type) {
    return is_aligned(data, std::min(16, arguments.width * element_bytes(type)));
  };
  const auto width = static_cast<unsigned>(arguments.width);
  const bool rows_aligned = arguments.dimensions.rank == 1 || arguments.dimensions.sizes[0].size % width == 0;
  bool accepts = wide(arguments.y, arguments.type) && rows_aligned;
  for (int i = 0; i < arguments.operand_count && accepts; ++i) {
    const ElementwiseOperand& operand = arguments.operands[i];
    if (operand.strides[0] == 0) continue;
    accepts = operand.strides[0] == 1 && wide(operand.data, operand.type);
    for (int k = 1; k < arguments.dimensions.rank; ++k) accepts &= operand.strides[k] % arguments.width == 0;
  }
  return accepts;
}

namespace {

// Small blocks where there would be fewer than a GPU has multiprocessors.
KernelLaunch launch(unsigned count) {
  const unsigned threads = count < 128 * 192 ? 32 : 128;
  return {.grid_x = (count + threads - 1) / threads, .threads = threads};
}

}  // namespace

KernelLaunch elementwise_wide_launch(const ElementwiseArguments& arguments) { return launch(arguments.vectors); }
KernelLaunch elementwise_launch(const ElementwiseArguments& arguments) {
  return launch(static_cast<unsigned>(arguments.elements));
}

}  // namespace sparkpilot::cuda
