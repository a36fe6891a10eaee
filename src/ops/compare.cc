// Comparisons: two operands of one dtype, booleans out. A comparison with NaN is false.
#include "ops/cpu/binary.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

template <class Fn, typename Types>
void run(const Call& c) {
  dispatch(Types{}, c.inputs[0].dtype, [&]<typename T>() { map_compare<T>(c, c.as<BroadcastState>().plan, Fn{}); });
}

template <class Fn, typename Types>
constexpr Kernel kKernels[] = {{.name = "reference", .prepare = prepare_broadcast, .run = run<Fn, Types>}};

std::vector<OpCase> cases() {
  std::vector<OpCase> all = binary_cases(-2, 2, true, true);
  const Tensor odd = Tensor::of<float>({4}, {INFINITY, NAN, -0.0f, 1});
  all.push_back({.name = "special",
                 .inputs = {CaseInput::value(odd), CaseInput::value(odd.reshaped({4, 1}))},
                 .attrs = {},
                 .differentiable = false});
  return all;
}

template <class Fn, typename Types = NumericTypes>
constexpr OpDef compare_op(std::string_view name, int since, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .since = since,
          .inputs = {2, 2},
          .outputs = {1, 1},
          .traits = {.elementwise = true},
          .infer = infer_compare<Types>,
          .cpu = kKernels<Fn, Types>,
          .cases = cases};
}

const OpDef kOps[] = {
    compare_op<fn::Equal, AllTypes>("Equal", 7, "Whether a and b are equal."),
    compare_op<fn::Greater>("Greater", 7, "Whether a is above b."),
    compare_op<fn::GreaterOrEqual>("GreaterOrEqual", 12, "Whether a is not below b."),
    compare_op<fn::Less>("Less", 7, "Whether a is below b."),
    compare_op<fn::LessOrEqual>("LessOrEqual", 12, "Whether a is not above b."),
    legacy_binary_op("Equal", true),
    legacy_binary_op("Greater", true),
    legacy_binary_op("Less", true),
};

}  // namespace

std::span<const OpDef> compare_ops() { return kOps; }

}  // namespace sparkpilot
