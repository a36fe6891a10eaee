// sparkpilot::QAveragePool: the mean of each window of a quantized image, computed on bytes.
//
//   s = sum of (x - x_zero) over the window's elements            integers, exact
//   v = float(s) * (scale / float(count))                         f32, each step rounded once
//   y = clamp(round_to_even(v) + y_zero, least, most)
// where `scale` is the input scale divided by the output scale; elements are counted as in AveragePool. The value of
// padding is the zero point, so it adds nothing.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/conv/pool_shape.h"
#include "ops/cpu/int8/requantize.h"
#include "ops/cuda/pool_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::quantized_pool_ops {
namespace {

bool is_byte(DType dtype) { return contains(ByteTypes{}, dtype); }

struct Mean {
  DType dtype = DType::u8;
  int64_t x_zero = 0, y_zero = 0;
  float scale = 1;
  bool with_padding = false;

  // Reads the attributes; fails (user).
  static Mean of(const Attributes& attrs) {
    Mean m;
    const std::optional<DType> dtype = dtype_from_onnx(attrs.integer("y_dtype"));
    if (!dtype || !is_byte(*dtype)) fail("y_dtype {} is not u8 or i8", attrs.integer("y_dtype"));
    m.dtype = *dtype;
    m.x_zero = attrs.integer("x_zero", 0);
    m.y_zero = attrs.integer("y_zero", 0);
    m.scale = attrs.real("scale", 1);
    m.with_padding = attrs.integer("count_include_pad", 0) != 0;
    const int64_t least = m.dtype == DType::i8 ? -128 : 0;
    if (m.x_zero < -128 || m.x_zero > 255 || m.y_zero < least || m.y_zero > least + 255) {
      fail("zero points {} and {}: outside of bytes", m.x_zero, m.y_zero);
    }
    if (!std::isfinite(m.scale)) fail("the scale must be finite");
    return m;
  }
  void store(const View& y, int64_t at, int64_t sum, int64_t count) const {
    const float v = count > 0 ? static_cast<float>(sum) * (scale / static_cast<float>(count)) : 0.0f;
    store_quantized(y, at, v, static_cast<double>(y_zero));
  }
  // The number of elements that the mean divides by; `taps` of them are inside the image.
  int64_t count(const KernelWindow& w, const KernelWindow::Dims& start, int64_t taps) const {
    return with_padding ? padded_taps(w, start) : taps;
  }
};

void run_reference(const Call& c) {
  const PoolShape& s = c.as<PoolState>().shape;
  const Mean mean = Mean::of(c.attrs());
  dispatch(ByteTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    for_each_window(s, [&](int64_t n, int64_t channel, const KernelWindow::Dims& start, int64_t at) {
      const T* plane = x + n * s.x.n + channel * s.x.c;
      int64_t sum = 0, taps = 0;
      for_each_tap(s.window, start, [&](int64_t d, int64_t h, int64_t i) {
        sum += plane[d * s.x.d + h * s.x.h + i * s.x.w] - mean.x_zero;
        ++taps;
      });
      mean.store(c.outputs[0], at, sum, mean.count(s.window, start, taps));
    });
  });
}

// --- channels last: a block of channels at a time, summed in 32 bits
constexpr int64_t kBlock = 64;
constexpr int64_t kMaxTaps = int64_t{1} << 23;  // of 8 bits, so that a sum fits in 32 bits

Acceptance accepts(const Problem& p) {
  if (p.attrs().integer("channels_last", 0) == 0) return "channels first";
  if (pool_shape(p.attrs(), p.inputs[0].shape).window.kernel_size() > kMaxTaps) return "sums may overflow";
  return true;
}

void run_blocks(const Call& c) {
  const PoolShape& s = c.as<PoolState>().shape;
  const Mean mean = Mean::of(c.attrs());
  dispatch(ByteTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    for_each_block(s, kBlock,
                   [&](int64_t n, const KernelWindow::Dims& start, int64_t first, int64_t channels, int64_t at) {
                     int32_t sums[kBlock] = {};
                     int64_t taps = 0;
                     for_each_tap(s.window, start, [&](int64_t d, int64_t h, int64_t i) {
                       const T* pixel = x + n * s.x.n + d * s.x.d + h * s.x.h + i * s.x.w + first;
                       for (int64_t k = 0; k < channels; ++k) sums[k] += pixel[k];
                       ++taps;
                     });
                     const int64_t count = mean.count(s.window, start, taps);
                     for (int64_t k = 0; k < channels; ++k) {
                       mean.store(c.outputs[0], at + k, sums[k] - taps * mean.x_zero, count);
                     }
                   });
  });
}

void infer(InferContext& c) {
  if (!is_byte(c.dtype(0))) fail("input is {}, expected u8 or i8", name(c.dtype(0)));
  c.output(0, Mean::of(c.attrs).dtype, pool_shape(c.attrs, c.shape(0)).output());
}

double cost(const Problem& p) { return pool_shape(p.attrs(), p.inputs[0].shape).flops(); }

std::vector<OpCase> cases() {
  using Ints = std::vector<int64_t>;
  const auto bytes = [](const Shape& shape, DType dtype = DType::u8) {
    return CaseInput::range(shape, dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127, dtype);
  };
  const auto with = [](Attributes attrs, DType y, int64_t x_zero, int64_t y_zero, float scale) {
    attrs.set("y_dtype", int64_t{onnx_code(y)});
    attrs.set("x_zero", x_zero);
    attrs.set("y_zero", y_zero);
    attrs.set("scale", scale);
    return attrs;
  };
  const int64_t on = 1;
  return {
      {"whole_image",
       {bytes({2, 6, 7, 83})},
       with({{"channels_last", on}, {"kernel_shape", Ints{6, 7}}}, DType::u8, 120, 7, 3.1f)},
      {"padding",
       {bytes({1, 9, 7, 19}, DType::i8)},
       with({{"channels_last", on}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 1}}},
            DType::u8, -3, 90, 1.7f)},
      {"count_padding",
       {bytes({1, 8, 10, 32})},
       with(
           {{"channels_last", on}, {"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 1, 0, 1}}, {"count_include_pad", on}},
           DType::i8, 200, -20, 0.9f)},
      {"ceil",
       {bytes({1, 8, 10, 5})},
       with({{"channels_last", on}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", on}},
            DType::u8, 0, 0, 2.0f)},
      {"channels_first", {bytes({1, 3, 6, 6})}, with({{"kernel_shape", Ints{3, 3}}}, DType::u8, 128, 128, 1.0f)},
      {"1d", {bytes({2, 5, 17})}, with({{"kernel_shape", Ints{4}}, {"strides", Ints{3}}}, DType::u8, 3, 4, 1.0f)}};
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text},         {"ceil_mode", AttrType::integer},
                               {"channels_last", AttrType::integer}, {"count_include_pad", AttrType::integer},
                               {"dilations", AttrType::integers},    {"kernel_shape", AttrType::integers, true},
                               {"pads", AttrType::integers},         {"scale", AttrType::real},
                               {"strides", AttrType::integers},      {"x_zero", AttrType::integer},
                               {"y_dtype", AttrType::integer, true}, {"y_zero", AttrType::integer}};
constexpr Kernel kCpu[] = {{.name = "blocks", .accepts = accepts, .prepare = prepare_pool, .run = run_blocks},
                           {.name = "reference", .prepare = prepare_pool, .run = run_reference}};

const OpDef kOps[] = {{.name = "QAveragePool",
                       .domain = "sparkpilot",
                       .doc = "The mean of each window of bytes, quantized, in either layout.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.channels_last = true, .finite = true},
                       .infer = infer,
                       .axes = axes_of_pool,
                       .cpu = kCpu,
                       .cuda = cuda::q_average_pool_candidates(),
                       .no_gradient = no_gradient::kQuantized,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::quantized_pool_ops
