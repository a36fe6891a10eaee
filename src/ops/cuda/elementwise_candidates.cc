#include "ops/cuda/elementwise_candidates.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ir/elementwise_chain.h"
#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/elementwise.h"

namespace sparkpilot::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// An op that is one function: of its operand, with attributes as alpha and beta, or of its operands from left to right.
struct Row {
  std::string_view op;
  Function function;
  bool integers = false;  // it takes them too
  std::string_view alpha = {}, beta = {};
  float alpha_without = 0, beta_without = 0;
};
constexpr auto kRows = std::to_array<Row>({
    {"Abs", Function::abs, true},
    {"Add", Function::add, true},
    {"And", Function::logical_and, true},
    {"Ceil", Function::ceil},
    {"Celu", Function::celu, false, "alpha", {}, 1},
    {"Cos", Function::cos},
    {"Cosh", Function::cosh},
    {"Div", Function::div, true},
    {"Elu", Function::elu, false, "alpha", {}, 1},
    {"Equal", Function::equal, true},
    {"Erf", Function::erf},
    {"Exp", Function::exp},
    {"Floor", Function::floor},
    {"Greater", Function::greater, true},
    {"GreaterOrEqual", Function::greater_or_equal, true},
    {"HardSigmoid", Function::hard_sigmoid, false, "alpha", "beta", 0.2f, 0.5f},
    {"HardSwish", Function::hard_swish},
    {"IsNaN", Function::is_nan},
    {"LeakyRelu", Function::leaky_relu, false, "alpha", {}, 0.01f},
    {"Less", Function::less, true},
    {"LessOrEqual", Function::less_or_equal, true},
    {"Log", Function::log},
    {"Max", Function::max, true},
    {"Min", Function::min, true},
    {"Mish", Function::mish},
    {"Mul", Function::mul, true},
    {"Neg", Function::neg, true},
    {"Not", Function::logical_not, true},
    {"Or", Function::logical_or, true},
    {"PRelu", Function::prelu, true},
    {"Reciprocal", Function::reciprocal},
    {"Relu", Function::relu, true},
    {"Round", Function::round},
    {"Selu", Function::selu, false, "alpha", "gamma", 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"Shrink", Function::shrink, false, "lambd", "bias", 0.5f, 0},
    {"Sigmoid", Function::sigmoid},
    {"Sign", Function::sign, true},
    {"Sin", Function::sin},
    {"Sinh", Function::sinh},
    {"Softplus", Function::softplus},
    {"Softsign", Function::softsign},
    {"Sqrt", Function::sqrt},
    {"Sub", Function::sub, true},
    {"Sum", Function::add, true},
    {"Swish", Function::silu, false, "alpha", {}, 1},
    {"Tan", Function::tan},
    {"Tanh", Function::tanh},
    {"ThresholdedRelu", Function::thresholded_relu, false, "alpha", {}, 1},
    {"Xor", Function::logical_xor, true},
});

// What a node is as a chain. Operands are the node's inputs in this order.
struct Chain {
  std::vector<size_t> inputs = {0};
  std::vector<ElementwiseStep> steps;
  uint64_t consumed = 0;
  bool integers = true;  // the steps take integers
};

ElementwiseStep step_of(Function function, float alpha = 0, float beta = 0) {
  return {.function = function, .alpha = alpha, .beta = beta};
}

// A step of x and a further input.
void add_operand(Chain& chain, Function function, size_t input) {
  chain.steps.push_back({.function = function, .operand = static_cast<uint8_t>(chain.inputs.size())});
  chain.inputs.push_back(input);
}

Chain clip_chain(const Problem& p) {
  Chain chain;
  const auto number = [&](size_t i) { return !p.has(i) || p.is_constant(i); };
  if (is_float(p.inputs[0].dtype) && number(1) && number(2)) {
    const auto bound = [&](size_t i, float without) {
      if (!p.has(i)) return without;
      chain.consumed |= uint64_t{1} << i;
      return static_cast<float>(p.constants[i].to_scalar());
    };
    const float low = bound(1, -kInfinity), high = bound(2, kInfinity);
    chain.steps = {step_of(Function::clip, low, high)};
    return chain;
  }
  if (p.has(1)) add_operand(chain, Function::max, 1);
  if (p.has(2)) add_operand(chain, Function::min, 2);
  return chain;
}

// Small whole powers as products, which are faster and exact.
Chain pow_chain(const Problem& p) {
  Chain chain{.integers = false};
  const bool one = p.is_constant(1) && p.constants[1].elements() == 1 && p.outputs[0].shape == p.inputs[0].shape;
  const double exponent = one ? p.constants[1].to_scalar() : 0.0;
  const ElementwiseStep product{.function = Function::mul, .operand = kKept};
  if (exponent == -1) chain.steps = {step_of(Function::reciprocal)};
  else if (exponent == 2) chain.steps = {step_of(Function::keep), product};
  else if (exponent == 3) chain.steps = {step_of(Function::keep), product, product};
  else if (exponent != 1) add_operand(chain, Function::pow, 1);
  if (chain.inputs.size() == 1) chain.consumed = 2;
  return chain;
}

static_assert(kMostChainInputs <= ElementwiseArguments::kMostOperands &&
              kMostChainSteps <= ElementwiseArguments::kMostSteps && kMostChainRank <= kMostDimensions);

// The steps of a chain that a pass made.
Chain written_chain(const Problem& p) {
  Chain chain{.inputs = {}, .integers = false};
  for (size_t i = 0; i < p.inputs.size(); ++i) chain.inputs.push_back(i);
  const auto operand = [](int input) { return input == ChainStep::kKept ? kKept : static_cast<uint8_t>(input); };
  for (const std::string& text : p.attrs().texts("steps")) {
    const ChainStep step = parse_chain_step(text);
    const auto* const row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.op == step.op; });
    const Function function = step.kind == ChainStep::keep    ? Function::keep
                              : step.kind == ChainStep::load  ? Function::load
                              : step.kind == ChainStep::where ? Function::select
                                                              : row->function;
    chain.steps.push_back({.function = function,
                           .operand = operand(step.first),
                           .second = operand(step.second),
                           .reversed = step.reversed});
  }
  return chain;
}

std::optional<Chain> chain_of(const Problem& p) {
  const std::string_view op = p.node->op->name;
  const Attributes& attrs = p.attrs();
  if (op == "ElementwiseChain") return written_chain(p);
  if (op == "Cast") return Chain{};
  if (op == "Clip") return clip_chain(p);
  if (op == "Pow") return pow_chain(p);
  if (op == "Where") {
    return Chain{.inputs = {0, 1, 2}, .steps = {{.function = Function::select, .operand = 1, .second = 2}}};
  }
  if (op == "Gelu") {
    const bool tanh = attrs.text("approximate", "none") == "tanh";
    return Chain{.steps = {step_of(tanh ? Function::gelu_tanh : Function::gelu_erf)}, .integers = false};
  }
  if (op == "IsInf") {
    const auto counts = [&](const char* side) { return attrs.integer(side, 1) != 0 ? 1.0f : 0.0f; };
    return Chain{.steps = {step_of(Function::is_inf, counts("detect_positive"), counts("detect_negative"))}};
  }
  if (op == "Mod") {
    Chain chain;
    add_operand(chain, attrs.integer("fmod", 0) != 0 ? Function::fmod : Function::mod, 1);
    return chain;
  }
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.op == op; });
  if (row == kRows.end()) return std::nullopt;
  Chain chain{.integers = row->integers};
  if (row->function >= first_of_two) {
    for (size_t i = 1; i < p.inputs.size(); ++i) add_operand(chain, row->function, i);
  } else {
    const float alpha = row->alpha.empty() ? 0.0f : attrs.real(row->alpha, row->alpha_without);
    const float beta = row->beta.empty() ? 0.0f : attrs.real(row->beta, row->beta_without);
    chain.steps = {step_of(row->function, alpha, beta)};
  }
  return chain;
}

// Whether the result is computed in whole numbers: no type is a float.
bool in_integers(const Problem& p, const Chain& chain) {
  return !is_float(p.outputs[0].dtype) &&
         std::none_of(chain.inputs.begin(), chain.inputs.end(), [&](size_t i) { return is_float(p.inputs[i].dtype); });
}

Acceptance accepts(const Problem& p) {
  const std::optional<Chain> chain = chain_of(p);
  if (!chain) return fmt::format("no kernel for {}", p.node->op->name);
  if (chain->inputs.size() > ElementwiseArguments::kMostOperands) return "more than 8 operands";
  const Shape& shape = p.outputs[0].shape;
  if (const Acceptance takes = takes_elements(shape); !takes) return takes;
  if (!element_type(p.outputs[0].dtype)) return fmt::format("{} output", name(p.outputs[0].dtype));
  StridedLoops loops{.sizes = sizes_of(shape), .strides = {contiguous_strides(sizes_of(shape))}};
  for (const size_t i : chain->inputs) {
    const TensorType& input = p.inputs[i];
    if (!element_type(input.dtype)) return fmt::format("{} input", name(input.dtype));
    loops.strides.push_back(broadcast_strides(sizes_of(input.shape), loops.sizes));
  }
  if (in_integers(p, *chain) && !chain->integers)
    return fmt::format("{} of {}", p.node->op->name, name(p.inputs[0].dtype));
  // Whole results by way of fp32 would be cut where they are a little too small.
  if (is_integer(p.outputs[0].dtype) && !in_integers(p, *chain) && !chain->steps.empty()) return "integers and floats";
  if (loops.merged().sizes.size() > kMostDimensions) return "too many dimensions";
  return true;
}

struct State : KernelState {
  const GpuFunction *wide = nullptr, *narrow = nullptr;  // wide: null in whole numbers
  ElementwiseArguments arguments{};
  std::array<size_t, ElementwiseArguments::kMostOperands> inputs{};  // by operand
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  const Chain chain = *chain_of(p);
  auto state = std::make_unique<State>();
  std::vector<ElementwiseInput> operands;
  for (const size_t i : chain.inputs) {
    state->inputs[operands.size()] = i;
    operands.push_back({nullptr, *element_type(p.inputs[i].dtype), sizes_of(p.inputs[i].shape)});
  }
  state->consumed = chain.consumed;
  state->arguments =
      make_elementwise(nullptr, *element_type(p.outputs[0].dtype), sizes_of(p.outputs[0].shape), operands, chain.steps);
  const bool integers = in_integers(p, chain);
  state->narrow = &kernel_on(*p.gpu, integers ? "elementwise_integers" : "elementwise");
  if (!integers) state->wide = &kernel_on(*p.gpu, fmt::format("elementwise_wide_{}", state->arguments.width));
  return state;
}

void run(const Call& c) {
  const auto& state = c.as<State>();
  ElementwiseArguments arguments = state.arguments;
  arguments.y = c.outputs[0].data;
  for (int i = 0; i < arguments.operand_count; ++i) {
    arguments.operands[i].data = c.inputs[state.inputs[static_cast<size_t>(i)]].data;
  }
  if (state.wide && elementwise_wide_accepts(arguments)) {
    c.stream->launch(*state.wide, elementwise_wide_launch(arguments), arguments);
  } else {
    c.stream->launch(*state.narrow, elementwise_launch(arguments), arguments);
  }
}

}  // namespace

constinit const Kernel kElementwise[1] = {{.name = "chain", .accepts = accepts, .prepare = prepare, .run = run}};

}  // namespace sparkpilot::cuda
