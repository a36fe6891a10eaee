// Random numbers from an explicit key and counter.
//
// sparkpilot::RandomUniform and sparkpilot::RandomNormal are pure: element i is computed from words 2 (i mod 2) and 2
// (i mod 2) + 1 of Philox4x32-10 at (key, counter + i / 2), whatever the number of threads. The ONNX ops expand to them
// with a state as the counter, which each run advances by the blocks it used: runs continue one stream, and a new
// session repeats it. The attribute `seed` gives the key by its bits; without it the key is made from the node's name,
// so that nodes differ: the pass `expand` has given each of them a unique name.
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/fnv.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::random_ops {
namespace {

// --- the two pure ops
DType float_dtype(const Attributes& attrs, DType fallback) {
  const DType dtype = dtype_attribute(attrs, "dtype", fallback);
  if (!contains(FloatTypes{}, dtype)) fail("random numbers of {} are not defined, expected a float type", name(dtype));
  return dtype;
}

void infer(InferContext& c) {
  for (const int i : {0, 1}) {
    if (c.dtype(i) != DType::u64 || c.shape(i).elements() != 1) {
      fail("input {} is {}{}, expected one u64", i, name(c.dtype(i)), c.shape(i).str());
    }
  }
  const std::vector<int64_t> dims = c.attrs.integers("shape");
  c.output(0, float_dtype(c.attrs, DType::f32), Shape(std::span<const int64_t>(dims)));
}

template <typename T>
constexpr int significant_bits() {
  if (std::is_same_v<T, Half>) return 11;
  if (std::is_same_v<T, BFloat16>) return 8;
  return std::numeric_limits<T>::digits;
}

// Calls draw(a, b) with two new random words for each element.
template <typename T, typename Draw>
void generate(const Call& c, Draw draw) {
  const uint64_t key = *c.inputs[0].as<uint64_t>(), counter = *c.inputs[1].as<uint64_t>();
  const int64_t count = c.outputs[0].elements();
  T* y = c.outputs[0].as<T>();
  parallel_for((count + 1) / 2, 1 << 9, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto words = philox4x32(key, counter + static_cast<uint64_t>(block));
      y[2 * block] = T(static_cast<Compute<T>>(draw(words[0], words[1])));
      if (2 * block + 1 < count) y[2 * block + 1] = T(static_cast<Compute<T>>(draw(words[2], words[3])));
    }
  });
}

void run_uniform(const Call& c) {
  const double low = c.attrs().real("low", 0), high = c.attrs().real("high", 1);
  dispatch(FloatTypes{}, c.outputs[0].dtype, [&]<typename T>() {
    // Truncated to the precision of the type, so that rounding never gives 1.
    const double steps = std::ldexp(1.0, significant_bits<T>());
    generate<T>(c, [&](uint32_t a, uint32_t b) {
      const double unit = (a >> 5) * 0x1p-27 + (b >> 6) * 0x1p-53;
      return low + (high - low) * (std::floor(unit * steps) / steps);
    });
  });
}

// Box-Muller transform: radius from one word, angle from the other.
void run_normal(const Call& c) {
  const double mean = c.attrs().real("mean", 0), scale = c.attrs().real("scale", 1);
  dispatch(FloatTypes{}, c.outputs[0].dtype, [&]<typename T>() {
    generate<T>(c, [&](uint32_t a, uint32_t b) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - a * 0x1p-32));
      return mean + scale * radius * std::cos(2.0 * std::numbers::pi * (b * 0x1p-32));
    });
  });
}

// --- the ONNX ops
uint64_t key_of(const Node& node) {
  if (node.attrs.has("seed")) return std::bit_cast<uint32_t>(node.attrs.real("seed", 0));
  return Fnv().text(node.name).value();
}

ValueId draw(ExpandContext& e, std::string_view op, const Shape& shape, DType dtype, Attributes attrs) {
  Graph& graph = e.b.graph();
  attrs.set("shape", std::vector<int64_t>(shape.begin(), shape.end()));
  attrs.set("dtype", onnx_code(dtype));
  const ValueId key = e.b.constant(Tensor::scalar(key_of(e.node)));
  const ValueId counter = graph.add_state(Tensor::scalar(uint64_t{0}), e.node.name + "/counter");
  const auto blocks = static_cast<uint64_t>((shape.elements() + 1) / 2);
  graph.set_next(counter, e.b.add("Add", {counter, e.b.constant(Tensor::scalar(blocks))}));
  return e.b.add(op, {key, counter}, std::move(attrs));
}

template <bool kLike>
std::vector<ValueId> expand_uniform(ExpandContext& e) {
  const Attributes& attrs = e.node.attrs;
  const std::vector<int64_t> dims = attrs.integers("shape");
  const Shape shape = kLike ? e.b.shape(e.in(0)) : Shape(std::span<const int64_t>(dims));
  const DType dtype = float_dtype(attrs, kLike ? e.b.dtype(e.in(0)) : DType::f32);
  return {draw(e, "sparkpilot::RandomUniform", shape, dtype,
               {{"low", attrs.real("low", 0)}, {"high", attrs.real("high", 1)}})};
}

template <bool kLike>
std::vector<ValueId> expand_normal(ExpandContext& e) {
  const Attributes& attrs = e.node.attrs;
  const std::vector<int64_t> dims = attrs.integers("shape");
  const Shape shape = kLike ? e.b.shape(e.in(0)) : Shape(std::span<const int64_t>(dims));
  const DType dtype = float_dtype(attrs, kLike ? e.b.dtype(e.in(0)) : DType::f32);
  return {draw(e, "sparkpilot::RandomNormal", shape, dtype,
               {{"mean", attrs.real("mean", 0)}, {"scale", attrs.real("scale", 1)}})};
}

ValueId cast(ExpandContext& e, ValueId value, DType dtype) {
  return e.b.dtype(value) == dtype ? value : e.b.add("Cast", {value}, {{"to", onnx_code(dtype)}});
}

// 1 where a uniform number is below the probability.
std::vector<ValueId> expand_bernoulli(ExpandContext& e) {
  const DType given = e.b.dtype(e.in(0)), precise = given == DType::f64 ? DType::f64 : DType::f32;
  const ValueId unit = draw(e, "sparkpilot::RandomUniform", e.b.shape(e.in(0)), precise, {});
  const ValueId hit = e.b.add("Less", {unit, cast(e, e.in(0), precise)});
  return {cast(e, hit, dtype_attribute(e.node.attrs, "dtype", given))};
}

// Gumbel-max trick: each class has its probability of maximising log-probability - log(-log(uniform)).
std::vector<ValueId> expand_multinomial(ExpandContext& e) {
  const Shape& in = e.b.shape(e.in(0));
  if (in.rank() != 2 || in[1] < 1) fail("Multinomial: input has shape {}, expected [batch, classes]", in.str());
  const int64_t samples = e.node.attrs.integer("sample_size", 1);
  const DType precise = e.b.dtype(e.in(0)) == DType::f64 ? DType::f64 : DType::f32;
  const ValueId unit = draw(e, "sparkpilot::RandomUniform", Shape{in[0], samples, in[1]}, precise, {});
  const ValueId noise = e.b.add("Log", {e.b.add("Neg", {e.b.add("Log", {unit})})});
  const ValueId logits = e.b.add("Unsqueeze", {cast(e, e.in(0), precise), e.b.ints({1})});
  const ValueId chosen =
      e.b.add("ArgMax", {e.b.add("Sub", {logits, noise})}, {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}});
  return {cast(e, chosen, dtype_attribute(e.node.attrs, "dtype", DType::i32))};
}

// --- records
std::vector<OpCase> drawn_cases(const char* first, const char* second) {
  using List = std::vector<int64_t>;
  const auto state = [](uint64_t v) { return CaseInput::value(Tensor::scalar(v)); };
  return {{"plain", {state(7), state(0)}, {{"shape", List{3, 1001}}}},
          {"f64",
           {state(7), state(1ull << 40)},
           {{"shape", List{5}}, {"dtype", int64_t{11}}, {first, -2.0f}, {second, 3.0f}}},
          {"f16", {state(1), state(9)}, {{"shape", List{17}}, {"dtype", int64_t{10}}}},
          {"empty", {state(1), state(9)}, {{"shape", List{0, 4}}}}};
}

constexpr Kernel kUniform[] = {{.name = "reference", .run = run_uniform}};
constexpr Kernel kNormal[] = {{.name = "reference", .run = run_normal}};
constexpr AttrSpec kUniformAttrs[] = {{"shape", AttrType::integers, true},
                                      {"dtype", AttrType::integer},
                                      {"low", AttrType::real},
                                      {"high", AttrType::real},
                                      {"seed", AttrType::real}};
constexpr AttrSpec kNormalAttrs[] = {{"shape", AttrType::integers, true},
                                     {"dtype", AttrType::integer},
                                     {"mean", AttrType::real},
                                     {"scale", AttrType::real},
                                     {"seed", AttrType::real}};
constexpr std::span<const AttrSpec> kUniformLikeAttrs = std::span(kUniformAttrs).subspan(1);
constexpr std::span<const AttrSpec> kNormalLikeAttrs = std::span(kNormalAttrs).subspan(1);
constexpr AttrSpec kBernoulliAttrs[] = {{"dtype", AttrType::integer}, {"seed", AttrType::real}};
constexpr AttrSpec kMultinomialAttrs[] = {
    {"dtype", AttrType::integer}, {"seed", AttrType::real}, {"sample_size", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "RandomUniform",
     .domain = "sparkpilot",
     .doc = "Uniform numbers in [low, high) from a key and a counter.",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kUniformAttrs,
     .infer = infer,
     .cpu = kUniform,
     .no_gradient = no_gradient::kRandom,
     .cases = [] { return drawn_cases("low", "high"); }},
    {.name = "RandomNormal",
     .domain = "sparkpilot",
     .doc = "Normal numbers from a key and a counter.",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kNormalAttrs,
     .infer = infer,
     .cpu = kNormal,
     .no_gradient = no_gradient::kRandom,
     .cases = [] { return drawn_cases("mean", "scale"); }},
    {.name = "RandomUniform",
     .doc = "Uniform numbers of a fixed shape.",
     .inputs = {0, 0},
     .outputs = {1, 1},
     .attributes = kUniformAttrs,
     .traits = {.pure = false},
     .expand = expand_uniform<false>},
    {.name = "RandomUniformLike",
     .doc = "Uniform numbers of an input's shape.",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kUniformLikeAttrs,
     .traits = {.pure = false},
     .expand = expand_uniform<true>},
    {.name = "RandomNormal",
     .doc = "Normal numbers of a fixed shape.",
     .inputs = {0, 0},
     .outputs = {1, 1},
     .attributes = kNormalAttrs,
     .traits = {.pure = false},
     .expand = expand_normal<false>},
    {.name = "RandomNormalLike",
     .doc = "Normal numbers of an input's shape.",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kNormalLikeAttrs,
     .traits = {.pure = false},
     .expand = expand_normal<true>},
    {.name = "Bernoulli",
     .doc = "1 with the given probabilities, else 0.",
     .since = 15,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kBernoulliAttrs,
     .traits = {.pure = false},
     .expand = expand_bernoulli},
    {.name = "Multinomial",
     .doc = "Classes drawn by their log-probabilities.",
     .since = 7,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kMultinomialAttrs,
     .traits = {.pure = false},
     .expand = expand_multinomial},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::random_ops
