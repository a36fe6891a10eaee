#include "ops/cuda/quantize_candidates.h"

#include <algorithm>

#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/quantize.h"

namespace sparkpilot::cuda {
namespace {

struct State : KernelState {
  const GpuFunction* function = nullptr;
  QuantizeArguments arguments{};
};

std::optional<ByteCode> code_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return ByteCode::u8;
    case DType::i8: return ByteCode::i8;
    case DType::f8e4m3fn: return ByteCode::e4m3;
    default: return {};
  }
}

// Both ops: numbers on one side, codes on the other.
Acceptance accepts(const Problem& p, const TensorType& numbers, const TensorType& codes) {
  if (!storage_suffix(numbers.dtype)) return fmt::format("{} numbers", name(numbers.dtype));
  if (!code_of(codes.dtype)) return fmt::format("{} codes", name(codes.dtype));
  if (p.inputs[1].dtype != DType::f32) return fmt::format("{} scale", name(p.inputs[1].dtype));
  if (p.inputs[1].shape.elements() != 1 || p.attrs().integer("block_size", 0) != 0) return "more than one scale";
  if (!p.is_constant(1) || (p.has(2) && !p.is_constant(2))) return "scale or zero point is not constant";
  if (codes.dtype == DType::f8e4m3fn && p.has(2) && p.constants[2].to_scalar() != 0) return "a zero point";
  return takes_elements(numbers.shape);
}

Acceptance accepts_quantize(const Problem& p) {
  if (p.attrs().integer("saturate", 1) == 0) return "does not saturate";
  if (const int64_t code = p.attrs().integer("precision", 0); code != 0 && code != onnx_code(DType::f32))
    return "divides in another type than f32";
  return accepts(p, p.inputs[0], p.outputs[0]);
}
Acceptance accepts_dequantize(const Problem& p) { return accepts(p, p.outputs[0], p.inputs[0]); }

std::unique_ptr<KernelState> prepare(const Problem& p, std::string_view kernel, const TensorType& numbers,
                                     const TensorType& codes) {
  auto state = std::make_unique<State>();
  state->function = &kernel_on(*p.gpu, kernel);
  state->consumed = uint64_t{1} << 1 | uint64_t{1} << 2;
  state->arguments = {.x = nullptr,
                      .codes = nullptr,
                      .type = *element_type(numbers.dtype),
                      .code = *code_of(codes.dtype),
                      .scale = p.constants[1].data<float>()[0],
                      .zero = p.has(2) ? static_cast<int>(p.constants[2].to_scalar()) : 0,
                      .elements = static_cast<int>(numbers.shape.elements())};
  return state;
}

void launch(const Call& c, const void* x, const void* codes) {
  const auto& state = c.as<State>();
  QuantizeArguments arguments = state.arguments;
  arguments.x = const_cast<void*>(x);
  arguments.codes = const_cast<void*>(codes);
  c.stream->launch(*state.function, quantize_launch(arguments.elements), arguments);
}

// Small floats with any scales, as frozen weights have in a training.
Acceptance accepts_scaled(const Problem& p) {
  const DType codes = p.inputs[0].dtype;
  if (codes != DType::f8e4m3fn && codes != DType::f4e2m1) return fmt::format("{} codes", name(codes));
  if (p.outputs[0].dtype != DType::f32) return fmt::format("{} numbers", name(p.outputs[0].dtype));
  if (p.inputs[1].dtype != DType::f32) return fmt::format("{} scale", name(p.inputs[1].dtype));
  if (p.has(2)) return "a zero point";
  return takes_elements(p.inputs[0].shape);
}

struct DecodeState : KernelState {
  const GpuFunction* function = nullptr;
  DecodeArguments arguments{};
};

std::unique_ptr<KernelState> prepare_scaled(const Problem& p) {
  const Shape &x = p.inputs[0].shape, &scale = p.inputs[1].shape;
  auto state = std::make_unique<DecodeState>();
  state->function = &kernel_on(*p.gpu, "decode_scaled");
  DecodeArguments& to = state->arguments;
  to.four_bits = p.inputs[0].dtype == DType::f4e2m1;
  to.elements = static_cast<int>(x.elements());
  to.size = to.inner = to.block = 1;
  const int64_t block = p.attrs().integer("block_size", 0);
  if (scale.elements() == 1 && scale.rank() <= 1 && block == 0) return state;  // one for all: no strides
  const int axis = normalize_axis(p.attrs().integer("axis", 1), x.rank());
  to.size = static_cast<int>(x[axis]), to.inner = static_cast<int>(x.elements(axis + 1, x.rank()));
  if (block == 0) {
    to.axis_stride = 1;
    return state;
  }
  to.block = static_cast<int>(std::min<int64_t>(block, to.size));
  to.inner_stride = 1, to.axis_stride = to.inner, to.outer_stride = static_cast<int>(scale[axis]) * to.inner;
  return state;
}

void launch_scaled(const Call& c) {
  const auto& state = c.as<DecodeState>();
  DecodeArguments arguments = state.arguments;
  arguments.codes = c.inputs[0].data, arguments.scales = c.inputs[1].as<float>();
  arguments.x = c.outputs[0].as<float>();
  c.stream->launch(*state.function, quantize_launch(arguments.elements), arguments);
}

Acceptance accepts_dynamic(const Problem& p) {
  if (p.inputs[0].shape.elements() > kMostDynamicElements)
    return "more than 2^20 elements, which one block goes through";
  return takes_elements(p.inputs[0].shape);
}

void launch_dynamic(const Call& c) {
  const DynamicQuantizeArguments arguments{.x = c.inputs[0].as<float>(),
                                           .codes = c.outputs[0].as<uint8_t>(),
                                           .scale = c.outputs[1].as<float>(),
                                           .zero = c.outputs[2].as<uint8_t>(),
                                           .elements = static_cast<int>(c.inputs[0].elements())};
  c.stream->launch(*c.as<State>().function, dynamic_quantize_launch(), arguments);
}

}  // namespace

constinit const Kernel kQuantize[1] = {
    {.name = "bytes",
     .accepts = accepts_quantize,
     .prepare = [](const Problem& p) { return prepare(p, "quantize", p.inputs[0], p.outputs[0]); },
     .run = [](const Call& c) { launch(c, c.inputs[0].data, c.outputs[0].data); }}};
constinit const Kernel kDequantize[2] = {
    {.name = "bytes",
     .accepts = accepts_dequantize,
     .prepare = [](const Problem& p) { return prepare(p, "dequantize", p.outputs[0], p.inputs[0]); },
     .run = [](const Call& c) { launch(c, c.outputs[0].data, c.inputs[0].data); }},
    {.name = "scaled", .accepts = accepts_scaled, .prepare = prepare_scaled, .run = launch_scaled}};
constinit const Kernel kDynamicQuantize[1] = {{.name = "block",
                                               .accepts = accepts_dynamic,
                                               .prepare = [](const Problem& p) -> std::unique_ptr<KernelState> {
                                                 auto state = std::make_unique<State>();
                                                 state->function = &kernel_on(*p.gpu, "dynamic_quantize");
                                                 return state;
                                               },
                                               .run = launch_dynamic}};

}  // namespace sparkpilot::cuda
