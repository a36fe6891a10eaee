#include "passes/exact_halves.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "passes/test_graph.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::testing {
namespace exact_halves_test {

Tensor rounded(const Shape& shape, uint64_t seed, DType type, double scale = 1) {
  return convert(convert(random_tensor(shape, seed, DType::f32, scale), type), DType::f32);
}

TEST(ExactHalves, AreTheTypeThatHoldsAllNumbers) {
  Tensor t = Tensor::zeros(DType::f32, {3});
  EXPECT_EQ(exact_type(t), DType::f16);
  const auto with = [&](float x) {
    t.data<float>()[1] = x;
    return exact_type(t);
  };
  EXPECT_EQ(with(65504), DType::f16);
  EXPECT_EQ(with(0x1p-24F), DType::f16) << "its least";
  EXPECT_EQ(with(1 + 0x1p-10F), DType::f16);
  EXPECT_EQ(with(1 + 0x1p-11F), DType::f32);
  EXPECT_EQ(with(65536), DType::bf16);
  EXPECT_EQ(with(0x1p-130F), DType::bf16);
  EXPECT_EQ(with(INFINITY), DType::f16);
  EXPECT_EQ(with(NAN), DType::f32);
}

// A file of 16-bit weights keeps them, other numbers stay what they are, and nothing is rounded.
TEST(ExactHalves, ChangeNoBit) {
  Graph g;
  g.opsets[""] = 21;
  Builder b(g);
  ValueId x = b.input("x", DType::f32, {2, 32});
  const ValueId both = b.constant(rounded({32, 32}, 1, DType::f16), "both");
  x = b.add("MatMul", {b.add("MatMul", {x, both}), both});
  x = b.add("MatMul", {x, b.constant(rounded({32, 16}, 2, DType::bf16, 1e6), "brain")});
  x = b.add("MatMul", {x, b.constant(random_tensor({16, 16}, 3), "full")});
  x = b.add("Add", {x, b.constant(rounded({16}, 4, DType::f16), "small")});
  Tensor codes(DType::f8e4m3fn, {16, 300});
  for (int64_t i = 0; i < codes.elements(); ++i) store_element(codes.dtype(), codes.raw(), i, 1);
  const ValueId scales = b.constant(rounded({300}, 5, DType::f16), "scales");
  x = b.add("MatMul", {x, b.add("DequantizeLinear", {b.constant(codes, "codes"), scales}, {{"axis", int64_t{1}}})});
  b.output(x, "y");
  infer(g);
  const Tensor input = random_tensor({2, 32}, 6);
  const Tensor before = interpret(g, std::vector<Tensor>{input})[0];
  EXPECT_EQ(store_exact_halves(g), 2);
  infer(g);
  const Tensor after = interpret(g, std::vector<Tensor>{input})[0];
  EXPECT_EQ(std::memcmp(before.raw(), after.raw(), static_cast<size_t>(before.bytes())), 0);
  std::map<std::string, DType> types;
  for (int i = 0; i < g.value_count(); ++i) {
    if (const Tensor* constant = g.constant(ValueId{i})) types[g.value(ValueId{i}).name] = constant->dtype();
  }
  EXPECT_EQ(types, (std::map<std::string, DType>{{"both", DType::f16},
                                                 {"brain", DType::bf16},
                                                 {"full", DType::f32},
                                                 {"small", DType::f32},
                                                 {"codes", DType::f8e4m3fn},
                                                 {"scales", DType::f32}}));
  EXPECT_EQ(store_exact_halves(g), 0);
}

}  // namespace exact_halves_test
}  // namespace sparkpilot::testing
