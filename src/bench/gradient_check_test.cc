#include "bench/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/infer.h"

namespace sparkpilot {
namespace {

class Gradients : public testing::TestWithParam<const OpDef*> {};

// An op whose cases give floats is right in all of them, and in one at least: what has no gradient says why. Not Cast:
// differences would see its rounding; and not what is made after differentiation and takes or gives no f64.
TEST_P(Gradients, AreThoseOfCentralDifferences) {
  const OpDef& op = *GetParam();
  int passed = 0, refused = 0, outside = 0, all = 0;
  for (const CheckResult& result : check_gradients(op, 3)) {
    EXPECT_NE(result.outcome, CheckResult::failed) << result.op << " " << result.case_name << ": " << result.message;
    passed += result.outcome == CheckResult::passed;
    const bool refuses = result.message.find("has no gradient: ") != std::string::npos;
    EXPECT_FALSE(!refuses && result.message.starts_with("the gradient of "))
        << result.case_name << ": " << result.message;
    refused += refuses;
    outside += result.message == "no float results" || result.message == "no results in f64" ||
               result.message.starts_with("not in f64: ");
    ++all;
  }
  if (op.name == "Cast" || (outside == all && !op.grad)) return;
  EXPECT_TRUE(passed > 0 || (refused > 0 && !op.grad));
}

std::vector<const OpDef*> with_cases() {
  std::vector<const OpDef*> out;
  for (const OpDef* const op : all_ops()) {
    if (op->cases && (op->grad || op->expand)) out.push_back(op);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradients, testing::ValuesIn(with_cases()), [](const auto& each) {
  std::string name = qualified(*each.param) + std::to_string(each.param->since);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

// A record like Tanh's with a gradient that is wrong by a thousandth.
TEST(GradientCheck, SeesAWrongGradient) {
  OpDef wrong = *find_op("", "Tanh", 26);
  const OpCase op_case{"case", {CaseInput::of({3, 5})}, {}};
  EXPECT_EQ(check_gradient(wrong, op_case, 1).outcome, CheckResult::passed);
  wrong.grad = [](GradContext& c) {
    const DType dtype = c.b.dtype(c.in(0));
    const ValueId y = c.node.outputs[0];
    const ValueId slope = c.b.add("Sub", {c.b.scalar(dtype, 1.001), c.b.add("Mul", {y, y})});
    return std::vector<ValueId>{c.b.add("Mul", {c.out_grads[0], slope})};
  };
  const CheckResult result = check_gradient(wrong, op_case, 1);
  EXPECT_EQ(result.outcome, CheckResult::failed);
  EXPECT_GT(result.error, 100 * result.tolerance);
}

TEST(GradientCheck, SaysWhyACaseIsSkipped) {
  const auto message = [](const char* op, const OpCase& op_case) {
    const CheckResult result = check_gradient(*find_op("", op, 26), op_case, 1);
    EXPECT_EQ(result.outcome, CheckResult::skipped);
    return result.message;
  };
  EXPECT_EQ(message("Add", {"i", {CaseInput::of({3}, DType::i32), CaseInput::of({3}, DType::i32)}, {}}),
            "no float results");
  EXPECT_EQ(message("Hardmax", {"case", {CaseInput::of({2, 3})}, {}}),
            "Hardmax has no gradient: its results are constant between jumps (node \"case\")");
}

}  // namespace
}  // namespace sparkpilot
