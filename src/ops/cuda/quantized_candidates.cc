#include "ops/cuda/quantized_candidates.h"

#include <algorithm>
#include <numeric>

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/gemm/matmul_shape.h"
#include "ops/cpu/int8/int8_conv.h"
#include "ops/cuda/byte_conv_candidates.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/product_weights.h"
#include "ops/cuda/quantized.h"
#include "tensor/gpu.h"

namespace sparkpilot::cuda {
namespace {

bool is_signed_byte(const TensorType& type) { return type.dtype == DType::i8; }

// --- products and convolutions: inputs X, W, multiplier, bias or absent, shift or absent, x_zero or absent
constexpr size_t kZero = 5;  // x_zero

struct Weights {
  std::shared_ptr<Buffer> codes, start, multiplier, shift, sums;
};
template <typename Arguments>
struct ProductState : KernelState {
  const GpuFunction* function = nullptr;
  GpuLaunch how;
  Weights weights;
  Arguments arguments{};
};

Acceptance accepts_product(const Problem& p, int64_t depth, int64_t rows) {
  if (depth == 0) return "empty";
  if (rows > kMostByteRows) return "more rows than a launch has blocks for";
  if (depth > kInt8MaxDepth) return "sums may overflow";
  for (const size_t i : {1, 2, 3, 4}) {
    if (p.has(i) && !p.is_constant(i)) return "weights are not constant";
  }
  if (p.has(3)) {
    for (const int32_t bias : p.constants[3].data<int32_t>()) {
      if (bias < -kInt8MaxBias || bias > kInt8MaxBias) return "sums may overflow";
    }
  }
  return takes_elements(p.outputs[0].shape);
}

ByteResult::Type result_type(DType dtype) {
  switch (dtype) {
    case DType::u8: return ByteResult::u8;
    case DType::i8: return ByteResult::i8;
    case DType::i32: return ByteResult::i32;
    default: return ByteResult::f32;
  }
}

// Of X as i8: what is flipped of it, and its zero point; 0 if that is computed in the run.
struct Flip {
  unsigned flip = 0;
  int zero = 0;
  bool at_run = false;
  explicit Flip(const Problem& p)
      : flip(is_signed_byte(p.inputs[0]) ? 0 : 0x80808080u), at_run(p.has(kZero) && !p.is_constant(kZero)) {
    if (at_run) return;
    const double x_zero = p.has(kZero) ? p.constants[kZero].to_scalar() : QuantizedOutput::of(p.attrs()).x_zero;
    zero = static_cast<int>(x_zero) - (flip ? 128 : 0);
  }
};

// Uploads all but the codes; `sums`: of each column's weights.
ByteResult upload_result(const Problem& p, std::span<const int64_t> sums, Weights& to, uint64_t& consumed) {
  const QuantizedOutput q = QuantizedOutput::of(p.attrs());
  const Flip flip(p);
  std::vector<int32_t> start(sums.size());
  for (size_t c = 0; c < sums.size(); ++c) {
    const int64_t bias = p.has(3) ? p.constants[3].data<int32_t>()[c] : 0;
    start[c] = static_cast<int32_t>(bias - flip.zero * sums[c]);
  }
  const auto bytes = static_cast<int64_t>(sums.size() * 4);
  to.start = p.gpu->upload(start.data(), bytes);
  to.multiplier = p.gpu->upload(p.constants[2].raw(), bytes);
  if (p.has(4)) to.shift = p.gpu->upload(p.constants[4].raw(), bytes);
  if (flip.at_run) {
    const std::vector<int32_t> whole(sums.begin(), sums.end());
    to.sums = p.gpu->upload(whole.data(), bytes);
  }
  for (const int input : {1, 2, 3, 4}) consumed |= uint64_t{1} << input;
  return {.type = result_type(q.dtype),
          .flip = flip.flip,
          .start = reinterpret_cast<const int*>(to.start->data()),
          .multiplier = reinterpret_cast<const float*>(to.multiplier->data()),
          .shift = to.shift ? reinterpret_cast<const float*>(to.shift->data()) : nullptr,
          .low = static_cast<float>(q.low),
          .high = static_cast<float>(q.high),
          .zero = static_cast<float>(q.zero),
          .x_zero = nullptr,
          .weight_sums = to.sums ? reinterpret_cast<const int*>(to.sums->data()) : nullptr};
}

MatMulShape shape_of(const Problem& p) {
  return gemm_shape(p.inputs[0].shape, p.inputs[1].shape, false, p.attrs().integer("transB", 0) != 0);
}

std::vector<int64_t> sums_of_columns(const int8_t* weights, const MatMulShape& s) {
  std::vector<int64_t> out(static_cast<size_t>(s.n));
  for (int64_t j = 0; j < s.n; ++j) {
    for (int64_t l = 0; l < s.k; ++l) out[static_cast<size_t>(j)] += weights[l * s.b_row + j * s.b_col];
  }
  return out;
}

Acceptance accepts_gemm(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  if (x.elements() == 0) return "empty";
  return accepts_product(p, x[x.rank() - 1], x.elements() / x[x.rank() - 1]);
}

std::unique_ptr<KernelState> prepare_gemm(const Problem& p) {
  auto state = std::make_unique<ProductState<QGemmArguments>>();
  const MatMulShape s = shape_of(p);
  const int8_t* const weights = p.constants[1].data<int8_t>().data();
  state->weights.codes = upload_byte_rows(*p.gpu, reinterpret_cast<const uint8_t*>(weights), s);
  QGemmArguments& to = state->arguments;
  to.result = upload_result(p, sums_of_columns(weights, s), state->weights, state->consumed);
  to.codes = reinterpret_cast<const uint8_t*>(state->weights.codes->data());
  to.m = static_cast<int>(s.m), to.n = static_cast<int>(s.n), to.k = static_cast<int>(s.k);
  to.code_bytes = byte_gemm_depth(s.k);
  to.a_stride = s.k, to.y_stride = s.n;
  state->function = &kernel_on(*p.gpu, fmt::format("qgemm_{}", byte_gemm_rows(to.m)));
  state->how = byte_gemm_launch(to.m, to.n);
  return state;
}

template <typename Arguments>
void run_product(const Call& call) {
  const auto& state = call.as<ProductState<Arguments>>();
  Arguments arguments = state.arguments;
  arguments.a = static_cast<const uint8_t*>(call.inputs[0].data);
  arguments.y = call.outputs[0].data;
  if (state.weights.sums) arguments.result.x_zero = static_cast<const uint8_t*>(call.inputs[kZero].data);
  call.stream->launch(*state.function, state.how, arguments);
}

// --- convolutions
ConvShape conv_of(const Problem& p) { return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true); }

bool filters_channels(const ConvShape& s) { return s.groups > 1 && s.in_per_group() == 1; }

Acceptance accepts_conv(const Problem& p, bool depthwise) {
  if (p.attrs().integer("channels_last", 0) == 0) return "channels first";
  const ConvShape s = conv_of(p);
  if (depthwise != filters_channels(s)) return depthwise ? "not depthwise" : "depthwise";
  if (!depthwise && s.groups != 1) return "groups";
  if (Acceptance takes = takes_window(s.window); !takes) return takes;
  if (Acceptance takes = takes_elements(p.inputs[0].shape); !takes) return takes;
  return accepts_product(p, s.in_per_group() * s.window.kernel_size(), s.batch * s.window.out_size());
}

// The sum of each output channel's weights.
std::vector<int64_t> sums_of_filters(const ConvShape& s, const int8_t* weights) {
  const int64_t each = s.weights() / s.out_channels;
  std::vector<int64_t> out(static_cast<size_t>(s.out_channels));
  for (size_t o = 0; o < out.size(); ++o)
    out[o] = std::accumulate(weights, weights + each, int64_t{0}), weights += each;
  return out;
}

// Weights of (output channel, tap) as (tap, output channel).
std::vector<uint8_t> depthwise_codes(const ConvShape& s, const uint8_t* weights) {
  const int64_t taps = s.window.kernel_size();
  std::vector<uint8_t> out(static_cast<size_t>(s.weights()));
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t tap = 0; tap < taps; ++tap)
      out[static_cast<size_t>(tap * s.out_channels + o)] = weights[o * taps + tap];
  }
  return out;
}

std::unique_ptr<KernelState> prepare_conv(const Problem& p) {
  auto state = std::make_unique<ProductState<QConvArguments>>();
  const ConvShape s = conv_of(p);
  QConvArguments& to = state->arguments;
  set_byte_conv(s, to);
  const int8_t* const weights = p.constants[1].data<int8_t>().data();
  const auto* const bytes = reinterpret_cast<const uint8_t*>(weights);
  const std::vector<uint8_t> codes =
      filters_channels(s) ? depthwise_codes(s, bytes) : byte_conv_rows(s, bytes, to.code_bytes);
  state->weights.codes = p.gpu->upload(codes.data(), static_cast<int64_t>(codes.size()));
  to.codes = reinterpret_cast<const uint8_t*>(state->weights.codes->data());
  to.result = upload_result(p, sums_of_filters(s, weights), state->weights, state->consumed);
  to.padding = static_cast<uint8_t>(Flip(p).zero) * 0x01010101u;
  if (filters_channels(s)) {
    const int unit = qdepthwise_unit(to.size);
    state->function = &kernel_on(*p.gpu, fmt::format("qdepthwise_{}", unit));
    state->how = qdepthwise_launch(to, unit);
  } else {
    state->function = &kernel_on(*p.gpu, fmt::format("qconv_{}_{}", byte_conv_unit(to.size), byte_conv_pixels(to.k)));
    state->how = byte_conv_launch(to.m, to.n, to.k);
  }
  return state;
}

// --- between them
template <typename Arguments>
struct ElementsState : KernelState {
  const GpuFunction* function = nullptr;
  std::shared_ptr<Buffer> table;
  Arguments arguments{};
};

Acceptance accepts_elements(const Problem& p) { return takes_elements(p.outputs[0].shape); }

std::unique_ptr<KernelState> prepare_add(const Problem& p) {
  auto state = std::make_unique<ElementsState<QAddArguments>>();
  const Attributes& attrs = p.attrs();
  const auto integer = [&](const char* key) { return static_cast<int>(attrs.integer(key, 0)); };
  const int zero = integer("y_zero"), least = is_signed_byte(p.outputs[0]) ? -128 : 0;
  state->function = &kernel_on(*p.gpu, "qadd");
  state->arguments = {.a = nullptr,
                      .b = nullptr,
                      .y = nullptr,
                      .a_signed = is_signed_byte(p.inputs[0]),
                      .b_signed = is_signed_byte(p.inputs[1]),
                      .a_zero = integer("a_zero"),
                      .b_zero = integer("b_zero"),
                      .zero = zero,
                      .a_scale = attrs.real("a_scale", 1),
                      .b_scale = attrs.real("b_scale", 1),
                      .low = static_cast<float>(attrs.integer("low", least) - zero),
                      .high = static_cast<float>(attrs.integer("high", least + 255) - zero),
                      .elements = static_cast<int>(p.outputs[0].shape.elements())};
  return state;
}

void run_add(const Call& call) {
  const auto& state = call.as<ElementsState<QAddArguments>>();
  QAddArguments arguments = state.arguments;
  arguments.a = call.inputs[0].data, arguments.b = call.inputs[1].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, byte_elements_launch(arguments.elements), arguments);
}

std::unique_ptr<KernelState> prepare_table(const Problem& p) {
  auto state = std::make_unique<ElementsState<ByteTableArguments>>();
  state->table = p.gpu->upload(p.attrs().tensor("table").raw(), 256);
  state->function = &kernel_on(*p.gpu, "byte_table");
  state->arguments = {.table = reinterpret_cast<const uint8_t*>(state->table->data()),
                      .x = nullptr,
                      .y = nullptr,
                      .elements = static_cast<int>(p.outputs[0].shape.elements())};
  return state;
}

void run_table(const Call& call) {
  const auto& state = call.as<ElementsState<ByteTableArguments>>();
  ByteTableArguments arguments = state.arguments;
  arguments.x = call.inputs[0].data;
  arguments.y = call.outputs[0].data;
  call.stream->launch(*state.function, byte_elements_launch(arguments.elements), arguments);
}

}  // namespace

constinit const Kernel kQGemm[1] = {
    {.name = "mma", .accepts = accepts_gemm, .prepare = prepare_gemm, .run = run_product<QGemmArguments>}};
constinit const Kernel kQConv[2] = {{.name = "mma",
                                     .accepts = [](const Problem& p) { return accepts_conv(p, false); },
                                     .prepare = prepare_conv,
                                     .run = run_product<QConvArguments>},
                                    {.name = "depthwise",
                                     .accepts = [](const Problem& p) { return accepts_conv(p, true); },
                                     .prepare = prepare_conv,
                                     .run = run_product<QConvArguments>}};
constinit const Kernel kQAdd[1] = {
    {.name = "elements", .accepts = accepts_elements, .prepare = prepare_add, .run = run_add}};
constinit const Kernel kByteTable[1] = {
    {.name = "elements", .accepts = accepts_elements, .prepare = prepare_table, .run = run_table}};
}  // namespace sparkpilot::cuda
