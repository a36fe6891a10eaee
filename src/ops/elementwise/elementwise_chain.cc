// sparkpilot::ElementwiseChain: elementwise ops that follow one another, as one node (ir/elementwise_chain.h has the
// steps). What is between two steps has the precision of the arithmetic, and stays in the first-level cache.
#include "ir/elementwise_chain.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "ops/cpu/vector/elementwise.h"
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/functors.h"
#include "ops/registry.h"

namespace sparkpilot::elementwise_chain_ops {
namespace {

using Texts = std::vector<std::string>;

// What computes a step: in double, and on vectors of floats.
struct Function {
  std::string_view op;
  double (*one)(double) = nullptr;
  double (*two)(double, double) = nullptr;
  bool (*holds)(double, double) = nullptr;
  std::optional<Activation> activation = {};
  UnaryMath unary = {};
  BinaryMath binary = {};
  Comparison comparison = {};
};
template <class Fn>
constexpr auto kTwo = [](double a, double b) -> double { return Fn{}(a, b); };
template <class Fn>
constexpr auto kHolds = [](double a, double b) -> bool { return Fn{}(a, b); };
template <class Fn>
constexpr auto kOne = [](double x) -> double { return Fn{}(x); };

template <class Fn>
constexpr Function activation(std::string_view op, Activation which) {
  return {.op = op, .one = kOne<Fn>, .activation = which};
}
template <class Fn>
constexpr Function unary(std::string_view op, UnaryMath which) {
  return {.op = op, .one = kOne<Fn>, .unary = which};
}
template <class Fn>
constexpr Function binary(std::string_view op, BinaryMath which) {
  return {.op = op, .two = kTwo<Fn>, .binary = which};
}
template <class Fn>
constexpr Function comparison(std::string_view op, Comparison which) {
  return {.op = op, .holds = kHolds<Fn>, .comparison = which};
}
constexpr Function kFunctions[] = {
    unary<fn::Abs>("Abs", UnaryMath::abs),
    unary<fn::Exp>("Exp", UnaryMath::exp),
    unary<fn::Log>("Log", UnaryMath::log),
    unary<fn::Neg>("Neg", UnaryMath::neg),
    unary<fn::Reciprocal>("Reciprocal", UnaryMath::reciprocal),
    activation<fn::Relu>("Relu", Activation::relu),
    activation<fn::Sigmoid>("Sigmoid", Activation::sigmoid),
    unary<fn::Sign>("Sign", UnaryMath::sign),
    activation<fn::Softplus>("Softplus", Activation::softplus),
    unary<fn::Sqrt>("Sqrt", UnaryMath::sqrt),
    activation<fn::Tanh>("Tanh", Activation::tanh),
    binary<fn::Add>("Add", BinaryMath::add),
    binary<fn::Div>("Div", BinaryMath::div),
    binary<fn::Max>("Max", BinaryMath::max),
    binary<fn::Min>("Min", BinaryMath::min),
    binary<fn::Mul>("Mul", BinaryMath::mul),
    binary<fn::Sub>("Sub", BinaryMath::sub),
    comparison<fn::Equal>("Equal", Comparison::equal),
    comparison<fn::Greater>("Greater", Comparison::greater),
    comparison<fn::GreaterOrEqual>("GreaterOrEqual", Comparison::greater_or_equal),
    comparison<fn::Less>("Less", Comparison::less),
    comparison<fn::LessOrEqual>("LessOrEqual", Comparison::less_or_equal),
};

struct Step {
  ChainStep what;
  const Function* function = nullptr;  // null for Where, Keep and Load
};

std::vector<Step> steps_of(const Attributes& attrs) {
  std::vector<Step> steps;
  for (const std::string& text : attrs.texts("steps")) {
    Step step{parse_chain_step(text)};
    const auto* const function = std::ranges::find(kFunctions, step.what.op, &Function::op);
    if (function != std::end(kFunctions)) step.function = function;
    steps.push_back(step);
  }
  return steps;
}

void infer(InferContext& c) {
  const std::vector<Step> steps = steps_of(c.attrs);
  if (steps.empty() || steps.size() > kMostChainSteps)
    fail("{} steps, expected 1 to {}", steps.size(), kMostChainSteps);
  if (c.input_count() > static_cast<int>(kMostChainInputs))
    fail("{} inputs, expected at most {}", c.input_count(), kMostChainInputs);
  bool condition = c.dtype(0) == DType::boolean, kept = false;
  const auto check_operand = [&](int input) {
    if (input == ChainStep::kKept ? !kept : input >= c.input_count() || c.dtype(input) == DType::boolean)
      fail("a step reads what is not there or no number");
  };
  for (const auto& [step, function] : steps) {
    if (condition != (step.kind == ChainStep::where))
      fail("{}, where {}", to_text(step), condition ? "x is a condition, which Where reads" : "x is no condition");
    if (step.kind == ChainStep::two || step.kind == ChainStep::comparison || step.kind == ChainStep::load)
      check_operand(step.first);
    if (step.kind == ChainStep::where) check_operand(step.first), check_operand(step.second);
    condition = step.kind == ChainStep::comparison;
    kept |= step.kind == ChainStep::keep;
  }
  if (condition) fail("the last step is a comparison");
  Shape shape = c.shape(0);
  DType dtype = DType::none;
  for (int i = 0; i < c.input_count(); ++i) {
    shape = broadcast(shape, c.shape(i));
    if (i == 0 && c.dtype(0) == DType::boolean) continue;
    if (!contains(TypeList<float, double, Half, BFloat16>{}, c.dtype(i)))
      fail("input {} is {}, expected f16, bf16, f32 or f64", i, name(c.dtype(i)));
    if (dtype == DType::none) dtype = c.dtype(i);
    if (c.dtype(i) != dtype) fail("input {} is {}, others are {}", i, name(c.dtype(i)), name(dtype));
  }
  if (dtype == DType::none) fail("no input is a number");
  c.output(0, dtype, shape);
}

std::vector<ValueId> expand(ExpandContext& e) {
  ValueId x = e.in(0), kept;
  for (const auto& [step, function] : steps_of(e.node.attrs)) {
    const auto operand = [&](int input) { return input == ChainStep::kKept ? kept : e.in(static_cast<size_t>(input)); };
    switch (step.kind) {
      case ChainStep::keep: kept = x; break;
      case ChainStep::load: x = operand(step.first); break;
      case ChainStep::one: x = e.b.add(step.op, {x}); break;
      case ChainStep::where: x = e.b.add(step.op, {x, operand(step.first), operand(step.second)}); break;
      default: {
        const ValueId y = operand(step.first);
        x = step.reversed ? e.b.add(step.op, {y, x}) : e.b.add(step.op, {x, y});
      }
    }
  }
  return {x};
}

struct State final : KernelState {
  State(Broadcast b, std::vector<Step> s) : plan(std::move(b)), steps(std::move(s)) {}
  Broadcast plan;
  std::vector<Step> steps;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  std::vector<Shape> shapes;
  for (const TensorType& input : p.inputs) shapes.push_back(input.shape);
  return std::make_unique<State>(Broadcast(p.outputs[0].shape, shapes), steps_of(p.attrs()));
}

// --- element by element, in double
void run_reference(const Call& c) {
  const State& state = c.as<State>();
  const View& y = c.outputs[0];
  parallel_for(y.elements(), kMathGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto input = [&](int k) {
        double value = 0;
        state.plan.for_runs<1>({k}, i, i + 1, [&](int64_t, const std::array<int64_t, 1>& at, int64_t) {
          const ConstView& from = c.inputs[static_cast<size_t>(k)];
          value = load_element(from.dtype, from.data, at[0]);
        });
        return value;
      };
      double x = input(0), kept = 0;
      for (const auto& [step, function] : state.steps) {
        const auto operand = [&](int k) { return k == ChainStep::kKept ? kept : input(k); };
        const auto of_two = [&, &step = step](auto f, double b) { return step.reversed ? f(b, x) : f(x, b); };
        switch (step.kind) {
          case ChainStep::keep: kept = x; break;
          case ChainStep::load: x = operand(step.first); break;
          case ChainStep::one: x = function->one(x); break;
          case ChainStep::two: x = of_two(function->two, operand(step.first)); break;
          case ChainStep::comparison: x = of_two(function->holds, operand(step.first)) ? 1 : 0; break;
          case ChainStep::where: x = x != 0 ? operand(step.first) : operand(step.second); break;
        }
      }
      store_element(y.dtype, y.data, i, x);
    }
  });
}

// --- a block of elements at a time, in f32
class Operand {
 public:
  Operand(const Call& c, const Broadcast& plan, int k) : call_(&c), plan_(&plan), k_(k) {
    if (view().dtype == DType::f32) floats_.emplace(plan, k, view().as<float>());
  }
  const float* at(int64_t position, int64_t n) {
    return floats_ ? floats_->at(position, n) : float_block(*call_, *plan_, k_, position, n, halves_);
  }

 private:
  const ConstView& view() const { return call_->inputs[static_cast<size_t>(k_)]; }
  const Call* call_;
  const Broadcast* plan_;
  int k_;
  std::optional<Blocks<float, float>> floats_;
  alignas(64) float halves_[kBlock];
};

class BlockRun {
 public:
  BlockRun(const Call& c, const State& state) : state_(state), y_(c.outputs[0]) {
    for (size_t k = 0; k < c.inputs.size(); ++k) {
      if (c.inputs[k].dtype == DType::boolean) conditions_.emplace(state.plan, 0, c.inputs[0].as<bool>());
      else operands_[k].emplace(c, state.plan, static_cast<int>(k));
    }
  }

  void run(int64_t position, int64_t n) {
    position_ = position, n_ = n;
    const bool direct = y_.dtype == DType::f32;
    float* const out = direct ? y_.as<float>() + position : last_;
    if (conditions_) condition_ = conditions_->at(position, n);
    else x_ = operand(0);
    for (size_t s = 0; s < state_.steps.size(); ++s) step(state_.steps[s], s + 1 == state_.steps.size() ? out : free());
    if (!direct) floats_to(y_.dtype, x_, y_.data, position, n);
    else if (x_ != out) std::copy_n(x_, n, out);
  }

 private:
  const float* operand(int k) {
    return k == ChainStep::kKept ? kept_ : operands_[static_cast<size_t>(k)]->at(position_, n_);
  }
  // A buffer that holds nothing but x.
  float* free() { return kept_ == scratch_[0] ? scratch_[1] : scratch_[0]; }

  void step(const Step& step, float* to) {
    const ChainStep& what = step.what;
    switch (what.kind) {
      case ChainStep::keep: kept_ = x_; return;
      case ChainStep::load: x_ = operand(what.first); return;
      case ChainStep::one:
        if (step.function->activation) apply_activation(*step.function->activation, 0, 0, x_, to, n_);
        else vector_unary(step.function->unary, x_, to, n_);
        break;
      case ChainStep::two: {
        const float* const other = operand(what.first);
        vector_binary(step.function->binary, what.reversed ? other : x_, what.reversed ? x_ : other, to, n_);
        break;
      }
      case ChainStep::comparison: {
        const float* const other = operand(what.first);
        compare_n(step.function->comparison, DType::f32, what.reversed ? other : x_, what.reversed ? x_ : other, holds_,
                  n_);
        condition_ = holds_;
        return;
      }
      case ChainStep::where: select_n(sizeof(float), condition_, operand(what.first), operand(what.second), to, n_);
    }
    x_ = to;
  }

  const State& state_;
  const View& y_;
  std::array<std::optional<Operand>, kMostChainInputs> operands_;
  std::optional<Blocks<bool, bool>> conditions_;
  int64_t position_ = 0, n_ = 0;
  const float *x_ = nullptr, *kept_ = nullptr;
  const bool* condition_ = nullptr;
  alignas(64) float scratch_[2][kBlock], last_[kBlock];
  bool holds_[kBlock];
};

void run_simd(const Call& c) {
  const State& state = c.as<State>();
  parallel_for(c.outputs[0].elements(), kMathGrain, [&](int64_t begin, int64_t end) {
    BlockRun block(c, state);
    for (int64_t i = begin; i < end; i += kBlock) block.run(i, std::min(kBlock, end - i));
  });
}

Acceptance accepts_simd(const Problem& p) {
  if (p.outputs[0].dtype == DType::f64) return "f64";
  return true;
}

std::vector<OpCase> cases() {
  const auto of = [](std::initializer_list<Shape> shapes, double low = -2, double high = 2, DType dtype = DType::f32) {
    std::vector<CaseInput> inputs;
    for (const Shape& shape : shapes) inputs.push_back(CaseInput::range(shape, low, high, dtype));
    return inputs;
  };
  const auto made = [](const char* name, std::vector<CaseInput> inputs, Texts steps) {
    return OpCase{.name = name, .inputs = std::move(inputs), .attrs = {{"steps", std::move(steps)}}};
  };
  OpCase masked = made("masked", of({{5, 67}, {5, 67}, {}}), {"Where:1:2", "Neg"});
  masked.inputs[0] = CaseInput::range({5, 1}, 0, 1, DType::boolean);
  return {
      made("scaled_and_shifted", of({{2, 9, 7, 24}, {24}, {24}}), {"Mul:1", "Add:2", "Relu"}),
      made("channels_first", of({{2, 5, 4, 7}, {5, 1, 1}, {1, 4, 7}}), {"Mul:1", "Sub:2:reversed"}),
      made("gradient_of_relu", of({{3, 301}, {3, 301}, {}, {3, 301}}),
           {"Add:1", "Keep", "Load:3", "Greater:2", "Where:kept:2"}),
      made("square_and_root", of({{701, 7}, {7}}, 0.1, 3), {"Keep", "Mul:kept", "Add:1", "Sqrt", "Div:0:reversed"}),
      made("two_branches", of({{33, 12}, {1, 12}, {33, 12}, {33, 1}}),
           {"Mul:1", "Exp", "Keep", "Load:2", "Sub:3", "Abs", "Div:kept:reversed", "Keep", "Max:0", "Add:kept"}),
      made("functions", of({{1003}, {}}, 0.2, 2),
           {"Log", "Sigmoid", "Tanh", "Softplus", "Reciprocal", "Min:1", "Sign", "Add:0", "LessOrEqual:1:reversed",
            "Where:0:1"}),
      made("eight_inputs", of({{4, 65}, {65}, {4, 65}, {4, 1}, {}, {65}, {4, 65}, {1, 65}}, 0.5, 2),
           {"Add:1", "Mul:2", "Add:3", "Sub:4", "Div:5", "GreaterOrEqual:6", "Where:7:6"}),
      made("equal", of({{40}, {40}}), {"Max:1", "Equal:0", "Where:1:0", "Less:0", "Where:0:1"}),
      made("f16", of({{3, 300}, {300}, {3, 1}}, -2, 2, DType::f16), {"Mul:1", "Add:2", "Relu"}),
      made("bf16", of({{7, 41}, {7, 41}}, -2, 2, DType::bf16), {"Sub:1", "Keep", "Mul:kept"}),
      made("f64", of({{5, 6}, {6}}, -2, 2, DType::f64), {"Mul:1", "Tanh"}),
      made("empty", of({{0, 4}, {4}}), {"Mul:1", "Relu"}),
      std::move(masked),
  };
}

double cost(const Problem& p) {
  const std::vector<Step> steps = steps_of(p.attrs());
  const auto computes = [](const Step& step) { return step.function != nullptr || step.what.kind == ChainStep::where; };
  return static_cast<double>(std::ranges::count_if(steps, computes) * p.outputs[0].shape.elements());
}

constexpr AttrSpec kAttrs[] = {{"steps", AttrType::texts, true}};
constexpr Kernel kCpu[] = {{.name = "simd", .accepts = accepts_simd, .prepare = prepare, .run = run_simd},
                           {.name = "reference", .prepare = prepare, .run = run_reference}};

const OpDef kOps[] = {{.name = "ElementwiseChain",
                       .domain = "sparkpilot",
                       .doc = "Elementwise ops that follow one another.",
                       .since = 1,
                       .inputs = {1, kMany},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.in_place = over_any_input, .elementwise = true},
                       .infer = infer,
                       .cpu = kCpu,
                       .cuda = cuda::kElementwise,
                       .expand = expand,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::elementwise_chain_ops
