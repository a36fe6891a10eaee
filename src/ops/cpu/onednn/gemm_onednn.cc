#include "ops/cpu/onednn/gemm_onednn.h"

#include "base/error.h"

namespace sparkpilot {
namespace {

using onednn::Desc;
using onednn::Dims;

// An operand [batch..., rows, columns]; a batch stride of 0 is a dimension of 1, which oneDNN broadcasts.
Desc operand(DType dtype, const MatMulShape& s, const std::array<int64_t, Shape::kMaxRank>& batch, int64_t rows,
             int64_t columns, int64_t row_stride, int64_t column_stride) {
  Dims dims, strides;
  int64_t outer = std::max(rows * row_stride, columns * column_stride);
  for (size_t i = static_cast<size_t>(s.batch_rank); i-- > 0;) {
    const bool there = batch[i] != 0;
    dims.insert(dims.begin(), there ? s.batch_dims[i] : 1);
    strides.insert(strides.begin(), there ? batch[i] : outer);
    outer = strides.front() * dims.front();
  }
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {row_stride, column_stride});
  return onednn::strided(dtype, dims, strides);
}

// Of C as the primitive reads it: a constant is converted.
DType c_type(const Problem& p, const GemmArgs& args) {
  const auto c = static_cast<size_t>(args.c);
  return p.is_constant(c) ? DType::f32 : p.inputs[c].dtype;
}

struct Operands {
  Desc a, b, any_b, y, c;
  bool c_is_bias = false;  // else a post-op
};

// C as [1..., rows or 1, columns or 1].
Dims broadcast_dims(const MatMulShape& s, const Shape& c) {
  Dims dims(static_cast<size_t>(s.batch_rank) + 2, 1);
  for (int i = 1; i <= std::min(2, c.rank()); ++i) dims[dims.size() - static_cast<size_t>(i)] = c[c.rank() - i];
  return dims;
}

Operands operands(const Problem& p, const GemmArgs& args) {
  const MatMulShape& s = args.shape;
  const DType dtype = p.inputs[0].dtype;
  Operands o;
  o.a = operand(dtype, s, s.a_batch, s.m, s.k, s.a_row, s.a_col);
  o.b = operand(dtype, s, s.b_batch, s.k, s.n, s.b_row, s.b_col);
  o.any_b = o.b;
  if (p.is_constant(1)) {
    Dims dims(static_cast<size_t>(s.batch_rank), 1);
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = s.b_batch[i] != 0 ? s.batch_dims[i] : 1;
    dims.insert(dims.end(), {s.k, s.n});
    o.any_b = onednn::any(dtype, dims);
  }
  Dims out(s.batch_dims.begin(), s.batch_dims.begin() + s.batch_rank);
  out.insert(out.end(), {s.m, s.n});
  o.y = onednn::dense(p.outputs[0].dtype, out);
  if (args.c >= 0) {
    const Dims dims = broadcast_dims(s, p.inputs[static_cast<size_t>(args.c)].shape);
    o.c = onednn::dense(c_type(p, args), dims);
    o.c_is_bias = args.alpha == 1 && dims[dims.size() - 2] == 1 && dims.back() == s.n;
  }
  return o;
}

struct Described {
  onednn::DescOf<dnnl::matmul> desc;
  int c_argument = 0;
  onednn::Appended steps;
};

Described describe(const Problem& p, const GemmArgs& args, const Operands& o) {
  onednn::PostOps post;
  Described d;
  if (args.alpha != 1) post.eltwise(dnnl::algorithm::eltwise_linear, args.alpha);
  d.c_argument = DNNL_ARG_BIAS;
  const bool post_c = args.c >= 0 && !o.c_is_bias;
  if (post_c) d.c_argument = post.binary(dnnl::algorithm::binary_add, o.c);
  const auto steps = onednn::append(post, args.epilogue, p, [&](Epilogue::Step::Operand kind, DType dtype) {
    const MatMulShape& shape = args.shape;
    if (kind == Epilogue::Step::full) return onednn::dense(dtype, {shape.m, shape.n});
    return onednn::dense(dtype, {1, kind == Epilogue::Step::channel ? shape.n : 1});
  });
  if (!steps) return d;
  d.steps = *steps;
  d.desc = onednn::matmul(o.a, o.any_b, o.c_is_bias ? o.c : onednn::none(), o.y, onednn::attributes(post));
  return d;
}

// beta * C in f32.
Tensor scaled(const Tensor& c, float beta) {
  const Tensor out = c.dtype() == DType::f32 ? c.clone() : convert(c, DType::f32);
  for (float& value : out.data<float>()) value *= beta;
  return out;
}

}  // namespace

Acceptance gemm_onednn_accepts(const Problem& p, const GemmArgs& args) {
  const DType a = p.inputs[0].dtype, b = p.inputs[1].dtype;
  if (!onednn::computes(a)) return fmt::format("{} activations", name(a));
  if (args.shape.empty()) return "empty";
  if (b != a) {
    if (!p.is_constant(1)) return fmt::format("{} weights that are not constant", name(b));
    if (b != DType::f16 && b != DType::bf16 && b != DType::f32) return fmt::format("{} weights", name(b));
  }
  if (args.c >= 0) {
    const auto c = static_cast<size_t>(args.c);
    if (const DType type = c_type(p, args); type != DType::f32 && type != a) return fmt::format("C is {}", name(type));
    if (!p.is_constant(c) && args.beta != 1) return "beta is not 1 and C not constant";
  }
  return onednn::is_fast(describe(p, args, operands(p, args)).desc);
}

std::unique_ptr<KernelState> gemm_onednn_prepare(const Problem& p, const GemmArgs& args) {
  const Operands o = operands(p, args);
  const Described d = describe(p, args, o);
  auto state = std::make_unique<onednn::State>();
  const auto b = state->convert(state->parameter(p, 1, p.inputs[0].dtype, o.b), d.desc.weights_desc());
  std::vector<onednn::State::Argument> arguments = state->bind(p, d.steps.operands);
  arguments.insert(
      arguments.end(),
      {{DNNL_ARG_SRC, state->input(0, o.a)}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, state->output(0, o.y)}});
  if (args.c >= 0) {
    const auto c = static_cast<size_t>(args.c);
    const bool scale = p.is_constant(c) && args.beta != 1;
    if (scale) state->consumed |= uint64_t{1} << c;
    arguments.push_back({d.c_argument, scale ? state->constant(scaled(p.constants[c], args.beta), o.c)
                                             : state->parameter(p, args.c, c_type(p, args), o.c)});
  }
  state->step(dnnl::matmul(d.desc), d.desc, std::move(arguments));
  if (d.steps.loses_nan) {
    state->keep_nan(
        [a = o.a, weights = d.desc.weights_desc(), bias = o.c_is_bias ? o.c : onednn::none(), y = o.y,
         attr = onednn::attributes(d.steps.without_it, dnnl::scratchpad_mode::library)]() -> dnnl::primitive {
          const auto desc = onednn::matmul(a, weights, bias, y, attr);
          if (!desc) fail("what it computes with holds NaN or infinity, which oneDNN has no product for");
          return dnnl::matmul(desc);
        },
        *d.steps.loses_nan);
  }
  return state;
}

}  // namespace sparkpilot
