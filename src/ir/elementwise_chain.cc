#include "ir/elementwise_chain.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace sparkpilot {
namespace {

constexpr std::string_view kKeptText = "kept", kReversedText = "reversed";

constexpr ChainStep kSteps[] = {
    {ChainStep::one, "Abs"},
    {ChainStep::one, "Exp"},
    {ChainStep::one, "Log"},
    {ChainStep::one, "Neg"},
    {ChainStep::one, "Reciprocal"},
    {ChainStep::one, "Relu"},
    {ChainStep::one, "Sigmoid"},
    {ChainStep::one, "Sign"},
    {ChainStep::one, "Softplus"},
    {ChainStep::one, "Sqrt"},
    {ChainStep::one, "Tanh"},
    {ChainStep::two, "Add"},
    {ChainStep::two, "Div"},
    {ChainStep::two, "Max"},
    {ChainStep::two, "Min"},
    {ChainStep::two, "Mul"},
    {ChainStep::two, "Sub"},
    {ChainStep::comparison, "Equal"},
    {ChainStep::comparison, "Greater"},
    {ChainStep::comparison, "GreaterOrEqual"},
    {ChainStep::comparison, "Less"},
    {ChainStep::comparison, "LessOrEqual"},
    {ChainStep::where, "Where"},
    {ChainStep::keep, "Keep"},
    {ChainStep::load, "Load"},
};

int operands(ChainStep::Kind kind) {
  if (kind == ChainStep::one || kind == ChainStep::keep) return 0;
  return kind == ChainStep::where ? 2 : 1;
}

const ChainStep* found(std::string_view op) {
  const auto* const step = std::ranges::find(kSteps, op, &ChainStep::op);
  return step == std::end(kSteps) ? nullptr : step;
}

}  // namespace

const ChainStep* chain_step(std::string_view op) {
  const ChainStep* const step = found(op);
  return step && (step->kind == ChainStep::keep || step->kind == ChainStep::load) ? nullptr : step;
}

std::string to_text(const ChainStep& step) {
  const auto operand = [](int input) {
    return input == ChainStep::kKept ? std::string(kKeptText) : fmt::format("{}", input);
  };
  std::string text(step.op);
  if (operands(step.kind) > 0) text += ":" + operand(step.first);
  if (operands(step.kind) > 1) text += ":" + operand(step.second);
  if (step.reversed) text += fmt::format(":{}", kReversedText);
  return text;
}

ChainStep parse_chain_step(std::string_view text) {
  std::string_view rest = text;
  const auto next = [&] {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
  };
  const auto operand = [&] {
    const std::string_view part = next();
    int input = 0;
    if (part == kKeptText) return ChainStep::kKept;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), input);
    if (error != std::errc() || end != part.data() + part.size() || input < 0) fail("step \"{}\": no operand", text);
    return input;
  };
  const ChainStep* const known = found(next());
  if (!known) fail("step \"{}\": no such operation", text);
  ChainStep step = *known;
  if (operands(step.kind) > 0) step.first = operand();
  if (operands(step.kind) > 1) step.second = operand();
  const bool may_turn = step.kind == ChainStep::two || step.kind == ChainStep::comparison;
  if (may_turn && rest == kReversedText) {
    step.reversed = true;
    rest = {};
  }
  if (!rest.empty()) fail("step \"{}\": \"{}\" is left over", text, rest);
  return step;
}

}  // namespace sparkpilot
