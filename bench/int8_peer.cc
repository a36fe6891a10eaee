#include "int8_peer.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "ops/cpu/onednn/onednn.h"

namespace sparkpilot {
namespace {

using onednn::Desc;
using onednn::Dims;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

dnnl::memory filled(const Desc& desc) {
  dnnl::memory memory(desc, onednn::engine());
  std::fill_n(static_cast<uint8_t*>(memory.get_data_handle()), desc.get_size(), uint8_t{3});
  return memory;
}

// A primitive with its own memory.
struct Bound {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::string implementation;
};

// Scales per channel, which is dimension `weights_mask` of the weights and `mask` of the output.
dnnl::primitive_attr scaled(int64_t channels, [[maybe_unused]] int mask, [[maybe_unused]] int weights_mask) {
  dnnl::primitive_attr attr = onednn::attributes({}, dnnl::scratchpad_mode::library);
#if DNNL_VERSION_MAJOR >= 3
  (void)channels;
  attr.set_scales_mask(DNNL_ARG_WEIGHTS, weights_mask);
#else
  attr.set_output_scales(mask, std::vector<float>(static_cast<size_t>(channels), 0.003f));
#endif
  return attr;
}

template <typename Primitive>
std::optional<Bound> bind(const onednn::DescOf<Primitive>& desc, [[maybe_unused]] int64_t channels) {
  if (onednn::is_fast(desc)) {
    Bound b{Primitive(desc),
            {{DNNL_ARG_SRC, filled(desc.src_desc())},
             {DNNL_ARG_WEIGHTS, filled(desc.weights_desc())},
             {DNNL_ARG_DST, filled(desc.dst_desc())}},
            onednn::implementation(desc)};
    dnnl::memory bias = filled(desc.query_md(dnnl::query::exec_arg_md, DNNL_ARG_BIAS));
    std::fill_n(static_cast<float*>(bias.get_data_handle()), channels, 5.0f);
    b.arguments.insert({DNNL_ARG_BIAS, bias});
#if DNNL_VERSION_MAJOR >= 3
    dnnl::memory scales({{channels}, Type::f32, Tag::x}, onednn::engine());
    std::fill_n(static_cast<float*>(scales.get_data_handle()), channels, 0.003f);
    b.arguments.insert({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scales});
#endif
    return b;
  }
  return {};
}

std::optional<Bound> convolution(const OpCase& c) {
  const Shape &x = c.inputs[0].shape, &w = c.inputs[1].shape;
  const int64_t group = c.attrs.integer("group", 1), out = w[0];
  const auto pads = c.attrs.integers("pads"), strides = c.attrs.integers("strides");
  const auto side = [&](int i) { return (x[1 + i] + 2 * pads[0] - w[2]) / strides[0] + 1; };
  const Desc src({x[0], x[3], x[1], x[2]}, Type::u8, Tag::nhwc),
      dst({x[0], out, side(0), side(1)}, Type::u8, Tag::nhwc);
  const Desc weights = group > 1 ? Desc({group, out / group, w[1], w[2], w[3]}, Type::s8, Tag::any)
                                 : Desc({out, w[1], w[2], w[3]}, Type::s8, Tag::any);
  const Desc bias({out}, Type::f32, Tag::x);
  const Dims stride(2, strides[0]), pad(2, pads[0]);
  return bind<dnnl::convolution_forward>(
      onednn::convolution(src, weights, bias, dst, {stride, {0, 0}, pad, pad}, scaled(out, 2, group > 1 ? 3 : 1)), out);
}

std::optional<Bound> product(const OpCase& c) {
  const Shape &x = c.inputs[0].shape, &w = c.inputs[1].shape;
  const Desc a({x[0], x[1]}, Type::u8, Tag::ab), b({w[0], w[1]}, Type::s8, Tag::any);
  const Desc bias({1, w[1]}, Type::f32, Tag::ab), y({x[0], w[1]}, Type::u8, Tag::ab);
  return bind<dnnl::matmul>(onednn::matmul(a, b, bias, y, scaled(w[1], 2, 2)), w[1]);
}

}  // namespace

std::optional<Int8Peer> time_onednn_int8(const std::string& op, const OpCase& op_case, int threads, double ms) {
  const ThreadScope scope(threads);
  const std::optional<Bound> bound = op == "QConv" ? convolution(op_case) : product(op_case);
  if (!bound) return {};
  dnnl::stream stream(onednn::engine());
  const auto time = [&](int64_t runs) {
    const int64_t begin = now_ns();
    for (int64_t i = 0; i < runs; ++i) bound->primitive.execute(stream, bound->arguments);
    stream.wait();
    return static_cast<double>(now_ns() - begin) * 1e-3 / static_cast<double>(runs);
  };
  time(1);
  const double once = time(1);
  const auto batch = std::max<int64_t>(1, static_cast<int64_t>(20 / once));  // long enough for the clock's resolution
  std::vector<double> us;
  for (double spent = 0; spent < ms * 1e3; spent += us.back() * static_cast<double>(batch)) us.push_back(time(batch));
  return Int8Peer{summarize(us).p50, bound->implementation};
}

}  // namespace sparkpilot
