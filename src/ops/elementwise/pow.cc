// Pow: base and exponent may differ in dtype, the result has the base's.
#include <optional>

#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/binary.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::pow_ops {
namespace {

using Bases = TypeList<float, double, Half, BFloat16, int32_t, int64_t>;

// A block of exponents in the type used for the arithmetic: double with floats, int64_t with integers.
template <typename W>
const W* exponents(const Call& c, const Broadcast& plan, int64_t at, int64_t n, W* scratch) {
  const W* out = scratch;
  dispatch(NumericTypes{}, c.inputs[1].dtype,
           [&]<typename T>() { out = block(plan, 1, c.inputs[1].as<T>(), at, n, scratch); });
  return out;
}

template <typename T, typename E>
void run_typed(const Call& c, const Broadcast& plan) {
  T* y = c.outputs[0].as<T>();
  parallel_for(plan.elements(), kMathGrain, [&](int64_t begin, int64_t end) {
    alignas(64) Wide<T> base[kBlock];
    alignas(64) E power[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      const Wide<T>* p = block(plan, 0, c.inputs[0].as<T>(), i, n, base);
      const E* q = exponents(c, plan, i, n, power);
      for (int64_t j = 0; j < n; ++j) y[i + j] = narrow<T>(fn::Pow{}(p[j], q[j]));
    }
  });
}

void run_reference(const Call& c) {
  const Broadcast& plan = c.as<BroadcastState>().plan;
  dispatch(Bases{}, c.inputs[0].dtype, [&]<typename T>() {
    if (is_integer(c.inputs[0].dtype) && is_integer(c.inputs[1].dtype)) run_typed<T, int64_t>(c, plan);
    else run_typed<T, double>(c, plan);
  });
}

void run_float(const Call& c) {
  map_float_binary(c, c.as<BroadcastState>().plan, [](float a, float b) { return std::pow(a, b); });
}

// --- constant exponents that need only a few multiplications or a root
std::optional<double> constant_exponent(const Problem& p) {
  if (!p.is_constant(1) || p.constants[1].elements() != 1) return std::nullopt;
  if (!(p.outputs[0].shape == p.inputs[0].shape)) return std::nullopt;
  return p.constants[1].to_scalar();
}
Acceptance accepts_simple(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  if (!contains(TypeList<float, Half, BFloat16>{}, dtype)) return fmt::format("{} input", name(dtype));
  const auto e = constant_exponent(p);
  if (!e) return "exponent is not one constant";
  if (*e != -1 && *e != 0.5 && *e != 1 && *e != 2 && *e != 3) return fmt::format("exponent {}", *e);
  return true;
}
struct SimpleState final : KernelState {
  double exponent = 1;
};
std::unique_ptr<KernelState> prepare_simple(const Problem& p) {
  auto state = std::make_unique<SimpleState>();
  state->exponent = *constant_exponent(p);
  return state;
}
void run_simple(const Call& c) {
  const double e = c.as<SimpleState>().exponent;
  map_vector(c, [e](const float* in, float* out, int64_t n) {
    if (e == -1) return vector_unary(UnaryMath::reciprocal, in, out, n);
    if (e == 2) return vector_unary(UnaryMath::square, in, out, n);
    for (int64_t i = 0; i < n; ++i) {
      const float x = in[i];
      if (e == 3) out[i] = x * x * x;
      // C's pow gives +0 for -0 and infinity for -infinity; a plain square root would not.
      else if (e == 0.5) out[i] = x == -INFINITY ? INFINITY : std::sqrt(x) + 0.0f;
      else out[i] = x;
    }
  });
}

void infer(InferContext& c) {
  expect_dtype(c, 0, Bases{}, "f16, bf16, f32, f64, i32 or i64");
  expect_dtype(c, 1, NumericTypes{}, "a number");
  c.output(0, c.dtype(0), broadcast(c.shape(0), c.shape(1)));
}

std::vector<OpCase> cases() {
  const auto constant = [](double e) { return CaseInput::value(Tensor::scalar(static_cast<float>(e))); };
  const CaseInput positive = CaseInput::range({5, 41}, 0.25, 4);
  std::vector<OpCase> all = {
      {"general", {positive, CaseInput::range({41}, -2, 2)}, {}},
      {"both", {CaseInput::range({5, 1}, 1, 4), CaseInput::range({3, 1, 7}, -2, 2)}, {}},
      {"f16", {CaseInput::range({300}, 1, 4, DType::f16), CaseInput::range({300}, -2, 2, DType::f16)}, {}},
      {"f64", {CaseInput::range({9}, 1, 4, DType::f64), CaseInput::range({1}, -2, 2, DType::f64)}, {}},
      {"integers", {CaseInput::range({33}, -5, 5, DType::i32), CaseInput::range({33}, -2, 9, DType::i64)}, {}},
      {"integer_base", {CaseInput::range({33}, 0, 9, DType::i64), CaseInput::range({33}, -1, 3)}, {}},
      {"integer_exponent", {positive, CaseInput::range({41}, -3, 3, DType::i32)}, {}}};
  const Tensor special = Tensor::of<float>({8}, {0, -0.0f, INFINITY, -INFINITY, NAN, -2, 1, 1e30f});
  for (const double e : {-1.0, 0.5, 1.0, 2.0, 3.0, -0.5}) {
    all.push_back({.name = fmt::format("exponent_{}", e), .inputs = {positive, constant(e)}, .attrs = {}});
    all.push_back({.name = fmt::format("special_{}", e),
                   .inputs = {CaseInput::value(special), constant(e)},
                   .attrs = {},
                   .differentiable = false});
  }
  all.push_back({.name = "square_bf16", .inputs = {CaseInput::of({65}, DType::bf16), constant(2)}, .attrs = {}});
  return all;
}

constexpr Kernel kKernels[] = {
    {.name = "simple", .accepts = accepts_simple, .prepare = prepare_simple, .run = run_simple},
    {.name = "float", .accepts = accepts_floats, .prepare = prepare_broadcast, .run = run_float},
    {.name = "reference", .prepare = prepare_broadcast, .run = run_reference}};

// An exponent of another type than the base has no gradient: it is one of the model's numbers, not computed.
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.node.inputs[0]), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  const DType base = c.b.dtype(x), other = c.b.dtype(c.node.inputs[1]);
  const ValueId exponent =
      base == other ? c.node.inputs[1] : c.b.add("Cast", {c.node.inputs[1]}, {{"to", onnx_code(base)}});
  const Term e(c.b, exponent);
  return {g * e * node("Pow", x, e - 1), base == other ? g * y * x.of("Log") : ValueId()};
}

const OpDef kOps[] = {{.name = "Pow",
                       .doc = "Base to the power of exponent; powers of integers wrap around.",
                       .since = 7,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .traits = {.in_place = over_any_input, .elementwise = true},
                       .infer = infer,
                       .cpu = kKernels,
                       .cuda = cuda::kElementwise,
                       .grad = gradient,
                       .cases = cases},
                      legacy_binary_op("Pow", false)};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::pow_ops
