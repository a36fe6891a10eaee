// Cast, CastLike and BitCast.
//
// Between plain types: floats round to nearest even; floats become integers by truncation and saturation (ONNX does not
// define out-of-range values); integers keep their low bits; booleans are 0 and 1. Small floats saturate unless
// `saturate` is 0; `round_mode` applies only to f8e8m0 (powers of two).
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/cpu/vector/elementwise.h"
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/expect.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::cast_ops {
namespace {

enum class Rounding : uint8_t { up, down, nearest };

struct CastState final : KernelState {
  bool saturate = true;
  Rounding rounding = Rounding::up;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<CastState>();
  state->saturate = p.attrs().integer("saturate", 1) != 0;
  const std::string mode = p.attrs().text("round_mode", "up");
  state->rounding = mode == "up" ? Rounding::up : mode == "down" ? Rounding::down : Rounding::nearest;
  return state;
}

template <typename To, typename From>
To cast_one(From x) {
  const auto value = static_cast<Compute<From>>(x);
  if constexpr (std::is_same_v<To, bool>) return value != 0;
  else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) return saturate_to<To>(value);
  else return narrow<To>(value);
}

void cast_plain(const Call& c) {
  const ConstView& x = c.inputs[0];
  const View& y = c.outputs[0];
  dispatch(AllTypes{}, x.dtype, [&]<typename From>() {
    dispatch(AllTypes{}, y.dtype, [&]<typename To>() {
      const From* from = x.as<From>();
      To* to = y.as<To>();
      parallel_for(x.elements(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = cast_one<To>(from[i]);
      });
    });
  });
}

// The exponent code of the power of two nearest to, above or below |x|. Beyond the smallest and the largest power,
// gives that power with saturation, NaN without.
uint8_t to_e8m0(double x, Rounding rounding, bool saturate) {
  constexpr uint8_t kNaN = 255;
  constexpr int kBias = 127;
  if (std::isnan(x)) return kNaN;
  int exponent = 1024;
  if (x == 0) {
    exponent = -1024;
  } else if (std::isfinite(x)) {
    const double m = std::frexp(std::fabs(x), &exponent);  // |x| = m * 2^exponent, m in [0.5, 1)
    const bool above = rounding == Rounding::up ? m > 0.5 : rounding == Rounding::nearest && m >= 0.75;
    if (!above) --exponent;
  }
  if (exponent >= -kBias && exponent <= kBias) return static_cast<uint8_t>(exponent + kBias);
  return saturate ? static_cast<uint8_t>(exponent > 0 ? 2 * kBias : 0) : kNaN;
}

// Types smaller than a byte are written by one thread, since elements share bytes.
void cast_small(const Call& c) {
  const CastState& state = c.as<CastState>();
  const ConstView& x = c.inputs[0];
  const View& y = c.outputs[0];
  const bool packed_integer = is_integer(y.dtype) && bits(y.dtype) < 8;
  const auto store = [&](int64_t i) {
    if (packed_integer && x.dtype == DType::i64) {
      // Only the low bits count; a double would lose them.
      store_element(y.dtype, y.data, i, static_cast<double>(x.as<int64_t>()[i] & 15));
    } else if (packed_integer && x.dtype == DType::u64) {
      store_element(y.dtype, y.data, i, static_cast<double>(x.as<uint64_t>()[i] & 15));
    } else if (y.dtype == DType::f8e8m0) {
      y.as<uint8_t>()[i] = to_e8m0(load_element(x.dtype, x.data, i), state.rounding, state.saturate);
    } else {
      store_element(y.dtype, y.data, i, load_element(x.dtype, x.data, i), state.saturate);
    }
  };
  parallel_for(x.elements(), bits(y.dtype) < 8 ? x.elements() : kMathGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) store(i);
  });
}

void run_reference(const Call& c) {
  const ConstView& x = c.inputs[0];
  View& y = c.outputs[0];
  if (x.dtype == y.dtype) {
    if (x.data != y.data) std::memcpy(y.data, x.data, static_cast<size_t>(x.bytes()));
  } else if (contains(AllTypes{}, x.dtype) && contains(AllTypes{}, y.dtype)) {
    cast_plain(c);
  } else {
    cast_small(c);
  }
}

using Halves = TypeList<Half, BFloat16>;

// u8 pixels to f16 or bf16: converted by way of f32; only the second step rounds.
bool goes_over_floats(DType from, DType to) { return from == DType::u8 && contains(Halves{}, to); }
void cast_over_floats(const ConstView& x, const View& y, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 1024;
  alignas(64) float floats[kBlock];
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    cast_n(x.dtype, x.as<std::byte>() + i * bits(x.dtype) / 8, DType::f32, floats, n);
    floats_to(y.dtype, floats, y.data, i, n);
  }
}

// f32 from or to f16 and bf16, and the pairs of cast_n.
Acceptance accepts_simd(const Problem& p) {
  const DType from = p.inputs[0].dtype, to = p.outputs[0].dtype;
  if ((to == DType::f32 && contains(Halves{}, from)) || (from == DType::f32 && contains(Halves{}, to))) return true;
  if (from != to && (can_cast_n(from, to) || goes_over_floats(from, to))) return true;
  return fmt::format("{} to {}", name(from), name(to));
}
void run_simd(const Call& c) {
  const ConstView& x = c.inputs[0];
  const View& y = c.outputs[0];
  parallel_for(x.elements(), kGrain, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    if (can_cast_n(x.dtype, y.dtype)) {
      cast_n(x.dtype, x.as<std::byte>() + begin * bits(x.dtype) / 8, y.dtype,
             y.as<std::byte>() + begin * bits(y.dtype) / 8, n);
    } else if (goes_over_floats(x.dtype, y.dtype)) {
      cast_over_floats(x, y, begin, end);
    } else if (x.dtype == DType::f32) {
      floats_to(y.dtype, x.as<float>() + begin, y.data, begin, n);
    } else {
      floats_from(x.dtype, x.data, begin, y.as<float>() + begin, n);
    }
  });
}

void check_round_mode(const Attributes& attrs) {
  const std::string mode = attrs.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") {
    fail("round_mode is \"{}\", expected up, down or nearest", mode);
  }
}

void infer_cast(InferContext& c) {
  check_round_mode(c.attrs);
  c.output(0, dtype_attribute(c.attrs, "to", DType::none), c.shape(0));
}

std::vector<OpCase> cast_cases() {
  std::vector<OpCase> all;
  const auto add = [&](DType from, DType to, double low, double high, int64_t saturate = 1) {
    all.push_back({.name = fmt::format("{}_{}", name(from), name(to)),
                   .inputs = {CaseInput::range({7, 53}, low, high, from)},
                   .attrs = {{"to", onnx_code(to)}, {"saturate", saturate}},
                   .differentiable = false});
  };
  for (const DType to : {DType::f16, DType::bf16, DType::f64, DType::i32, DType::u8, DType::boolean, DType::f32}) {
    add(DType::f32, to, -300, 300);
  }
  for (const DType from : {DType::f16, DType::bf16, DType::u8, DType::i8, DType::i32, DType::i64, DType::boolean}) {
    add(from, DType::f32, 0, 100);
  }
  add(DType::u8, DType::f16, 0, 255);
  add(DType::u8, DType::bf16, 0, 255);
  for (const DType small : {DType::f8e4m3fn, DType::f8e5m2, DType::f4e2m1, DType::i4, DType::u2}) {
    add(DType::f32, small, -3, 9);
    add(small, DType::f32, -1, 1);
  }
  const Tensor odd = Tensor::of<float>({8}, {INFINITY, -INFINITY, NAN, 3e9f, -3e9f, 1e19f, 255.5f, -0.5f});
  for (const DType to : {DType::i32, DType::i64, DType::u8, DType::boolean}) {
    all.push_back({.name = fmt::format("special_{}", name(to)),
                   .inputs = {CaseInput::value(odd)},
                   .attrs = {{"to", onnx_code(to)}},
                   .differentiable = false});
  }
  add(DType::i64, DType::i32, -1e10, 1e10);
  add(DType::f32, DType::f8e4m3fnuz, -600, 600, 0);
  add(DType::i64, DType::i8, -1000, 1000);
  for (const char* mode : {"up", "down", "nearest"}) {
    add(DType::f32, DType::f8e8m0, 0, 9);
    all.back().attrs.set("round_mode", std::string(mode));
    all.back().name += mode;
  }
  return all;
}

// Version 1: the type is given by its name.
DType named_type(const Attributes& attrs) {
  const std::string text = attrs.text("to", "");
  const auto dtype = parse_dtype(text);
  if (!dtype || *dtype == DType::none) fail("to is \"{}\", which is no supported type", text);
  return *dtype;
}
std::vector<ValueId> expand_named(ExpandContext& e) {
  return {e.b.add("Cast", {e.in(0)}, {{"to", onnx_code(named_type(e.node.attrs))}})};
}

// --- CastLike
std::vector<ValueId> expand_cast_like(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  attrs.set("to", onnx_code(e.b.dtype(e.in(1))));
  return {e.b.add("Cast", {e.in(0)}, attrs)};
}

// --- BitCast
void infer_bit_cast(InferContext& c) {
  const DType to = dtype_attribute(c.attrs, "to", DType::none);
  if (bits(to) != bits(c.dtype(0))) {
    fail("{} has {} bits, {} has {}", name(c.dtype(0)), bits(c.dtype(0)), name(to), bits(to));
  }
  c.output(0, to, c.shape(0));
}
std::vector<OpCase> bit_cast_cases() {
  return {{"f32_i32", {CaseInput::of({3, 5})}, {{"to", onnx_code(DType::i32)}}, 1, 0, false},
          {"i8_u8", {CaseInput::range({9}, -128, 127, DType::i8)}, {{"to", onnx_code(DType::u8)}}},
          {"f16_bf16", {CaseInput::of({}, DType::f16)}, {{"to", onnx_code(DType::bf16)}}, 1, 0, false}};
}

constexpr AttrSpec kCastAttrs[] = {
    {"to", AttrType::integer, true}, {"saturate", AttrType::integer}, {"round_mode", AttrType::text}};
constexpr AttrSpec kNamedAttrs[] = {{"to", AttrType::text, true}};
constexpr AttrSpec kLikeAttrs[] = {{"saturate", AttrType::integer}, {"round_mode", AttrType::text}};
constexpr AttrSpec kBitAttrs[] = {{"to", AttrType::integer, true}};
constexpr Kernel kCast[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd},
                            {.name = "reference", .prepare = prepare, .run = run_reference}};
constexpr Kernel kBitCast[] = {{.name = "reference", .run = run_view}};

const OpDef kOps[] = {
    {.name = "Cast",
     .doc = "The elements in another dtype.",
     .since = 6,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kCastAttrs,
     .traits = {.in_place = over_any_input, .elementwise = true, .finite = true},
     .infer = infer_cast,
     .cpu = kCast,
     .cuda = cuda::kElementwise,
     .grad =
         [](GradContext& c) {
           const DType from = c.b.dtype(c.node.inputs[0]);
           return std::vector<ValueId>{is_float(from) ? c.b.add("Cast", {c.out_grads[0]}, {{"to", onnx_code(from)}})
                                                      : ValueId()};
         },
     .cases = cast_cases},
    {.name = "Cast",
     .doc = "The form that names the dtype.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kNamedAttrs,
     .traits = {.finite = true},
     .infer = [](InferContext& c) { c.output(0, named_type(c.attrs), c.shape(0)); },
     .expand = expand_named},
    {.name = "CastLike",
     .doc = "Cast to the dtype of another value.",
     .since = 15,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kLikeAttrs,
     .infer =
         [](InferContext& c) {
           check_round_mode(c.attrs);
           c.output(0, c.dtype(1), c.shape(0));
         },
     .expand = expand_cast_like},
    {.name = "BitCast",
     .doc = "The same bits as another dtype of the same width.",
     .since = 26,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kBitAttrs,
     .traits = {.view = true},
     .infer = infer_bit_cast,
     .cpu = kBitCast,
     .cuda = cuda::kView,
     .no_gradient = no_gradient::kNotFloats,
     .cases = bit_cast_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::cast_ops
