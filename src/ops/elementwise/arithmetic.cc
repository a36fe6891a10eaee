// Add, Sub, Mul, Div and Mod of two operands, and Sum, Max, Min and Mean of any number of them.
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/binary.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::arithmetic_ops {
namespace {

template <bool kPositive, bool kIntegers = true>
std::vector<OpCase> cases() {
  return binary_cases(kPositive ? 1 : -9, 9, true, kIntegers);
}

// Zero, the lowest number and -1, which would trap or overflow in plain C++.
template <bool kPositive>
std::vector<OpCase> division_cases() {
  std::vector<OpCase> all = cases<kPositive>();
  const Tensor a = Tensor::of<int32_t>({6}, {7, -7, std::numeric_limits<int32_t>::min(), 5, -5, 0});
  const Tensor b = Tensor::of<int32_t>({6}, {-2, 2, -1, 0, 3, 0});
  all.push_back({.name = "edges", .inputs = {CaseInput::value(a), CaseInput::value(b)}, .attrs = {}});
  return all;
}

std::vector<OpCase> nary_cases() {
  std::vector<OpCase> all = cases<false>();
  const CaseInput x = CaseInput::of({3, 41});
  all.push_back({.name = "one", .inputs = {x}, .attrs = {}});
  all.push_back({.name = "three", .inputs = {x, CaseInput::of({41}), CaseInput::of({3, 1})}, .attrs = {}});
  const Tensor odd = Tensor::of<float>({3}, {INFINITY, -INFINITY, NAN});
  all.push_back({.name = "special",
                 .inputs = {CaseInput::of({2, 3}), CaseInput::value(odd)},
                 .attrs = {},
                 .differentiable = false});
  return all;
}

constexpr AttrSpec kConsumed[] = {{"consumed_inputs", AttrType::integers}};

// --- gradients
template <int kOfSecond>
std::vector<ValueId> gradient_of_sum(GradContext& c) {
  const Term g(c.b, c.out_grads[0]);
  return {g, kOfSecond < 0 ? -g : g};
}
std::vector<ValueId> gradient_of_product(GradContext& c) {
  const Term a(c.b, c.node.inputs[0]), b(c.b, c.node.inputs[1]), g(c.b, c.out_grads[0]);
  return {g * b, g * a};
}
std::vector<ValueId> gradient_of_quotient(GradContext& c) {
  const Term b(c.b, c.node.inputs[1]), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  return {g / b, -(g * (y / b))};
}
std::vector<ValueId> gradient_of_sums(GradContext& c) {
  return std::vector<ValueId>(c.node.inputs.size(), c.out_grads[0]);
}
// Operands that are equally large share the gradient.
std::vector<ValueId> gradient_of_extreme(GradContext& c) {
  const Term y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  std::vector<Term> taken;
  for (const ValueId x : c.node.inputs) taken.push_back(where(node("Equal", {c.b, x}, y), g.number(1), 0));
  Term count = taken[0];
  for (size_t i = 1; i < taken.size(); ++i) count = count + taken[i];
  std::vector<ValueId> out;
  for (const Term& each : taken) out.push_back(g * (each / count));
  return out;
}

template <class Fn, BinaryMath kVector>
constexpr OpDef binary_op(std::string_view name, std::string_view doc, CasesFn cases, GradFn grad) {
  return {.name = name,
          .doc = doc,
          .since = 7,
          .inputs = {2, 2},
          .outputs = {1, 1},
          .traits = {.in_place = over_any_input, .elementwise = true, .finite = kVector != BinaryMath::div},
          .infer = infer_nary<NumericTypes>,
          .cpu = BinaryKernels<Fn, kVector, NumericTypes>::kKernels,
          .cuda = cuda::kElementwise,
          .grad = grad,
          .cases = cases};
}

template <class Fn, BinaryMath kVector>
constexpr OpDef nary_op(std::string_view name, std::string_view doc, GradFn grad) {
  return {.name = name,
          .doc = doc,
          .since = 1,
          .inputs = {1, kMany},
          .outputs = {1, 1},
          .attributes = kConsumed,
          .traits = {.in_place = over_any_input, .elementwise = true},
          .infer = infer_nary<NumericTypes>,
          .cpu = BinaryKernels<Fn, kVector, NumericTypes>::kKernels,
          .cuda = cuda::kElementwise,
          .grad = grad,
          .cost =
              [](const Problem& p) {
                return static_cast<double>(p.outputs[0].shape.elements()) * static_cast<double>(p.inputs.size() - 1);
              },
          .cases = nary_cases};
}

// --- Mod
struct ModState final : KernelState {
  explicit ModState(Broadcast b, bool c) : plan(std::move(b)), truncates(c) {}
  Broadcast plan;
  bool truncates;
};
std::unique_ptr<KernelState> prepare_mod(const Problem& p) {
  const Shape shapes[] = {p.inputs[0].shape, p.inputs[1].shape};
  return std::make_unique<ModState>(Broadcast(p.outputs[0].shape, shapes), p.attrs().integer("fmod", 0) != 0);
}
void run_mod(const Call& c) {
  const ModState& s = c.as<ModState>();
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    if (s.truncates) map_nary<T, Compute<T>>(c, s.plan, fn::Fmod{});
    else map_nary<T, Compute<T>>(c, s.plan, fn::Modulo{});
  });
}
std::vector<OpCase> mod_cases() {
  std::vector<OpCase> all = division_cases<true>();
  for (size_t i = 0, n = all.size(); i < n; ++i) {
    all.push_back(all[i]);
    all.back().name += "_fmod";
    all.back().attrs.set("fmod", int64_t{1});
  }
  return all;
}
// y = a - b q, and q, a whole number, is constant between jumps.
std::vector<ValueId> gradient_of_mod(GradContext& c) {
  const Term a(c.b, c.in(0)), b(c.b, c.in(1)), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  return {g, g * ((y - a) / b)};
}
constexpr AttrSpec kModAttrs[] = {{"fmod", AttrType::integer}};
constexpr Kernel kMod[] = {{.name = "reference", .prepare = prepare_mod, .run = run_mod}};

// --- Mean
std::vector<ValueId> expand_mean(ExpandContext& e) {
  const ValueId sum = e.b.add("Sum", e.node.inputs);
  return {e.b.add("Div", {sum, e.b.scalar(e.b.dtype(sum), static_cast<double>(e.node.inputs.size()))})};
}

const OpDef kOps[] = {
    binary_op<fn::Add, BinaryMath::add>("Add", "a + b.", cases<false>, gradient_of_sum<1>),
    binary_op<fn::Sub, BinaryMath::sub>("Sub", "a - b.", cases<false>, gradient_of_sum<-1>),
    binary_op<fn::Mul, BinaryMath::mul>("Mul", "a b.", cases<false>, gradient_of_product),
    binary_op<fn::Div, BinaryMath::div>("Div", "a / b; integers towards zero, and 0 where b is 0.",
                                        division_cases<true>, gradient_of_quotient),
    nary_op<fn::Max, BinaryMath::max>("Max", "The largest operand.", gradient_of_extreme),
    nary_op<fn::Min, BinaryMath::min>("Min", "The smallest operand.", gradient_of_extreme),
    nary_op<fn::Add, BinaryMath::add>("Sum", "The sum of all operands.", gradient_of_sums),
    legacy_binary_op("Add", false),
    legacy_binary_op("Sub", false),
    legacy_binary_op("Mul", false),
    legacy_binary_op("Div", false),
    {.name = "Mod",
     .doc = "The remainder with the sign of b, or with `fmod` of a; 0 for integers where b is 0.",
     .since = 10,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kModAttrs,
     .traits = {.in_place = over_any_input, .elementwise = true},
     .infer = infer_nary<NumericTypes>,
     .cpu = kMod,
     .cuda = cuda::kElementwise,
     .grad = gradient_of_mod,
     .cases = mod_cases},
    {.name = "Mean",
     .doc = "The mean of all operands.",
     .since = 1,
     .inputs = {1, kMany},
     .outputs = {1, 1},
     .attributes = kConsumed,
     .infer = infer_nary<FloatTypes>,
     .expand = expand_mean},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::arithmetic_ops
