#include "ops/cuda/weight_gradient_candidates.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "ops/cuda/candidates.h"
#include "ops/cuda/conv_candidates.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/products.h"
#include "ops/cuda/weight_gradient.h"
#include "ops/cuda/window_candidates.h"

namespace sparkpilot::cuda {
namespace {

ConvShape shape_of(const Problem& p) {
  return conv_weight_gradient_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
}

Acceptance accepts_images(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} images", name(p.inputs[0].dtype));
  for (const TensorType* type : {&p.inputs[0], &p.inputs[1], &p.outputs[0]}) {
    if (const Acceptance takes = takes_elements(type->shape); !takes) return takes;
  }
  const ConvShape s = shape_of(p);
  if (std::max({s.batch, s.in_channels, s.out_channels}) > 65535) return "more than 65535 images or channels";
  if (s.window.kernel_size() > 65535) return "more than 65535 elements of a filter";
  return takes_window(s.window);
}

// [rows, columns] of each image as [columns, rows].
void transpose(GpuStream& stream, const GpuFunction& function, TransposeArguments how, const void* from, void* to) {
  how.from = from;
  how.to = to;
  stream.launch(function, copy_tiles_launch(how), how);
}

// ---------------------------------------------------------------- one group: dw = dy^T x
// Each pixel's window is a row of a matrix, which is made in the workspace for as many images at a time as kPieceBytes
// hold; of 1x1 at stride 1 with channels last it is the image itself. Each time gives partial sums.
struct ProductState : KernelState {
  ConvShape shape;
  int64_t images = 1;  // of a piece
  const GpuFunction *product = nullptr, *sum = nullptr, *tiles = nullptr, *copy = nullptr, *pad = nullptr;
  GemmPlan plan{};
  GemmArguments arguments{};                 // of a whole piece
  std::optional<TransposeArguments> dy, dw;  // to channels last; to ONNX's order of weights
  bool pads = false, windows = false;
  // What makes windows of a whole piece, and of the last. `elements`: of an image at no multiple of 16 bytes.
  struct Windows {
    PadArguments pad;
    CopyArguments copy, elements;
  };
  std::vector<Windows> made;
  int64_t padded_offset = 0, windows_offset = 0, partial_offset = 0, dw_offset = 0;  // in the workspace; dy first
};
constexpr int64_t kPieceBytes = int64_t{64} << 20;

// The image's sizes with its border, as its layout orders them.
struct Bordered {
  std::vector<int64_t> sizes, before, after;
  ImageStrides strides;
};
Bordered bordered(const ConvShape& s, int64_t images) {
  const KernelWindow& w = s.window;
  Bordered out;
  const int64_t height = w.in[1] + w.pad_begin[1] + w.pad_end[1], width = w.in[2] + w.pad_begin[2] + w.pad_end[2];
  if (s.channels_last) {
    out.sizes = {images, w.in[1], w.in[2], s.in_channels};
    out.before = {0, w.pad_begin[1], w.pad_begin[2], 0};
    out.after = {0, w.pad_end[1], w.pad_end[2], 0};
    out.strides = {.n = height * width * s.in_channels, .c = 1, .d = 0, .h = width * s.in_channels, .w = s.in_channels};
  } else {
    out.sizes = {images, s.in_channels, w.in[1], w.in[2]};
    out.before = {0, 0, w.pad_begin[1], w.pad_begin[2]};
    out.after = {0, 0, w.pad_end[1], w.pad_end[2]};
    out.strides = {.n = height * width * s.in_channels, .c = height * width, .d = 0, .h = width, .w = 1};
  }
  return out;
}
int64_t bordered_elements(const ConvShape& s) { return bordered(s, 1).strides.n; }

CopyArguments windows_of(const ConvShape& s, int64_t images, int64_t address) {
  const KernelWindow& w = s.window;
  const ImageStrides at = bordered(s, images).strides;
  const std::vector<int64_t> sizes{images, w.out[1], w.out[2], w.kernel[1], w.kernel[2], s.in_channels};
  return make_copies(
      {*make_copy(address_of_nothing(address), nullptr, 4, sizes,
                  {at.n, at.h * w.stride[1], at.w * w.stride[2], at.h * w.dilation[1], at.w * w.dilation[2], at.c},
                  contiguous_strides(sizes))});
}

Acceptance accepts_product(const Problem& p) {
  if (const Acceptance takes = accepts_images(p); !takes) return takes;
  const ConvShape s = shape_of(p);
  if (s.groups != 1) return "groups";
  const int64_t windows = s.window.out_size() * s.window.kernel_size() * s.in_channels;
  if (std::max({windows, bordered_elements(s), s.weights()}) > std::numeric_limits<int>::max())
    return "windows of 2^31 elements an image";
  return true;
}

std::unique_ptr<KernelState> prepare_product(const Problem& p) {
  auto state = std::make_unique<ProductState>();
  const ConvShape& s = state->shape = shape_of(p);
  const KernelWindow& w = s.window;
  state->windows = !(s.is_pointwise() && s.channels_last);
  const auto padded = [&](const KernelWindow::Dims& pad) { return pad[1] != 0 || pad[2] != 0; };
  state->pads = padded(w.pad_begin) || padded(w.pad_end);
  const int64_t columns = w.kernel_size() * s.in_channels;
  const int64_t of_image = 4 * std::max(w.out_size() * columns, bordered_elements(s));
  state->images = state->windows ? std::clamp<int64_t>(kPieceBytes / of_image, 1, s.batch) : s.batch;
  const int64_t pieces = (s.batch + state->images - 1) / state->images, depth = state->images * w.out_size();
  state->plan = gemm_plan(Storage::f32, GemmLayout::km, 1, static_cast<int>(s.out_channels), static_cast<int>(columns),
                          static_cast<int>(depth), p.gpu->facts().multiprocessors);
  GemmArguments& a = state->arguments;
  a.m = static_cast<int>(s.out_channels), a.n = static_cast<int>(columns), a.k = static_cast<int>(depth);
  a.outer = a.inner = 1;
  a.parts = state->plan.parts, a.part_depth = state->plan.part_depth;
  a.a_stride = s.out_channels, a.b_stride = a.y_stride = columns;
  state->product = &kernel_on(*p.gpu, gemm_name(Storage::f32, GemmLayout::km, state->plan.tile));
  const bool sums = pieces * a.parts > 1;
  if (sums) state->sum = &kernel_on(*p.gpu, "gemm_sum_f32");
  int64_t at = 0;
  if (!s.channels_last && w.out_size() > 1) {
    state->dy = matrix_transpose(s.batch, s.out_channels, w.out_size(), 4);
    at += workspace_part(4 * p.inputs[1].shape.elements());
  }
  state->padded_offset = at;
  if (state->windows && state->pads) {
    at += workspace_part(4 * state->images * bordered_elements(s));
    state->pad = &kernel_on(*p.gpu, "pad");
  }
  state->windows_offset = at;
  if (state->windows) {
    at += workspace_part(4 * depth * columns);
    state->copy = &kernel_on(*p.gpu, "copy_strided");
    for (const int64_t images : {state->images, s.batch - (pieces - 1) * state->images}) {
      const Bordered border = bordered(s, images);
      state->made.push_back(
          {make_pad(nullptr, nullptr, 4, border.sizes, border.before, border.after, PadMode::constant, 0),
           windows_of(s, images, 0), windows_of(s, images, 4)});
    }
  }
  state->partial_offset = at;
  if (sums) at += workspace_part(4 * pieces * a.parts * s.out_channels * columns);
  state->dw_offset = at;
  if (w.kernel_size() > 1 && s.in_channels > 1) {
    state->dw = matrix_transpose(s.out_channels, w.kernel_size(), s.in_channels, 4);
    at += workspace_part(4 * s.out_channels * columns);
  }
  if (state->dy || state->dw) state->tiles = &kernel_on(*p.gpu, "copy_tiles");
  state->workspace = at;
  return state;
}

// The windows of the images from `x` on, as rows.
const float* make_windows(const Call& c, const ProductState& state, const float* x, bool last) {
  const ProductState::Windows& made = state.made[last ? 1 : 0];
  const void* from = x;
  if (state.pads) {
    PadArguments pad = made.pad;
    pad.x = x;
    pad.y = c.workspace + state.padded_offset;
    c.stream->launch(*state.pad, pad_launch(pad), pad);
    from = pad.y;
  }
  CopyArguments copy = is_aligned(from, 16) ? made.copy : made.elements;
  copy.pieces[0].from = from;
  copy.pieces[0].to = c.workspace + state.windows_offset;
  c.stream->launch(*state.copy, copy_strided_launch(copy), copy);
  return reinterpret_cast<const float*>(c.workspace + state.windows_offset);
}

void run_product(const Call& c) {
  const auto& state = c.as<ProductState>();
  const ConvShape& s = state.shape;
  const float *x = c.inputs[0].as<float>(), *dy = c.inputs[1].as<float>();
  if (state.dy) {
    transpose(*c.stream, *state.tiles, *state.dy, dy, c.workspace);
    dy = reinterpret_cast<const float*>(c.workspace);
  }
  auto* const partial = reinterpret_cast<float*>(c.workspace + state.partial_offset);
  void* const to = state.dw ? c.workspace + state.dw_offset : c.outputs[0].data;
  GemmArguments a = state.arguments;
  const int64_t sums = int64_t{a.m} * a.n;
  int parts = 0;
  for (int64_t first = 0; first < s.batch; first += state.images, parts += state.arguments.parts) {
    const int64_t images = std::min(state.images, s.batch - first), size = s.window.in_size() * s.in_channels;
    a.a = dy + first * s.window.out_size() * s.out_channels;
    a.b = state.windows ? make_windows(c, state, x + first * size, first + images == s.batch) : x + first * size;
    a.k = static_cast<int>(images * s.window.out_size());
    a.partial = partial + parts * sums;
    a.y = state.sum ? a.partial : to;  // of one part
    c.stream->launch(*state.product, gemm_launch(a, state.plan.tile), a);
  }
  if (state.sum) {
    a.parts = parts;
    a.partial = partial;
    a.y = to;
    c.stream->launch(*state.sum, gemm_sum_launch(a), a);
  }
  if (state.dw) transpose(*c.stream, *state.tiles, *state.dw, to, c.outputs[0].data);
}

// ---------------------------------------------------------------- filters of one channel
struct DepthwiseState : KernelState {
  const GpuFunction *function = nullptr, *sum = nullptr, *tiles = nullptr;
  DepthwiseGradientArguments arguments{};
  std::optional<TransposeArguments> x, dy;  // to channels last, in the workspace
  int64_t dy_offset = 0, partial_offset = 0;
};

Acceptance accepts_depthwise(const Problem& p) {
  if (const Acceptance takes = accepts_images(p); !takes) return takes;
  const ConvShape s = shape_of(p);
  if (s.in_per_group() != 1) return "filters of several channels";
  if (s.batch * s.window.out[1] > std::numeric_limits<int>::max()) return "2^31 lines or more";
  return true;
}

std::unique_ptr<KernelState> prepare_depthwise(const Problem& p) {
  auto state = std::make_unique<DepthwiseState>();
  const ConvShape s = shape_of(p);
  state->arguments.size = conv_sizes(s);
  set_gradient_parts(state->arguments, p.gpu->facts().multiprocessors);
  state->function = &kernel_on(*p.gpu, gradient_kernel(state->arguments.size));
  if (state->arguments.parts > 1) state->sum = &kernel_on(*p.gpu, "depthwise_gradient_sum_f32");
  if (!s.channels_last) {
    state->tiles = &kernel_on(*p.gpu, "copy_tiles");
    state->x = matrix_transpose(s.batch, s.in_channels, s.window.in_size(), 4);
    state->dy = matrix_transpose(s.batch, s.out_channels, s.window.out_size(), 4);
    state->dy_offset = workspace_part(4 * p.inputs[0].shape.elements());
    state->partial_offset = state->dy_offset + workspace_part(4 * p.inputs[1].shape.elements());
  }
  state->workspace = state->partial_offset + static_cast<int64_t>(gradient_partial_bytes(state->arguments));
  return state;
}

void run_depthwise(const Call& c) {
  const auto& state = c.as<DepthwiseState>();
  DepthwiseGradientArguments arguments = state.arguments;
  arguments.x = c.inputs[0].as<float>();
  arguments.dy = c.inputs[1].as<float>();
  if (state.tiles) {
    transpose(*c.stream, *state.tiles, *state.x, arguments.x, c.workspace);
    transpose(*c.stream, *state.tiles, *state.dy, arguments.dy, c.workspace + state.dy_offset);
    arguments.x = reinterpret_cast<const float*>(c.workspace);
    arguments.dy = reinterpret_cast<const float*>(c.workspace + state.dy_offset);
  }
  arguments.dw = c.outputs[0].as<float>();
  arguments.partial = reinterpret_cast<float*>(c.workspace + state.partial_offset);
  c.stream->launch(*state.function, gradient_launch(arguments), arguments);
  if (state.sum) c.stream->launch(*state.sum, gradient_sum_launch(arguments), arguments);
}

}  // namespace

constinit const Kernel kWeightGradient[2] = {
    {.name = "depthwise", .accepts = accepts_depthwise, .prepare = prepare_depthwise, .run = run_depthwise},
    {.name = "product", .accepts = accepts_product, .prepare = prepare_product, .run = run_product}};

}  // namespace sparkpilot::cuda
