// Comparisons: two operands of one dtype, booleans out. A comparison with NaN is false.
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/binary.h"
#include "ops/registry.h"

namespace sparkpilot::compare_ops {
namespace {

// fn(a, b, out, n) over blocks of two operands read as W.
template <typename W, typename T, typename Fn>
void each_block(const Call& c, const Fn& fn) {
  const Broadcast& plan = c.as<BroadcastState>().plan;
  bool* y = c.outputs[0].as<bool>();
  parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
    Blocks<W, T> left(plan, 0, c.inputs[0].as<T>()), right(plan, 1, c.inputs[1].as<T>());
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      fn(left.at(i, n), right.at(i, n), y + i, n);
    }
  });
}

template <class Fn, typename Types>
void run_reference(const Call& c) {
  dispatch(Types{}, c.inputs[0].dtype, [&]<typename T>() {
    using W = Compute<T>;
    each_block<W, T>(c, [](const W* a, const W* b, bool* y, int64_t n) { std::transform(a, a + n, b, y, Fn{}); });
  });
}

// f16 and bf16 as floats.
template <Comparison kOp>
void run_halves(const Call& c) {
  const Broadcast& plan = c.as<BroadcastState>().plan;
  bool* y = c.outputs[0].as<bool>();
  parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float left[kBlock], right[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      const float* a = float_block(c, plan, 0, i, n, left);
      compare_n(kOp, DType::f32, a, float_block(c, plan, 1, i, n, right), y + i, n);
    }
  });
}

template <Comparison kOp, typename Types>
void run_simd(const Call& c) {
  if (contains(TypeList<Half, BFloat16>{}, c.inputs[0].dtype)) return run_halves<kOp>(c);
  dispatch(Types{}, c.inputs[0].dtype, [&]<typename T>() {
    using W = Compute<T>;
    each_block<W, T>(c, [](const W* a, const W* b, bool* y, int64_t n) { compare_n(kOp, dtype_of<W>(), a, b, y, n); });
  });
}

template <class Fn, Comparison kOp, typename Types>
constexpr Kernel kKernels[] = {{.name = "simd", .prepare = prepare_broadcast, .run = run_simd<kOp, Types>},
                               {.name = "reference", .prepare = prepare_broadcast, .run = run_reference<Fn, Types>}};

std::vector<OpCase> cases() {
  std::vector<OpCase> all = binary_cases(-2, 2, true, true);
  const Tensor odd = Tensor::of<float>({4}, {INFINITY, NAN, -0.0f, 1});
  all.push_back({.name = "special",
                 .inputs = {CaseInput::value(odd), CaseInput::value(odd.reshaped({4, 1}))},
                 .attrs = {},
                 .differentiable = false});
  return all;
}

template <class Fn, Comparison kOp, typename Types = NumericTypes>
constexpr OpDef compare_op(std::string_view name, int since, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .since = since,
          .inputs = {2, 2},
          .outputs = {1, 1},
          .traits = {.elementwise = true},
          .infer = infer_compare<Types>,
          .cpu = kKernels<Fn, kOp, Types>,
          .cuda = cuda::kElementwise,
          .no_gradient = no_gradient::kNotFloats,
          .cases = cases};
}

const OpDef kOps[] = {
    compare_op<fn::Equal, Comparison::equal, AllTypes>("Equal", 7, "Whether a and b are equal."),
    compare_op<fn::Greater, Comparison::greater>("Greater", 7, "Whether a is above b."),
    compare_op<fn::GreaterOrEqual, Comparison::greater_or_equal>("GreaterOrEqual", 12, "Whether a is not below b."),
    compare_op<fn::Less, Comparison::less>("Less", 7, "Whether a is below b."),
    compare_op<fn::LessOrEqual, Comparison::less_or_equal>("LessOrEqual", 12, "Whether a is not above b."),
    legacy_binary_op("Equal", true),
    legacy_binary_op("Greater", true),
    legacy_binary_op("Less", true),
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::compare_ops
