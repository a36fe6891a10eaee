// DFT and STFT, by fast Fourier transforms in double whatever the dtype.
#include <algorithm>
#include <cmath>
#include <complex>

#include "base/parallel.h"
#include "ops/cpu/vector/fft.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::fourier_ops {
namespace {

using Complex = Fft::Complex;

struct FourierState final : KernelState {
  explicit FourierState(int64_t length) : fft(length) {}
  Fft fft;
  int64_t slots = 1;
  int64_t slot_values() const { return fft.length() + fft.scratch(); }
};

std::unique_ptr<KernelState> make_state(int64_t length, int64_t transforms) {
  auto state = std::make_unique<FourierState>(std::max<int64_t>(1, length));
  state->slots = std::clamp<int64_t>(transforms, 1, 64);
  state->workspace = state->slots * state->slot_values() * static_cast<int64_t>(sizeof(Complex));
  return state;
}

// Calls fn with the call itself, or with one that has a new state if operands are known only at run time.
template <typename Fn>
void with_state(const Call& c, int64_t length, int64_t transforms, Fn fn) {
  if (c.state) return fn(c);
  const auto state = make_state(length, transforms);
  const Buffer memory(state->workspace);
  Call call = c;
  call.state = state.get();
  call.workspace = memory.data();
  fn(call);
}

// Calls fn(index, data, scratch) for each transform, with separate scratch for each task.
template <typename Fn>
void for_transforms(const Call& c, int64_t count, Fn fn) {
  const auto& state = c.as<FourierState>();
  parallel_for(state.slots, 1 + 2000 / state.slot_values(), [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      Complex* data = reinterpret_cast<Complex*>(c.workspace) + slot * state.slot_values();
      for (int64_t i = count * slot / state.slots; i < count * (slot + 1) / state.slots; ++i) {
        fn(i, data, data + state.fft.length());
      }
    }
  });
}

template <typename T>
Complex load(const T* x, int64_t parts) {
  return {static_cast<double>(x[0]), parts == 2 ? static_cast<double>(x[1]) : 0.0};
}

template <typename T>
void store(T* y, Complex value, int64_t parts) {
  y[0] = T(static_cast<Compute<T>>(value.real()));
  if (parts == 2) y[1] = T(static_cast<Compute<T>>(value.imag()));
}

int64_t check_parts(const Shape& shape) {
  const int64_t parts = shape[shape.rank() - 1];
  if (parts != 1 && parts != 2) fail("the last axis of {} holds neither real nor complex numbers", shape.str());
  return parts;
}

bool flag(const Attributes& attrs, const char* key, int64_t fallback = 0) { return attrs.integer(key, fallback) != 0; }

// ---------------------------------------------------------------- DFT
struct DftSizes {
  int axis;
  int64_t length;
};

int dft_axis(int64_t axis, int rank) {
  const int at = normalize_axis(axis, rank);
  if (at == rank - 1) fail("axis {} is the one of real and imaginary parts", axis);
  return at;
}

int64_t default_length(const Attributes& attrs, int64_t size) {
  return flag(attrs, "inverse") && flag(attrs, "onesided") ? 2 * (size - 1) : size;
}

int64_t one_integer(const std::vector<int64_t>& values, const char* what) {
  if (values.size() != 1) fail("{} has {} values, expected one", what, values.size());
  return values[0];
}

void infer_dft(InferContext& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, Shape::kMaxRank);
  const Shape& x = c.shape(0);
  const int64_t parts = check_parts(x);
  const int axis = dft_axis(c.has(2) ? one_integer(c.ints(2), "axis") : -2, x.rank());
  const int64_t length = c.has(1) ? one_integer(c.ints(1), "dft_length") : default_length(c.attrs, x[axis]);
  if (length < 1) fail("length {} of the transform is below 1", length);
  const bool inverse = flag(c.attrs, "inverse"), onesided = flag(c.attrs, "onesided");
  if (onesided && !inverse && parts == 2) fail("a one-sided transform needs real input");
  if (onesided && inverse && parts == 1) fail("a one-sided inverse needs complex input");
  Shape y = x.with(axis, onesided && !inverse ? length / 2 + 1 : length);
  y.set(y.rank() - 1, onesided && inverse ? 1 : 2);
  c.output(0, c.dtype(0), Shape(y.dims()));
}

int64_t operand(const ConstView& view) { return view.dtype == DType::i32 ? *view.as<int32_t>() : *view.as<int64_t>(); }

// Read again in each run: with a one-sided output, two lengths give the same output size.
DftSizes dft_sizes(const Call& c) {
  const Shape& x = c.inputs[0].shape;
  const int axis = dft_axis(c.has(2) ? operand(c.inputs[2]) : -2, x.rank());
  return {axis, c.has(1) ? operand(c.inputs[1]) : default_length(c.attrs(), x[axis])};
}

// Without a state if operands are known only at run time: run() then makes one.
std::unique_ptr<KernelState> prepare_dft(const Problem& p) {
  const Shape &x = p.inputs[0].shape, &y = p.outputs[0].shape;
  if ((p.has(1) && !p.is_constant(1)) || (p.has(2) && !p.is_constant(2))) return nullptr;
  const int axis = dft_axis(p.has(2) ? p.constants[2].to_ints()[0] : -2, x.rank());
  const int64_t length = p.has(1) ? p.constants[1].to_ints()[0] : default_length(p.attrs(), x[axis]);
  return make_state(length, y.elements() == 0 ? 0 : y.elements() / y[axis] / y[y.rank() - 1]);
}

template <typename T>
void dft(const Call& c, const DftSizes& sizes) {
  const Shape &x = c.inputs[0].shape, &y = c.outputs[0].shape;
  const auto& fft = c.as<FourierState>().fft;
  const int64_t in_parts = x[x.rank() - 1], out_parts = y[y.rank() - 1];
  const int64_t inner = x.elements(sizes.axis + 1, x.rank() - 1), outer = x.elements(0, sizes.axis);
  const bool inverse = flag(c.attrs(), "inverse"), mirrored = inverse && flag(c.attrs(), "onesided");
  const int64_t n = sizes.length, given = std::min(x[sizes.axis], mirrored ? n / 2 + 1 : n);
  const double factor = inverse ? 1 / static_cast<double>(n) : 1;
  for_transforms(c, outer * inner, [&](int64_t i, Complex* data, Complex* scratch) {
    const T* in = c.inputs[0].as<T>() + (i / inner * x[sizes.axis] * inner + i % inner) * in_parts;
    T* out = c.outputs[0].as<T>() + (i / inner * y[sizes.axis] * inner + i % inner) * out_parts;
    std::fill(data, data + n, Complex{});
    for (int64_t k = 0; k < given; ++k) {
      data[k] = load(in + k * inner * in_parts, in_parts);
      // The other half of a real signal's spectrum is the mirror image; the ends are their own mirror image and real.
      if (mirrored && (k == 0 || 2 * k == n)) data[k] = data[k].real();
      else if (mirrored) data[n - k] = std::conj(data[k]);
    }
    fft.transform(data, scratch, inverse);
    for (int64_t k = 0; k < y[sizes.axis]; ++k) store(out + k * inner * out_parts, data[k] * factor, out_parts);
  });
}

void run_dft(const Call& c) {
  if (c.outputs[0].elements() == 0) return;
  const DftSizes sizes = dft_sizes(c);
  const Shape& y = c.outputs[0].shape;
  const bool half = flag(c.attrs(), "onesided") && !flag(c.attrs(), "inverse");
  if (sizes.length < 1 || y[sizes.axis] != (half ? sizes.length / 2 + 1 : sizes.length)) {
    fail("operands changed after they were read");
  }
  with_state(c, sizes.length, y.elements() / y[sizes.axis] / y[y.rank() - 1], [&](const Call& call) {
    dispatch(FloatTypes{}, call.inputs[0].dtype, [&]<typename T>() { dft<T>(call, sizes); });
  });
}

// Until opset 19 the axis was an attribute, by default the second axis.
std::vector<ValueId> expand_dft(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  const int64_t axis = attrs.integer("axis", 1);
  attrs.erase("axis");
  return {e.b.add("DFT", {e.in(0), e.in(1), e.b.constant(Tensor::scalar<int64_t>(axis))}, std::move(attrs))};
}

// ---------------------------------------------------------------- STFT
struct StftSizes {
  int64_t step, length, frames;
};

StftSizes stft_sizes(int64_t step, int64_t length, int64_t signal) {
  if (step < 1) fail("frame_step is {}, expected at least 1", step);
  if (length < 1 || length > signal) fail("frames of {} in a signal of {}", length, signal);
  return {step, length, (signal - length) / step + 1};
}

void infer_stft(InferContext& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 3, 3);
  const Shape& x = c.shape(0);
  const int64_t parts = check_parts(x);
  int64_t length = x[1];
  if (c.has(2)) {
    expect_same_dtype(c, 2, 0);
    expect_rank(c, 2, 1, 1);
    length = c.shape(2)[0];
  }
  if (c.has(3)) {
    length = one_integer(c.ints(3), "frame_length");
    if (c.has(2) && c.shape(2)[0] != length) fail("a window of {} for frames of {}", c.shape(2)[0], length);
  }
  const StftSizes sizes = stft_sizes(one_integer(c.ints(1), "frame_step"), length, x[1]);
  const bool onesided = flag(c.attrs, "onesided", 1);
  if (onesided && parts == 2) fail("a one-sided transform needs a real signal");
  c.output(0, c.dtype(0), {x[0], sizes.frames, onesided ? length / 2 + 1 : length, 2});
}

// `given` is the operand's value, 0 if absent.
int64_t frame_length(const Shape& signal, const Shape* window, int64_t given) {
  return given > 0 ? given : window ? (*window)[0] : signal[1];
}

std::unique_ptr<KernelState> prepare_stft(const Problem& p) {
  if (p.has(3) && !p.is_constant(3)) return nullptr;
  const int64_t given = p.has(3) ? p.constants[3].to_ints()[0] : 0;
  const int64_t length = frame_length(p.inputs[0].shape, p.has(2) ? &p.inputs[2].shape : nullptr, given);
  return make_state(length, p.outputs[0].shape[0] * p.outputs[0].shape[1]);
}

template <typename T>
void stft(const Call& c, const StftSizes& sizes) {
  const Shape &x = c.inputs[0].shape, &y = c.outputs[0].shape;
  const auto& fft = c.as<FourierState>().fft;
  const int64_t parts = x[2];
  const T* window = c.has(2) ? c.inputs[2].as<T>() : nullptr;
  for_transforms(c, x[0] * sizes.frames, [&](int64_t i, Complex* data, Complex* scratch) {
    const T* in = c.inputs[0].as<T>() + (i / sizes.frames * x[1] + i % sizes.frames * sizes.step) * parts;
    T* out = c.outputs[0].as<T>() + i * y[2] * 2;
    for (int64_t k = 0; k < sizes.length; ++k) {
      data[k] = load(in + k * parts, parts) * (window ? static_cast<double>(window[k]) : 1.0);
    }
    fft.transform(data, scratch, false);
    for (int64_t k = 0; k < y[2]; ++k) store(out + 2 * k, data[k], 2);
  });
}

void run_stft(const Call& c) {
  const Shape& x = c.inputs[0].shape;
  const int64_t given = c.has(3) ? operand(c.inputs[3]) : 0;
  const int64_t length = frame_length(x, c.has(2) ? &c.inputs[2].shape : nullptr, given);
  const StftSizes sizes = stft_sizes(operand(c.inputs[1]), length, x[1]);
  const Shape expected{x[0], sizes.frames, flag(c.attrs(), "onesided", 1) ? length / 2 + 1 : length, 2};
  if (!(c.outputs[0].shape == expected)) fail("operands changed after they were read");
  with_state(c, length, x[0] * sizes.frames, [&](const Call& call) {
    dispatch(FloatTypes{}, call.inputs[0].dtype, [&]<typename T>() { stft<T>(call, sizes); });
  });
}

// ---------------------------------------------------------------- the records
double cost(const Problem& p) {
  const auto elements = static_cast<double>(p.outputs[0].shape.elements());
  return 5 * elements * std::log2(std::max(2.0, elements));
}

CaseInput one(int64_t value) { return CaseInput::value(Tensor::scalar<int64_t>(value)); }

std::vector<OpCase> dft_cases() {
  const auto none = CaseInput::none();
  const Attributes onesided{{"onesided", int64_t{1}}}, inverse{{"inverse", int64_t{1}}};
  return {{"real", {CaseInput::of({3, 16, 1})}},
          {"complex", {CaseInput::of({2, 11, 2})}},
          {"axis_padded", {CaseInput::of({2, 6, 5, 2}), one(9), one(1)}, inverse},
          {"onesided", {CaseInput::of({2, 13, 1})}, onesided},
          {"onesided_inverse",
           {CaseInput::of({2, 7, 2}), none, one(-2)},
           {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}},
          {"f16", {CaseInput::of({1, 8, 1}, DType::f16), one(5)}}};
}

std::vector<OpCase> stft_cases() {
  const auto none = CaseInput::none();
  return {{"window", {CaseInput::of({2, 100, 1}), one(7), CaseInput::of({20})}},
          {"frames", {CaseInput::of({1, 64, 1}), one(16), none, one(16)}, {{"onesided", int64_t{0}}}},
          {"complex", {CaseInput::of({1, 50, 2}), one(9), CaseInput::of({11}), one(11)}, {{"onesided", int64_t{0}}}},
          {"whole", {CaseInput::of({1, 9, 1}, DType::f64), one(1)}}};
}

constexpr AttrSpec kDftAttrs[] = {{"inverse", AttrType::integer}, {"onesided", AttrType::integer}};
constexpr AttrSpec kOldDftAttrs[] = {
    {"axis", AttrType::integer}, {"inverse", AttrType::integer}, {"onesided", AttrType::integer}};
constexpr AttrSpec kStftAttrs[] = {{"onesided", AttrType::integer}};
constexpr Kernel kDft[] = {{.name = "reference", .prepare = prepare_dft, .run = run_dft}};
constexpr Kernel kStft[] = {{.name = "reference", .prepare = prepare_stft, .run = run_stft}};

const OpDef kOps[] = {
    {.name = "DFT",
     .doc = "Discrete Fourier transform along an axis.",
     .since = 20,
     .inputs = {1, 3},
     .outputs = {1, 1},
     .attributes = kDftAttrs,
     .infer = infer_dft,
     .cpu = kDft,
     .no_gradient = no_gradient::kSpectrum,
     .cost = cost,
     .cases = dft_cases},
    {.name = "DFT",
     .doc = "The axis as an attribute.",
     .since = 17,
     .inputs = {1, 2},
     .outputs = {1, 1},
     .attributes = kOldDftAttrs,
     .expand = expand_dft},
    {.name = "STFT",
     .doc = "Fourier transforms of windowed frames of a signal.",
     .since = 17,
     .inputs = {2, 4},
     .outputs = {1, 1},
     .attributes = kStftAttrs,
     .infer = infer_stft,
     .cpu = kStft,
     .no_gradient = no_gradient::kSpectrum,
     .cost = cost,
     .cases = stft_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::fourier_ops
