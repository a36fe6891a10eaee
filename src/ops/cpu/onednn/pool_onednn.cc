#include "ops/cpu/onednn/pool_onednn.h"

namespace sparkpilot {
namespace {

onednn::Desc image(DType dtype, const PoolShape& s, const KernelWindow::Dims& size, const ImageStrides& strides) {
  const KernelWindow& w = s.window;
  onednn::Dims dims{s.batch, s.channels}, steps{strides.n, strides.c};
  const auto spatial = w.spatial(size);
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  const std::array<int64_t, 3> all{strides.d, strides.h, strides.w};
  steps.insert(steps.end(), all.end() - w.dims, all.end());
  return onednn::strided(dtype, dims, steps);
}

struct Described {
  onednn::Desc src, dst;
  onednn::DescOf<dnnl::pooling_forward> desc;
};

Described describe(const Problem& p, const PoolShape& s, PoolKind kind) {
  const KernelWindow& w = s.window;
  Described d;
  d.src = image(p.inputs[0].dtype, s, w.in, s.x);
  d.dst = image(p.inputs[0].dtype, s, w.out, s.y);
  onednn::WindowArgs window;
  const auto kernel = w.spatial(w.kernel);
  for (size_t i = KernelWindow::kMaxDims - static_cast<size_t>(w.dims); i < KernelWindow::kMaxDims; ++i) {
    window.strides.push_back(w.stride[i]);
    window.dilations.push_back(w.dilation[i] - 1);
    window.pad_begin.push_back(w.pad_begin[i]);
    const int64_t reach = (w.out[i] - 1) * w.stride[i] + w.kernel[i] - w.in[i] - w.pad_begin[i];
    // Positions beyond the padding are not padding: they do not count in the average.
    if (kind == PoolKind::average_with_padding && reach > w.pad_end[i]) return d;
    window.pad_end.push_back(reach);
  }
  const auto algorithm = kind == PoolKind::max       ? dnnl::algorithm::pooling_max
                         : kind == PoolKind::average ? dnnl::algorithm::pooling_avg_exclude_padding
                                                     : dnnl::algorithm::pooling_avg_include_padding;
  d.desc = onednn::pooling(algorithm, d.src, d.dst, {kernel.begin(), kernel.end()}, window, onednn::attributes());
  return d;
}

}  // namespace

Acceptance pool_onednn_accepts(const Problem& p, const PoolShape& s, PoolKind kind) {
  if (!onednn::computes(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (s.empty()) return "empty";
  return onednn::is_fast(describe(p, s, kind).desc);
}

std::unique_ptr<KernelState> pool_onednn_prepare(const Problem& p, const PoolShape& s, PoolKind kind,
                                                 std::function<void(const Call&)> largest) {
  const Described d = describe(p, s, kind);
  auto state = std::make_unique<onednn::State>();
  state->step(dnnl::pooling_forward(d.desc), d.desc,
              {{DNNL_ARG_SRC, state->input(0, d.src)}, {DNNL_ARG_DST, state->output(0, d.dst)}});
  if (kind == PoolKind::max) state->keep_nan(std::move(largest));
  return state;
}

}  // namespace sparkpilot
