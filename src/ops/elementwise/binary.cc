#include "ops/elementwise/binary.h"

namespace sparkpilot {
namespace {

// B's shape followed by ones, so that NumPy's broadcasting aligns it with `axis`.
std::vector<int64_t> legacy_shape(const Shape& a, const Shape& b, const Attributes& attrs) {
  std::vector<int64_t> dims(b.dims().begin(), b.dims().end());
  if (!attrs.has("axis")) return dims;
  const int64_t axis = attrs.integer("axis"), at = axis < 0 ? axis + a.rank() : axis;
  if (at < 0 || at + b.rank() > a.rank()) fail("axis {} does not place {} within {}", axis, b.str(), a.str());
  dims.resize(static_cast<size_t>(a.rank() - at), 1);
  return dims;
}

Shape check_legacy(const Shape& a, const Shape& b, const Attributes& attrs) {
  const bool broadcasts = attrs.integer("broadcast", 0) != 0;
  const Shape placed = broadcasts ? Shape(legacy_shape(a, b, attrs)) : b;
  if (!(broadcasts ? broadcast(a, placed) == a : a == b)) {
    fail("shape {} does not fit {} with broadcast = {}", b.str(), a.str(), broadcasts ? 1 : 0);
  }
  return placed;
}

template <bool kCompares>
void infer_legacy(InferContext& c) {
  expect_same_dtype(c, 1, 0);
  check_legacy(c.shape(0), c.shape(1), c.attrs);
  c.output(0, kCompares ? DType::boolean : c.dtype(0), c.shape(0));
}

std::vector<ValueId> expand_legacy(ExpandContext& e) {
  const Shape placed = check_legacy(e.b.shape(e.in(0)), e.b.shape(e.in(1)), e.node.attrs);
  ValueId b = e.in(1);
  if (!(placed == e.b.shape(b))) b = e.b.add("Reshape", {b, e.b.ints(placed.dims())});
  return {e.b.add(e.node.op->name, {e.in(0), b})};
}

constexpr AttrSpec kLegacyAttrs[] = {
    {"axis", AttrType::integer}, {"broadcast", AttrType::integer}, {"consumed_inputs", AttrType::integers}};

}  // namespace

void infer_broadcast(InferContext& c, bool (*allowed)(DType), DType output) {
  if (!allowed(c.dtype(0))) fail("input 0 is {}, which the op does not take", name(c.dtype(0)));
  Shape shape = c.shape(0);
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.has(i)) fail("input {} is missing", i);
    expect_same_dtype(c, i, 0);
    shape = broadcast(shape, c.shape(i));
  }
  c.output(0, output, shape);
}

std::vector<OpCase> binary_cases(double low, double high, bool floats, bool integers) {
  const auto of = [&](DType dtype, const Shape& a, const Shape& b) {
    return std::vector<CaseInput>{CaseInput::range(a, low, high, dtype), CaseInput::range(b, low, high, dtype)};
  };
  std::vector<OpCase> cases;
  const DType main = floats ? DType::f32 : integers ? DType::i32 : DType::boolean;
  const auto add = [&](const char* name, DType dtype, const Shape& a, const Shape& b) {
    cases.push_back({.name = name, .inputs = of(dtype, a, b), .attrs = {}});
  };
  add("same", main, {5, 133}, {5, 133});
  add("long", main, {20001}, {20001});
  add("scalar_right", main, {3, 7, 5}, {});
  add("scalar_left", main, {1}, {3, 7, 5});
  add("short_rows", main, {2, 9, 3}, {3});
  add("rows", main, {9, 37}, {37});
  add("many_rows", main, {701, 24}, {24});
  add("channels", main, {2, 5, 4, 6}, {5, 1, 1});
  add("both", main, {4, 1, 3, 1}, {5, 1, 18});
  add("empty", main, {0, 4}, {4});
  if (floats) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
      add(name(dtype).data(), dtype, {3, 300}, {3, 300});
      add(name(dtype).data(), dtype, {2, 5, 41}, {5, 1});
    }
  }
  if (integers) {
    for (const DType dtype : {DType::i64, DType::u8, DType::i16}) add(name(dtype).data(), dtype, {7, 19}, {7, 1});
    add("i32_rows", DType::i32, {5, 133}, {133});
    add("u32_scalar", DType::u32, {10001}, {});
    add("i8_scalar_left", DType::i8, {1}, {3, 7, 5});
    add("u64_short_rows", DType::u64, {2, 9, 3}, {3});
    add("u16_both", DType::u16, {4, 1, 3, 1}, {5, 1, 18});
  }
  for (size_t i = 0; i < cases.size(); ++i) cases[i].name = fmt::format("{}_{}", cases[i].name, i);
  return cases;
}

OpDef legacy_binary_op(std::string_view name, bool compares) {
  return {.name = name,
          .doc = "The form with `axis` and `broadcast`.",
          .since = 1,
          .inputs = {2, 2},
          .outputs = {1, 1},
          .attributes = kLegacyAttrs,
          .infer = compares ? infer_legacy<true> : infer_legacy<false>,
          .expand = expand_legacy};
}

}  // namespace sparkpilot
