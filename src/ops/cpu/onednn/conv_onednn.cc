#include "ops/cpu/onednn/conv_onednn.h"

#include "base/error.h"
#include "ops/cpu/conv/conv_shape.h"

namespace sparkpilot {
namespace {

using onednn::Desc;
using onednn::Dims;

// Operands in oneDNN's logical order: N,C,spatial, whatever the layout in memory.
struct Operands {
  Desc src, weights, bias, dst;        // in their memory layout
  Desc any_src, any_weights, any_dst;  // in the layout that the primitive chooses
  onednn::WindowArgs window;
};

Dims image_dims(int64_t batch, int64_t channels, std::span<const int64_t> spatial) {
  Dims dims{batch, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

Dims image_strides(const ImageStrides& s, int dims) {
  Dims all{s.n, s.c, s.d, s.h, s.w};
  all.erase(all.begin() + 2, all.begin() + 5 - dims);
  return all;
}

// [O, I/g, kernel], or [I, O/g, kernel] for the transpose, as oneDNN's [g, O/g, I/g, kernel].
Desc weight_desc(const ConvShape& s, DType dtype, bool transpose, bool any) {
  Dims dims{s.out_per_group(), s.in_per_group()};
  const int64_t taps = s.window.kernel_size();
  Dims strides{s.in_per_group() * taps, taps};
  if (transpose) strides = {taps, s.out_per_group() * taps};
  const auto kernel = s.window.spatial(s.window.kernel);
  int64_t step = taps;
  for (const int64_t size : kernel) {
    dims.push_back(size);
    step /= size;
    strides.push_back(step);
  }
  if (s.groups > 1) {
    dims.insert(dims.begin(), s.groups);
    strides.insert(strides.begin(), s.out_per_group() * s.in_per_group() * taps);
  }
  return any ? onednn::any(dtype, dims) : onednn::strided(dtype, dims, strides);
}

// As the primitive reads it: a constant is converted.
DType bias_type(const Problem& p) { return p.is_constant(2) ? DType::f32 : p.inputs[2].dtype; }

// `weights`: the type in which the primitive has them.
Operands operands(const Problem& p, const ConvShape& s, bool transpose, DType weights) {
  const KernelWindow& w = s.window;
  const DType dtype = p.inputs[0].dtype;
  const Dims in = image_dims(s.batch, s.in_channels, w.spatial(w.in));
  const Dims out = image_dims(s.batch, s.out_channels, w.spatial(w.out));
  Operands o;
  o.src = onednn::strided(dtype, in, image_strides(s.x, w.dims));
  o.dst = onednn::strided(dtype, out, image_strides(s.y, w.dims));
  // The fast implementations need channels last; for images with channels first oneDNN chooses the layout.
  o.any_src = s.channels_last ? o.src : onednn::any(dtype, in);
  o.any_dst = s.channels_last ? o.dst : onednn::any(dtype, out);
  o.weights = weight_desc(s, weights, transpose, false);
  o.any_weights = weight_desc(s, weights, transpose, true);
  if (p.has(2)) o.bias = onednn::dense(bias_type(p), {s.out_channels});
  for (size_t i = KernelWindow::kMaxDims - static_cast<size_t>(w.dims); i < KernelWindow::kMaxDims; ++i) {
    o.window.strides.push_back(w.stride[i]);
    o.window.dilations.push_back(w.dilation[i] - 1);
    o.window.pad_begin.push_back(w.pad_begin[i]);
    // The padding that the window really uses, since padding (and a transpose's output padding) may be partly unused.
    const int64_t small = transpose ? w.in[i] : w.out[i], large = transpose ? w.out[i] : w.in[i];
    const int64_t reach = (small - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - large - w.pad_begin[i];
    o.window.pad_end.push_back(reach);
  }
  return o;
}

Acceptance types_fit(const Problem& p) {
  const DType x = p.inputs[0].dtype, w = p.inputs[1].dtype;
  if (!onednn::computes(x)) return fmt::format("{} activations", name(x));
  if (w != x) {
    if (!p.is_constant(1)) return fmt::format("{} weights that are not constant", name(w));
    if (w != DType::f16 && w != DType::bf16 && w != DType::f32) return fmt::format("{} weights", name(w));
  }
  if (p.has(2) && bias_type(p) != DType::f32 && bias_type(p) != x) return fmt::format("{} bias", name(bias_type(p)));
  return true;
}

onednn::DescOf<dnnl::convolution_backward_weights> describe_weight_gradient(const Problem& p, const ConvShape& s,
                                                                            const Operands& o) {
  return onednn::convolution_weight_gradient(o.any_src, weight_desc(s, p.inputs[0].dtype, false, true), o.any_weights,
                                             o.any_dst, o.window, onednn::attributes());
}

// A primitive for the operands and what its epilogue reads.
template <typename Primitive>
struct Described {
  onednn::DescOf<Primitive> desc;
  onednn::Appended steps;
};

Described<dnnl::convolution_forward> describe(const Problem& p, const ConvShape& s, Operands& o) {
  const Epilogue epilogue = Epilogue::of(p, s.out_channels);
  onednn::PostOps post;
  const auto steps = onednn::append(post, epilogue, p, [&](Epilogue::Step::Operand kind, DType dtype) {
    Dims dims(static_cast<size_t>(s.window.dims) + 2, 1);
    if (kind == Epilogue::Step::channel) dims[1] = s.out_channels;
    if (kind != Epilogue::Step::full) return onednn::dense(dtype, dims);
    // An operand with the output's shape must have the output's layout, so oneDNN cannot choose that.
    o.any_dst = o.dst;
    const KernelWindow& w = s.window;
    return onednn::strided(dtype, image_dims(s.batch, s.out_channels, w.spatial(w.out)), image_strides(s.y, w.dims));
  });
  if (!steps) return {};
  return {onednn::convolution(o.any_src, o.any_weights, o.bias, o.any_dst, o.window, onednn::attributes(post)), *steps};
}

Described<dnnl::deconvolution_forward> describe_transpose(const Operands& o) {
  return {onednn::deconvolution(o.any_src, o.any_weights, o.bias, o.any_dst, o.window, onednn::attributes()), {}};
}

// Prepares the convolution again, in the formats of the first one, without the step that loses NaN.
void keep_nan(onednn::State& state, const Operands& o, const Described<dnnl::convolution_forward>& d) {
  if (!d.steps.loses_nan) return;
  state.keep_nan(
      [src = d.desc.src_desc(), weights = d.desc.weights_desc(), bias = o.bias, dst = d.desc.dst_desc(),
       window = o.window,
       attr = onednn::attributes(d.steps.without_it, dnnl::scratchpad_mode::library)]() -> dnnl::primitive {
        const auto desc = onednn::convolution(src, weights, bias, dst, window, attr);
        if (!desc) fail("what it computes with holds NaN or infinity, which oneDNN has no convolution for");
        return dnnl::convolution_forward(desc);
      },
      *d.steps.loses_nan);
}
void keep_nan(onednn::State&, const Operands&, const Described<dnnl::deconvolution_forward>&) {}

template <typename Primitive>
std::unique_ptr<KernelState> prepare(const Problem& p, const Operands& o, const Described<Primitive>& d) {
  auto state = std::make_unique<onednn::State>();
  const auto src = state->convert(state->input(0, o.src), d.desc.src_desc());
  const auto weights = state->convert(state->parameter(p, 1, p.inputs[0].dtype, o.weights), d.desc.weights_desc());
  const auto y = state->output(0, o.dst);
  const auto dst = d.desc.dst_desc() == o.dst ? y : state->scratch(d.desc.dst_desc());
  std::vector<onednn::State::Argument> arguments = state->bind(p, d.steps.operands);
  arguments.insert(arguments.end(), {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}});
  if (p.has(2)) arguments.push_back({DNNL_ARG_BIAS, state->parameter(p, 2, bias_type(p), o.bias)});
  state->step(Primitive(d.desc), d.desc, std::move(arguments));
  keep_nan(*state, o, d);
  if (dst != y) state->reorder(dst, y);
  return state;
}

ConvShape shape_of(const Problem& p) {
  return conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, p.attrs().integer("channels_last", 0) != 0);
}

ConvShape transposed_shape_of(const Problem& p) {
  return conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
}

ConvShape weight_gradient_shape_of(const Problem& p) {
  return conv_weight_gradient_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
}

}  // namespace

Acceptance conv_onednn_accepts(const Problem& p) {
  const ConvShape s = shape_of(p);
  if (const Acceptance types = types_fit(p); !types) return types;
  if (s.empty()) return "empty";
  Operands o = operands(p, s, false, p.inputs[0].dtype);
  const auto described = describe(p, s, o);
  const Acceptance fast = onednn::is_fast(described.desc);
  // oneDNN 2.6's convolution by products reads what it adds or multiplies with in another order.
  if (fast && !described.steps.operands.empty() &&
      onednn::implementation(described.desc).find("gemm") != std::string::npos) {
    return "operands of a convolution by products";
  }
  return fast;
}

std::unique_ptr<KernelState> conv_onednn_prepare(const Problem& p) {
  const ConvShape s = shape_of(p);
  Operands o = operands(p, s, false, p.inputs[0].dtype);
  const auto described = describe(p, s, o);
  return prepare(p, o, described);
}

Acceptance conv_weight_gradient_onednn_accepts(const Problem& p) {
  if (!onednn::computes(p.inputs[0].dtype)) return fmt::format("{} images", name(p.inputs[0].dtype));
  const ConvShape s = weight_gradient_shape_of(p);
  if (s.empty()) return "empty";
  return onednn::is_fast(describe_weight_gradient(p, s, operands(p, s, false, p.outputs[0].dtype)));
}

std::unique_ptr<KernelState> conv_weight_gradient_onednn_prepare(const Problem& p) {
  const ConvShape s = weight_gradient_shape_of(p);
  const Operands o = operands(p, s, false, p.outputs[0].dtype);
  const auto desc = describe_weight_gradient(p, s, o);
  auto state = std::make_unique<onednn::State>();
  const auto src = state->convert(state->input(0, o.src), desc.src_desc());
  const auto dst = state->convert(state->input(1, o.dst), desc.diff_dst_desc());
  const auto dw = state->output(0, o.weights);
  const auto made = desc.diff_weights_desc() == o.weights ? dw : state->scratch(desc.diff_weights_desc());
  state->step(dnnl::convolution_backward_weights(desc), desc,
              {{DNNL_ARG_SRC, src}, {DNNL_ARG_DIFF_DST, dst}, {DNNL_ARG_DIFF_WEIGHTS, made}});
  if (made != dw) state->reorder(made, dw);
  return state;
}

Acceptance conv_transpose_onednn_accepts(const Problem& p) {
  const ConvShape s = transposed_shape_of(p);
  if (const Acceptance types = types_fit(p); !types) return types;
  if (s.empty()) return "empty";
  return onednn::is_fast(describe_transpose(operands(p, s, true, p.inputs[0].dtype)).desc);
}

std::unique_ptr<KernelState> conv_transpose_onednn_prepare(const Problem& p) {
  const Operands o = operands(p, transposed_shape_of(p), true, p.inputs[0].dtype);
  return prepare(p, o, describe_transpose(o));
}

}  // namespace sparkpilot
