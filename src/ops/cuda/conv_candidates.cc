#include "ops/cuda/conv_candidates.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/conv_weights.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/depthwise.h"
#include "ops/cuda/host_epilogue.h"
#include "ops/cuda/plans.h"
#include "ops/cuda/window_candidates.h"
#include "tensor/finite.h"

namespace sparkpilot::cuda {

ConvSizes conv_sizes(const ConvShape& shape) {
  ConvSizes out;
  set_window(shape.window, out);
  out.batch = static_cast<int>(shape.batch);
  out.channels = static_cast<int>(shape.in_channels);
  out.out_channels = static_cast<int>(shape.out_channels);
  out.groups = static_cast<int>(shape.groups);
  return out;
}

namespace {

// All but elements read images with channels last: others are transposed first.
enum class Way { tiles, elements, depthwise, grouped };

struct ConvProblem {
  Storage storage;  // of what is computed; the image may have another
  ConvShape shape;
  bool image_last = false;  // the image has channels last
  bool moves = false;       // the output has channels first, and is not the same with channels last
  sparkpilot::Epilogue epilogue;
  // A transposed convolution is one by the turned weights at stride 1. Where it has strides, zeros are put between the
  // pixels first, and `shape` is about the image with these.
  std::optional<ConvShape> transposed;
  bool spreads = false;

  explicit ConvProblem(const Problem& p) : storage(storage_of(p.outputs[0].dtype)) {
    const bool last = p.attrs().integer("channels_last", 0) != 0;
    if (p.node->op->name == "ConvTranspose")
      turn(conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape));
    else shape = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, last);
    const bool same = shape.window.in_size() == 1 || shape.in_channels == 1;
    image_last = same || spreads || (last && p.attrs().integer("x_channels_first", 0) == 0);
    moves = !last && shape.window.out_size() > 1 && shape.out_channels > 1;
    epilogue = sparkpilot::Epilogue::of(p, shape.out_channels);
  }
  void turn(const ConvShape& from) {
    transposed = shape = from;
    KernelWindow& w = shape.window;
    for (size_t i = 0; i < w.in.size(); ++i) {
      spreads |= w.stride[i] > 1 && w.in[i] > 1;
      w.in[i] = (w.in[i] - 1) * w.stride[i] + 1;
      w.pad_begin[i] = w.dilation[i] * (w.kernel[i] - 1) - w.pad_begin[i];
      w.stride[i] = 1;
    }
    if (!spreads) return;
    const Shape with_zeros = make_image_shape(shape.batch, shape.in_channels, w.spatial(w.in), true);
    shape.x = image_shape(with_zeros, true).strides;
  }
  // Where each row of the kernel begins where the one beside it ends, in pixels that lie together, the row is one pixel
  // of more channels. The weights are packed the same.
  bool joins() const {
    const ConvSizes s = conv_sizes(shape);
    return image_last && s.groups == 1 && s.kernel_width > 1 && s.stride_width == s.kernel_width &&
           s.dilation_width == 1 && s.pad_left == 0 && s.width % s.kernel_width == 0;
  }
  ConvSizes sizes() const {
    ConvSizes out = conv_sizes(shape);
    if (!joins()) return out;
    out.width /= out.kernel_width;
    out.channels *= out.kernel_width;
    out.kernel_width = out.stride_width = 1;
    return out;
  }
};

struct ConvState : KernelState {
  const GpuFunction *function = nullptr, *sum = nullptr, *transpose = nullptr;
  bool direct = false;  // the function is a direct_gemm
  GpuLaunch launch;
  std::shared_ptr<Buffer> weights, bias;
  sparkpilot::Epilogue epilogue;
  ConvArguments arguments{};
  // To channels last and back. In the workspace: weights that are packed in each run, the image transposed or with
  // zeros between its pixels, the output before it is transposed, partial sums.
  std::optional<TransposeArguments> image, output;
  std::optional<ConvWeightsArguments> packs;
  std::optional<CopyArguments> spread, spread_elements;  // the second where the image begins at no multiple of 16
  const GpuFunction *pack = nullptr, *copy = nullptr;
  int64_t image_offset = 0, output_offset = 0, partial_offset = 0;
};

Acceptance takes_operands(const Problem& p) {
  const DType weights = p.inputs[1].dtype;
  if (!storage_suffix(p.outputs[0].dtype)) return fmt::format("{} output", name(p.outputs[0].dtype));
  if (!storage_suffix(weights)) return fmt::format("{} weights", name(weights));
  if (!p.is_constant(1) && (weights != DType::f32 || p.outputs[0].dtype != DType::f32)) {
    return "weights are not constant, and of 16 bits";
  }
  if (p.has(2) && !p.is_constant(2) && p.inputs[2].dtype != DType::f32) return "a bias of 16 bits that is not constant";
  for (const TensorType* type : {&p.inputs[0], &p.inputs[1], &p.outputs[0]}) {
    if (const Acceptance takes = takes_elements(type->shape); !takes) return takes;
  }
  return true;
}

// Where the weights are in ONNX's order, and the order that kernels read them in.
ConvWeightsArguments order_of(const ConvProblem& conv, bool dense) {
  const ConvShape& s = conv.shape;
  const ConvSizes sizes = conv_sizes(s);
  const int taps = sizes.kernel_height * sizes.kernel_width;
  const auto channels = static_cast<int>(s.in_per_group()), outputs = static_cast<int>(s.out_per_group());
  const size_t bytes = dense ? conv_weight_bytes(sizes, Storage::f32) : grouped_weight_bytes(sizes, Storage::f32);
  return {.from = nullptr,
          .to = nullptr,
          .elements = static_cast<unsigned>(bytes / 4),
          .taps = taps,
          .together = make_divisor(dense ? 16 : 1),
          .outputs = make_divisor(s.out_channels),
          .channels = make_divisor(channels),
          .of_group = make_divisor(outputs),
          .group_stride = outputs * channels * taps,
          .output_stride = conv.transposed ? taps : channels * taps,
          .channel_stride = conv.transposed ? outputs * taps : taps,
          .turned = conv.transposed.has_value()};
}

// Constant ones, in the type that they are multiplied in, as a convolution has them.
Tensor weights_of(const Problem& p, const ConvProblem& conv) {
  const Tensor& constant = p.constants[1];
  const Tensor weights = constant.dtype() == p.outputs[0].dtype ? constant : convert(constant, p.outputs[0].dtype);
  if (!conv.transposed) return weights;
  const ConvWeightsArguments order = order_of(conv, false);
  const int64_t bytes = storage_bytes(weights.dtype(), 1), per_group = conv.shape.out_per_group();
  Tensor out(weights.dtype(), weights.shape());
  auto* to = static_cast<std::byte*>(out.raw());
  for (int64_t o = 0; o < conv.shape.out_channels; ++o) {
    for (int64_t channel = 0; channel < conv.shape.in_per_group(); ++channel) {
      for (int64_t tap = 0; tap < order.taps; ++tap, to += bytes) {
        const int64_t from = o / per_group * order.group_stride + o % per_group * order.output_stride +
                             channel * order.channel_stride + order.taps - 1 - tap;
        std::memcpy(to, static_cast<const std::byte*>(weights.raw()) + from * bytes, static_cast<size_t>(bytes));
      }
    }
  }
  return out;
}

// The output's transposition, and operands of the epilogue that have its layout.
Acceptance takes_move(const ConvProblem& conv) {
  if (!conv.moves) return true;
  if (conv.shape.window.out_size() > 1 << 20) return "planes of more than 2^20 pixels";
  for (const sparkpilot::Epilogue::Step& step : conv.epilogue.steps()) {
    if (step.operand == sparkpilot::Epilogue::Step::full && conv.shape.batch > 1) {
      return "several images with channels first and an operand of that size";
    }
  }
  return true;
}

Acceptance takes_way(const Problem& p, const ConvProblem& conv, Way way) {
  const ConvSizes sizes = conv.sizes();
  const Storage storage = conv.storage;
  const DType image = p.inputs[0].dtype;
  if (image != p.outputs[0].dtype && (way != Way::elements || (image != DType::f32 && image != DType::u8)))
    return fmt::format("{} image", name(image));
  const bool dense = way == Way::tiles || way == Way::elements;
  if (dense && sizes.groups != 1) return "groups";
  // All but `grouped` multiply them by the zeros beyond the image's border. Those that are known at run time only are
  // taken as finite: if they are not, results at the border are not either.
  const bool finite = !p.is_constant(1) || all_finite(p.constants[1].view());
  if (way != Way::grouped && !finite) return "weights are not finite";
  if (way == Way::grouped && sizes.groups == 1 && finite) return "one group";
  switch (way) {
    case Way::tiles:
      if (conv_pieces_accepts(sizes, storage)) return true;
      return "channels in no whole pieces of 16 bytes, or too large";
    case Way::elements:
      if (conv_accepts(sizes)) return true;
      return "too large";
    case Way::depthwise:
      if (p.has(2) && !p.is_constant(2) && storage != Storage::f32) return "bias is not constant";
      if (depthwise_accepts(sizes, storage)) return true;
      return "more than two filters a channel, a kernel other than 3x3, 5x5 and 7x7, channels in no whole pieces of 16 "
             "bytes, or too large";
    default:
      if (grouped_accepts(sizes)) return true;
      return "too large";
  }
}

template <Way kWay>
Acceptance accepts(const Problem& p) {
  if (const Acceptance takes = takes_operands(p); !takes) return takes;
  const ConvProblem conv(p);
  if (std::max({conv.shape.batch, conv.shape.in_channels, conv.shape.out_channels}) > 65535) {
    return "more than 65535 images or channels";
  }
  if (const Acceptance takes = takes_window(conv.shape.window); !takes) return takes;
  if (std::ranges::any_of(conv.shape.window.pad_begin, [](int64_t pad) { return pad < 0; })) {
    return "pads larger than the window";
  }
  if (conv.spreads) {
    if (conv.shape.batch * conv.shape.window.in_size() * conv.shape.in_channels > std::numeric_limits<int>::max())
      return "too large with zeros between its pixels";
    if (p.inputs[0].dtype != p.outputs[0].dtype) return "image and output of two types";
  }
  if (const Acceptance takes = takes_epilogue(conv.epilogue); !takes) return takes;
  if (const Acceptance takes = takes_move(conv); !takes) return takes;
  return takes_way(p, conv, kWay);
}

// Weights as the kernels read them.
std::shared_ptr<Buffer> pack_weights(const Problem& p, const ConvProblem& conv, bool dense) {
  const ConvSizes sizes = conv_sizes(conv.shape);
  const Storage storage = conv.storage;
  const Tensor weights = weights_of(p, conv);
  const size_t bytes = dense ? conv_weight_bytes(sizes, storage) : grouped_weight_bytes(sizes, storage);
  std::vector<std::byte> packed(bytes);
  if (dense) pack_conv_weights(sizes, storage, weights.raw(), packed.data());
  else pack_grouped_weights(sizes, storage, weights.raw(), packed.data());
  return p.gpu->upload(packed.data(), static_cast<int64_t>(bytes));
}

// Which kernel computes it, into state.function, launch and sum; returns the bytes of partial sums.
int64_t choose(const Problem& p, const ConvSizes& sizes, Way way, std::string_view variant, ConvState& state) {
  const DType dtype = p.outputs[0].dtype;
  const Storage storage = storage_of(dtype);
  const std::string suffix(*storage_suffix(dtype));
  const int multiprocessors = p.gpu->facts().multiprocessors;
  std::string kernel = "grouped_" + suffix;
  int64_t partial = 0;
  state.sum = nullptr;
  state.direct = false;
  if (way == Way::depthwise) {
    const DepthwisePlan plan = plan_of(depthwise_plans(sizes, storage, multiprocessors), variant);
    kernel = plan.name(storage);
    state.launch = plan.launch(sizes, storage);
  } else if (way == Way::grouped) {
    state.launch = grouped_launch(sizes);
  } else {
    const ConvPlan plan =
        plan_of(conv_plans(sizes, storage, multiprocessors, way == Way::tiles, p.is_constant(1)), variant);
    kernel = plan.kernel(storage);
    state.launch = plan.launch(sizes);
    state.arguments.splits = plan.splits;
    state.direct = plan.direct.has_value();
    partial = static_cast<int64_t>(plan.partial_bytes(sizes));
    if (plan.splits > 1) state.sum = &kernel_on(*p.gpu, "conv_sum_" + suffix);
  }
  state.function = &kernel_on(*p.gpu, kernel, static_cast<int64_t>(state.launch.shared_bytes));
  return partial;
}

// Bytes of a part of the workspace.
int64_t part(const TensorType& type) { return workspace_part(storage_bytes(type.dtype, type.shape.elements())); }

int64_t spread_bytes(const ConvProblem& conv, DType dtype) {
  return storage_bytes(dtype, conv.shape.batch * conv.shape.window.in_size() * conv.shape.in_channels);
}

// The image's pixels to where they are with zeros between them, channels last; `address` is what it begins at a
// multiple of.
CopyArguments spread_of(const ConvProblem& conv, DType dtype, int64_t address) {
  const ConvShape &from = *conv.transposed, &to = conv.shape;
  const KernelWindow& w = from.window;
  return make_copies(
      {*make_copy(address_of_nothing(address), nullptr, static_cast<int>(storage_bytes(dtype, 1)),
                  {from.batch, w.in[1], w.in[2], from.in_channels}, {from.x.n, from.x.h, from.x.w, from.x.c},
                  {to.x.n, to.x.h * w.stride[1], to.x.w * w.stride[2], to.x.c})});
}

// Lays out the workspace.
void place(const Problem& p, const ConvProblem& conv, bool moves_image, int64_t partial, ConvState& state) {
  const ConvShape& s = conv.shape;
  const DType dtype = p.outputs[0].dtype;
  const auto bytes = static_cast<int>(storage_bytes(dtype, 1));
  state.image_offset = state.packs ? workspace_part(int64_t{4} * state.packs->elements) : 0;
  state.output_offset = state.image_offset;
  if (conv.spreads) {
    state.output_offset += workspace_part(spread_bytes(conv, dtype));
  } else if (moves_image) {
    state.image = matrix_transpose(s.batch, s.in_channels, s.window.in_size(), bytes);
    state.output_offset += part(p.inputs[0]);
  }
  state.partial_offset = state.output_offset;
  if (conv.moves) {
    state.output = matrix_transpose(s.batch, s.window.out_size(), s.out_channels, bytes);
    state.partial_offset += part(p.outputs[0]);
  }
  state.workspace = state.partial_offset + partial;
  if (state.image || state.output) state.transpose = &kernel_on(*p.gpu, "copy_tiles");
}

ImageStorage image_storage(const Problem& p, const ConvArguments& to) {
  const DType image = p.inputs[0].dtype, storage = p.outputs[0].dtype;
  if (image == storage) return ImageStorage::own;
  if (image == DType::f32) return ImageStorage::f32;
  const int together = storage == DType::f32 ? 4 : 8;
  const bool whole = to.x_channel == 1 && to.size.channels % together == 0 && to.x_column % together == 0 &&
                     to.x_row % together == 0 && to.x_image % together == 0;
  return whole ? ImageStorage::bytes_together : ImageStorage::bytes;
}

template <Way kWay>
std::vector<std::string> variants(const Problem& p) {
  const ConvSizes sizes = ConvProblem(p).sizes();
  const Storage storage = storage_of(p.outputs[0].dtype);
  const int multiprocessors = p.gpu->facts().multiprocessors;
  if constexpr (kWay == Way::depthwise) return variants_of(depthwise_plans(sizes, storage, multiprocessors));
  else return variants_of(conv_plans(sizes, storage, multiprocessors, kWay == Way::tiles, p.is_constant(1)));
}

template <Way kWay>
void take_variant(const Problem& p, std::string_view variant, KernelState& prepared) {
  auto& state = static_cast<ConvState&>(prepared);
  const ConvProblem conv(p);
  const int64_t partial = choose(p, conv.sizes(), kWay, variant, state);
  place(p, conv, kWay != Way::elements && !conv.image_last, partial, state);
}

template <Way kWay>
std::unique_ptr<KernelState> prepare(const Problem& p) {
  const ConvProblem conv(p);
  auto state = std::make_unique<ConvState>();
  ConvArguments& arguments = state->arguments;
  arguments.size = conv.sizes();
  arguments.by = conv_divisors(arguments.size);
  constexpr bool kDense = kWay == Way::tiles || kWay == Way::elements;
  if (p.is_constant(1)) {
    state->weights = pack_weights(p, conv, kDense);
    state->consumed |= 2;
    arguments.weights = state->weights->data();
    arguments.constant_weights = true;
  } else {
    state->packs = order_of(conv, kDense);
    state->pack = &kernel_on(*p.gpu, "conv_weights_f32");
  }
  if (conv.spreads) {
    const DType dtype = p.inputs[0].dtype;
    state->spread = spread_of(conv, dtype, 0);
    state->spread_elements = spread_of(conv, dtype, storage_bytes(dtype, 1));
    state->copy = &kernel_on(*p.gpu, "copy_strided");
  }
  if (p.is_constant(2)) {
    const Tensor bias = convert(p.constants[2], DType::f32);
    const float* const given = bias.data<float>().data();
    std::vector<float> packed(given, given + bias.elements());
    if (kWay == Way::depthwise) packed = packed_depthwise_bias(arguments.size, conv.storage, given);
    state->bias = p.gpu->upload(packed.data(), bias.bytes());
    state->consumed |= 4;
    arguments.bias = reinterpret_cast<const float*>(state->bias->data());
  }
  arguments.x_image = conv.shape.x.n;
  arguments.x_row = static_cast<int>(conv.shape.x.h);
  arguments.x_column = static_cast<int>(conv.shape.x.w);
  arguments.x_channel = static_cast<int>(conv.shape.x.c);
  if (conv.joins()) {
    arguments.x_column = arguments.size.channels;
    arguments.x_channel = 1;
  }
  arguments.x_storage = image_storage(p, arguments);
  state->epilogue = conv.epilogue;
  take_variant<kWay>(p, {}, *state);
  return state;
}

void transpose(const Call& c, TransposeArguments arguments, const void* from, void* to) {
  arguments.from = from;
  arguments.to = to;
  c.stream->launch(*c.as<ConvState>().transpose, copy_tiles_launch(arguments), arguments);
}

void run(const Call& c) {
  const auto& state = c.as<ConvState>();
  ConvArguments arguments = state.arguments;
  std::byte* const image = c.workspace + state.image_offset;
  arguments.x = state.image || state.spread ? image : c.inputs[0].data;
  if (state.packs) {
    ConvWeightsArguments packs = *state.packs;
    packs.from = c.inputs[1].as<float>();
    packs.to = reinterpret_cast<float*>(c.workspace);
    arguments.weights = packs.to;
    c.stream->launch(*state.pack, conv_weights_launch(packs), packs);
  }
  if (state.spread) {
    CopyArguments spread = is_aligned(c.inputs[0].data, 16) ? *state.spread : *state.spread_elements;
    spread.pieces[0].from = c.inputs[0].data;
    spread.pieces[0].to = image;
    c.stream->fill(image, 0, state.output_offset - state.image_offset);
    c.stream->launch(*state.copy, copy_strided_launch(spread), spread);
  }
  if (arguments.x_storage == ImageStorage::bytes_together && !is_aligned(arguments.x, 8))
    arguments.x_storage = ImageStorage::bytes;
  if (!state.bias && c.has(2)) arguments.bias = c.inputs[2].as<float>();
  arguments.y = state.output ? c.workspace + state.output_offset : c.outputs[0].data;
  arguments.partial = reinterpret_cast<float*>(c.workspace + state.partial_offset);
  arguments.epilogue = bound_epilogue(state.epilogue, c, arguments.size.out_channels);
  for (int i = 0; state.output && i < arguments.epilogue.count; ++i) {
    EpilogueStep& step = arguments.epilogue.steps[i];
    if (step.row_stride != 0) step.row_stride = 1, step.column_stride = state.output->rows;
  }
  if (state.image) transpose(c, *state.image, c.inputs[0].data, image);
  if (state.direct) c.stream->launch(*state.function, state.launch, direct_gemm_of(arguments));
  else c.stream->launch(*state.function, state.launch, arguments);
  if (state.sum) c.stream->launch(*state.sum, conv_sum_launch(arguments.size), arguments);
  if (state.output) transpose(c, *state.output, arguments.y, c.outputs[0].data);
}

template <Way kWay>
constexpr Kernel candidate(std::string_view name) {
  Kernel out{.name = name, .accepts = accepts<kWay>, .prepare = prepare<kWay>, .run = run};
  if (kWay == Way::grouped) return out;
  out.variants = variants<kWay>;
  out.take_variant = take_variant<kWay>;
  return out;
}
constexpr std::array kConv = {candidate<Way::tiles>("tiles"), candidate<Way::elements>("elements"),
                              candidate<Way::depthwise>("depthwise"), candidate<Way::grouped>("grouped")};

}  // namespace

std::span<const Kernel> conv_candidates() { return kConv; }

}  // namespace sparkpilot::cuda
