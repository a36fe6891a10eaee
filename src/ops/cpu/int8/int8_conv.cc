#include "ops/cpu/int8/int8_conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/int8/int8_depthwise.h"
#include "ops/cpu/int8/int8_gemm.h"
#include "ops/cpu/int8/int8_windows.h"

namespace sparkpilot {
namespace {

// Multiply-adds that justify a thread; pieces that threads may work on at once; bytes of rows that stay in cache.
constexpr double kWorth = 1 << 17;
constexpr int64_t kPieces = 32, kRowBytes = 24576, kSlack = 64;
constexpr int64_t kMaxRuns = 16;

struct Group {
  Int8Matrix weights;
  Tensor start, multiplier, shift;  // padded to whole blocks
  bool simple = false;              // of Int8Output
};

struct Int8State : KernelState {
  ConvShape shape;  // of a QConv
  enum Way {
    direct,    // rows are pixels in place
    padded,    // rows of the kernel are runs in a padded copy of the image's rows
    gathered,  // every window is copied together
    depthwise,
  } way = direct;
  Int8Output out;
  std::vector<Group> groups;
  Int8Depthwise filter;
  int64_t rows = 0, depth = 0, columns = 0;
  int64_t x_zero = 0;           // as u8
  bool signed_x = false;        // i8 becomes u8 by flipping its highest bit
  bool zero_at_run = false;     // x_zero is an input
  int64_t unit = 1, grain = 1;  // rows that stay together; minimum units per thread
  int64_t piece = 0;            // rows processed at once
  int64_t unit_bytes = 0;       // of scratch, so that `grain` units have enough for a piece
  int64_t start_offset = 0;     // in the workspace: `start` if x_zero is an input
};

Tensor padded(const Problem& p, size_t input, DType dtype, int64_t first, int64_t count, double fallback) {
  const int64_t places = (count + Int8Matrix::kBlock - 1) / Int8Matrix::kBlock * Int8Matrix::kBlock;
  Tensor out = Tensor::zeros(dtype, Shape{places});
  for (int64_t i = 0; i < count; ++i) {
    const double v = p.has(input) ? load_element(dtype, p.constants[input].raw(), first + i) : fallback;
    store_element(dtype, out.raw(), i, v);
  }
  return out;
}

Acceptance accepts(const Problem& p, int64_t depth) {
  if (depth == 0 || p.outputs[0].shape.elements() == 0) return "empty";
  if (depth > kInt8MaxDepth) return "sums may overflow";
  for (const size_t i : {1, 2, 3, 4}) {
    if (p.has(i) && !p.is_constant(i)) return "weights are not constant";
  }
  if (!p.has(3)) return true;
  const auto bias = p.constants[3].data<int32_t>();
  const bool small =
      std::all_of(bias.begin(), bias.end(), [](int32_t b) { return b >= -kInt8MaxBias && b <= kInt8MaxBias; });
  return small ? Acceptance(true) : Acceptance("sums may overflow");
}

std::unique_ptr<Int8State> common_state(const Problem& p, int64_t channels) {
  auto state = std::make_unique<Int8State>();
  const QuantizedOutput q = QuantizedOutput::of(p.attrs());
  state->signed_x = p.inputs[0].dtype == DType::i8;
  state->x_zero = q.x_zero + (state->signed_x ? 128 : 0);
  state->zero_at_run = p.has(5);
  state->out.dtype = q.dtype;
  state->out.low = static_cast<float>(q.low - q.zero);
  state->out.high = static_cast<float>(q.high - q.zero);
  state->out.zero = static_cast<int32_t>(q.zero);
  state->out.stride = channels;
  state->consumed = 2;
  return state;
}

// Whether Int8Output::simple holds for sums of that many products.
bool is_simple(int64_t depth, const Tensor& start, const Tensor& multiplier, const Tensor& shift) {
  for (size_t i = 0; i < static_cast<size_t>(start.elements()); ++i) {
    const double most =
        2.0 * kInt8MostProduct * static_cast<double>(depth) + std::abs(static_cast<double>(start.data<int32_t>()[i]));
    if (shift.data<float>()[i] != 0 ||
        !(most * std::abs(static_cast<double>(multiplier.data<float>()[i])) < kInt8MaxBias))
      return false;
  }
  return true;
}

Group make_group(const Problem& p, const Int8State& state, const Int8Source& source, int64_t first, int64_t columns) {
  const int64_t run = state.way == Int8State::padded ? state.shape.window.kernel[2] * state.shape.in_channels : 0;
  Group g{pack_int8(source, state.depth, columns, run), padded(p, 3, DType::i32, first, columns, 0),
          padded(p, 2, DType::f32, first, columns, 1), padded(p, 4, DType::f32, first, columns, 0)};
  g.simple = is_simple(state.depth, g.start, g.multiplier, g.shift);
  if (state.zero_at_run) return g;
  for (size_t i = 0; i < static_cast<size_t>(columns); ++i) {
    const int64_t start = g.start.data<int32_t>()[i] - state.x_zero * g.weights.sums.data<int32_t>()[i];
    // This may wrap; the final sums fit in i32.
    g.start.data<int32_t>()[i] = static_cast<int32_t>(static_cast<uint32_t>(start));
  }
  return g;
}

// Decides how the rows are split, and how much scratch that needs.
void plan(Int8State& state, int64_t units, int64_t unit_work, int64_t piece_bytes) {
  const auto worth = static_cast<int64_t>(kWorth / static_cast<double>(unit_work + 1)) + 1;
  state.grain = std::max(worth, (units + kPieces - 1) / kPieces);
  state.unit_bytes = (piece_bytes + state.grain - 1) / state.grain;
  const int64_t scratch = std::max(units, state.grain) * state.unit_bytes + kSlack;
  state.start_offset = (scratch + 63) / 64 * 64;
  state.workspace = state.start_offset;
  if (state.zero_at_run) {
    state.workspace += (state.columns + Int8Matrix::kBlock) * static_cast<int64_t>(sizeof(int32_t));
  }
}

void plan_rows(Int8State& state) {
  if (state.way == Int8State::padded) {
    const ConvShape& s = state.shape;
    state.piece = std::clamp<int64_t>(kRowBytes / (padded_row_bytes(s) * s.window.stride[1]), 1, 8);
    plan(state, s.batch * s.window.out[1], s.window.out[2] * state.depth * state.columns,
         rows_under(s.window, state.piece) * padded_row_bytes(s) + kSlack);
    return;
  }
  const int64_t padded_depth = (state.depth + 3) / 4 * 4;
  state.unit = 4;
  state.piece = std::clamp<int64_t>(kRowBytes / padded_depth / 24, 1, 8) * 24;
  const int64_t bytes = state.way == Int8State::gathered ? state.piece * padded_depth + kSlack : 0;
  plan(state, (state.rows + state.unit - 1) / state.unit, state.unit * state.depth * state.columns, bytes);
}

void flip_signs(uint8_t* bytes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) bytes[i] ^= 0x80;
}

// Computes rows [first, last) of the output (n, h) of a convolution whose windows' rows are runs of the padded image.
void convolve_padded(const Int8State& state, const uint8_t* x, uint8_t padding, const Int8Output& out, int64_t first,
                     int64_t last, uint8_t* scratch) {
  const ConvShape& s = state.shape;
  const KernelWindow& w = s.window;
  const Group& g = state.groups[0];
  const int64_t bytes = padded_row_bytes(s);
  const int64_t element = bits(out.dtype) / 8;
  for (int64_t row = first; row < last;) {
    const int64_t n = row / w.out[1], oh = row % w.out[1], count = std::min(last - row, w.out[1] - oh);
    const int64_t top = oh * w.stride[1] - w.pad_begin[1], rows = rows_under(w, count);
    for (int64_t i = 0; i < rows; ++i) copy_padded_row(s, x, n, top + i, padding, scratch + i * bytes);
    if (state.signed_x) flip_signs(scratch, rows * bytes);
    for (int64_t i = 0; i < count; ++i, ++row) {
      const uint8_t* runs[kMaxRuns];
      for (int64_t k = 0; k < w.kernel[1]; ++k) runs[k] = scratch + (i * w.stride[1] + k * w.dilation[1]) * bytes;
      Int8Output here = out;
      here.y = static_cast<std::byte*>(out.y) + row * w.out[2] * out.stride * element;
      multiply_int8(runs, w.stride[2] * s.in_channels, g.weights, here, {0, w.out[2], 0, g.weights.blocks()});
    }
  }
}

// Computes all groups of rows [first, last) of a product.
void multiply_piece(const Int8State& state, const uint8_t* x, int64_t x_bytes, int64_t zero, const Int8Output& out,
                    size_t group, int64_t first, int64_t last, uint8_t* scratch) {
  const Group& g = state.groups[group];
  const Int8Range all{0, last - first, 0, g.weights.blocks()};
  Int8Output here = out;
  const int64_t element = bits(out.dtype) / 8;
  here.y = static_cast<std::byte*>(out.y) + first * out.stride * element;
  if (state.way == Int8State::direct) {
    multiply_int8(x + first * state.depth, state.depth, g.weights, here, all);
    return;
  }
  const int64_t lda = g.weights.padded_depth();
  const auto padding = static_cast<uint8_t>(zero ^ (state.signed_x ? 0x80 : 0));  // before the signs are flipped
  const Int8Image image{x, x + x_bytes, static_cast<int64_t>(group) * state.shape.in_per_group(), padding};
  if (state.shape.batch > 0) {
    gather_windows(state.shape, image, first, last, scratch, lda);
  } else {
    for (int64_t row = first; row < last; ++row) {
      copy_bytes(x + row * state.depth, x + x_bytes, state.depth, scratch + (row - first) * lda);
    }
  }
  if (state.signed_x) flip_signs(scratch, (last - first) * lda);
  multiply_int8(scratch, lda, g.weights, here, all);
}

// `start` of a group in the workspace, for a zero point that is known only at run time.
const int32_t* start_at_run(const Group& g, int64_t zero, std::byte* memory) {
  auto* start = reinterpret_cast<int32_t*>(memory);
  const auto bias = g.start.data<int32_t>(), sums = g.weights.sums.data<int32_t>();
  for (size_t i = 0; i < bias.size(); ++i) {
    start[i] = static_cast<int32_t>(static_cast<uint32_t>(bias[i] - zero * int64_t{sums[i]}));
  }
  return start;
}

void run_product(const Call& call, const Int8State& state) {
  const auto* x = static_cast<const uint8_t*>(call.inputs[0].data);
  const int64_t x_bytes = call.inputs[0].elements();
  int64_t zero = state.x_zero;
  if (state.zero_at_run) {
    zero =
        static_cast<int64_t>(load_element(call.inputs[5].dtype, call.inputs[5].data, 0)) + (state.signed_x ? 128 : 0);
  }
  const int64_t element = bits(state.out.dtype) / 8;
  for (size_t i = 0; i < state.groups.size(); ++i) {
    const Group& g = state.groups[i];
    Int8Output out = state.out;
    out.start =
        state.zero_at_run ? start_at_run(g, zero, call.workspace + state.start_offset) : g.start.data<int32_t>().data();
    out.multiplier = g.multiplier.data<float>().data();
    out.shift = g.shift.data<float>().data();
    out.simple = g.simple;
    out.y = static_cast<std::byte*>(call.outputs[0].data) + static_cast<int64_t>(i) * state.columns * element;
    const int64_t blocks = g.weights.blocks();
    if (state.way == Int8State::direct && state.rows < 48 && blocks > 2) {  // too few rows to share among threads
      const auto grain = static_cast<int64_t>(kWorth / static_cast<double>(state.rows * state.depth * 32)) + 1;
      parallel_for((blocks + 1) / 2, grain, [&](int64_t first, int64_t last) {
        multiply_int8(x, state.depth, g.weights, out, {0, state.rows, 2 * first, std::min(blocks, 2 * last)});
      });
      continue;
    }
    if (state.way == Int8State::padded) {
      const auto padding = static_cast<uint8_t>(zero ^ (state.signed_x ? 0x80 : 0));  // before the signs are flipped
      parallel_for(state.shape.batch * state.shape.window.out[1], state.grain, [&](int64_t first, int64_t last) {
        auto* scratch = reinterpret_cast<uint8_t*>(call.workspace) + first * state.unit_bytes;
        for (int64_t row = first; row < last; row += state.piece) {
          convolve_padded(state, x, padding, out, row, std::min(last, row + state.piece), scratch);
        }
      });
      continue;
    }
    parallel_for((state.rows + state.unit - 1) / state.unit, state.grain, [&](int64_t first, int64_t last) {
      auto* scratch = reinterpret_cast<uint8_t*>(call.workspace) + first * state.unit_bytes;
      const int64_t end = std::min(state.rows, last * state.unit);
      for (int64_t row = first * state.unit; row < end; row += state.piece) {
        multiply_piece(state, x, x_bytes, zero, out, i, row, std::min(end, row + state.piece), scratch);
      }
    });
  }
}

void run_depthwise(const Call& call, const Int8State& state) {
  const auto* x = static_cast<const uint8_t*>(call.inputs[0].data);
  Int8Output out = state.out;
  out.y = call.outputs[0].data;
  parallel_for(state.rows, state.grain, [&](int64_t first, int64_t last) {
    depthwise_int8(state.filter, x, out, first, last, call.workspace + first * state.unit_bytes);
  });
}

bool is_depthwise(const Problem& p, const ConvShape& s) {
  return s.groups > 1 && s.groups == s.in_channels && s.out_channels == s.in_channels && s.window.kernel[0] == 1 &&
         s.window.in[0] == 1 && s.window.out[0] == 1 && s.window.kernel_size() <= kInt8DepthwiseTaps && !p.has(5) &&
         p.inputs[0].dtype == DType::u8 && QuantizedOutput::of(p.attrs()).is_bytes();
}

void prepare_depthwise(const Problem& p, Int8State& state) {
  const ConvShape& s = state.shape;
  const int64_t taps = s.window.kernel_size(), channels = s.out_channels;
  state.way = Int8State::depthwise;
  const Tensor multiplier = padded(p, 2, DType::f32, 0, channels, 1), shift = padded(p, 4, DType::f32, 0, channels, 0);
  const Tensor start = padded(p, 3, DType::i32, 0, channels, 0);
  const int8_t* w = p.constants[1].data<int8_t>().data();
  for (int64_t c = 0; c < channels; ++c) {
    int64_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) sum += w[c * taps + t];
    int32_t& at = start.data<int32_t>()[static_cast<size_t>(c)];
    at = static_cast<int32_t>(static_cast<uint32_t>(at - state.x_zero * sum));
  }
  state.filter = pack_depthwise_int8(s, w, static_cast<uint8_t>(state.x_zero), start.data<int32_t>().data(),
                                     multiplier.data<float>().data(), shift.data<float>().data());
  state.rows = s.batch * s.window.out[1];
  state.out.simple = is_simple(taps, start, multiplier, shift);
  plan(state, state.rows, s.window.out[2] * channels * taps, state.filter.scratch_bytes());
}

bool is_pointwise(const ConvShape& s) {
  const KernelWindow& w = s.window;
  for (size_t i = 0; i < KernelWindow::kMaxDims; ++i) {
    if (w.kernel[i] != 1 || w.stride[i] != 1 || w.pad_begin[i] != 0 || w.out[i] != w.in[i]) return false;
  }
  return s.groups == 1;
}

// Whether maps are wide enough, and windows' rows are contiguous.
bool fits_padded(const ConvShape& s) {
  const KernelWindow& w = s.window;
  return s.groups == 1 && w.in[0] == 1 && w.out[0] == 1 && w.kernel[0] == 1 && w.kernel[1] <= kMaxRuns &&
         w.dilation[2] == 1 && w.kernel_size() > 1 && w.out[2] >= 8;
}

bool rows_as_they_lie(const Problem& p, int64_t depth) { return p.inputs[0].dtype == DType::u8 && depth % 4 == 0; }

}  // namespace

QuantizedOutput QuantizedOutput::of(const Attributes& attrs) {
  QuantizedOutput q;
  const int64_t code = attrs.integer("y_dtype");
  const std::optional<DType> dtype = dtype_from_onnx(code);
  if (!dtype || !contains(TypeList<uint8_t, int8_t, float, int32_t>{}, *dtype)) {
    fail("y_dtype {} is not u8, i8, f32 or i32", code);
  }
  q.dtype = *dtype;
  const int64_t least = q.dtype == DType::i8 ? -128 : 0;
  const int64_t low = attrs.integer("low", least), high = attrs.integer("high", least + 255);
  const int64_t zero = attrs.integer("y_zero", 0), x_zero = attrs.integer("x_zero", 0);
  const auto fits = [&](int64_t v) { return v >= least && v <= least + 255; };
  if (!fits(low) || !fits(high) || low > high || (q.is_bytes() && !fits(zero)) || x_zero < -128 || x_zero > 255) {
    fail("zero points {} and {}, range [{},{}]: outside {}", x_zero, zero, low, high, name(q.dtype));
  }
  q.low = static_cast<double>(low);
  q.high = static_cast<double>(high);
  q.zero = q.is_bytes() ? static_cast<double>(zero) : 0;
  q.x_zero = x_zero;
  return q;
}

Acceptance int8_conv_accepts(const Problem& p) {
  if (p.attrs().integer("channels_last", 0) == 0) return "channels first";
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  return accepts(p, s.in_per_group() * s.window.kernel_size());
}

std::unique_ptr<KernelState> int8_conv_prepare(const Problem& p) {
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  auto state = common_state(p, s.out_channels);
  state->shape = s;
  if (is_depthwise(p, s)) {
    prepare_depthwise(p, *state);
    return state;
  }
  const int64_t taps = s.window.kernel_size(), in = s.in_per_group(), out = s.out_per_group();
  state->rows = s.batch * s.window.out_size();
  state->depth = in * taps;
  state->columns = out;
  state->way = is_pointwise(s) && rows_as_they_lie(p, state->depth) ? Int8State::direct
               : fits_padded(s)                                     ? Int8State::padded
                                                                    : Int8State::gathered;
  for (int64_t g = 0; g < s.groups; ++g) {
    const int8_t* w = p.constants[1].data<int8_t>().data() + g * out * in * taps;
    state->groups.push_back(make_group(p, *state, {w, in * taps, in, taps, 1}, g * out, out));
  }
  plan_rows(*state);
  return state;
}

void int8_conv_run(const Call& call) {
  const auto& state = call.as<Int8State>();
  if (state.way == Int8State::depthwise) run_depthwise(call, state);
  else run_product(call, state);
}

Acceptance int8_gemm_accepts(const Problem& p) {
  const Shape& x = p.inputs[0].shape;
  if (x.elements() == 0) return "empty";
  return accepts(p, x[x.rank() - 1]);
}

std::unique_ptr<KernelState> int8_gemm_prepare(const Problem& p) {
  const Shape &x = p.inputs[0].shape, &y = p.outputs[0].shape;
  auto state = common_state(p, y[y.rank() - 1]);
  state->depth = x[x.rank() - 1];
  state->columns = y[y.rank() - 1];
  state->rows = x.elements() / state->depth;
  state->way = rows_as_they_lie(p, state->depth) ? Int8State::direct : Int8State::gathered;
  const bool transposed = p.attrs().integer("transB", 0) != 0;
  const int8_t* w = p.constants[1].data<int8_t>().data();
  state->groups.push_back(
      make_group(p, *state, {w, transposed ? state->depth : 1, state->depth, transposed ? 1 : state->columns, 0}, 0,
                 state->columns));
  plan_rows(*state);
  return state;
}

void int8_gemm_run(const Call& call) { run_product(call, call.as<Int8State>()); }

}  // namespace sparkpilot
