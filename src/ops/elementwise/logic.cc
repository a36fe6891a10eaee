// Logic on booleans, bitwise logic and shifts on integers.
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/binary.h"
#include "ops/registry.h"

namespace sparkpilot::logic_ops {
namespace {

using Booleans = TypeList<bool>;

template <class Fn, typename Types>
void run(const Call& c) {
  dispatch(Types{}, c.inputs[0].dtype, [&]<typename T>() { map_nary<T, T>(c, c.as<BroadcastState>().plan, Fn{}); });
}
template <Integers kOp>
void run_simd(const Call& c) {
  map_integer_nary(c, c.as<BroadcastState>().plan, kOp);
}
template <class Fn, Integers kOp, typename Types>
constexpr Kernel kKernels[] = {{.name = "simd", .prepare = prepare_broadcast, .run = run_simd<kOp>},
                               {.name = "reference", .prepare = prepare_broadcast, .run = run<Fn, Types>}};

template <class Fn, Integers kOp, typename Types>
constexpr OpDef logic_op(std::string_view name, int since, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .since = since,
          .inputs = {2, 2},
          .outputs = {1, 1},
          .traits = {.in_place = over_any_input, .elementwise = true},
          .infer = infer_nary<Types>,
          .cpu = kKernels<Fn, kOp, Types>,
          .cuda = cuda::kElementwise,
          .no_gradient = no_gradient::kNotFloats,
          .cases = [] {
            return binary_cases(0, std::is_same_v<Types, Booleans> ? 1 : 100, false, !std::is_same_v<Types, Booleans>);
          }};
}

// --- Not, BitwiseNot
void run_not(const Call& c) {
  map_unary<bool, bool, bool>(c, [](bool x) { return !x; });
}
void run_bitwise_not(const Call& c) {
  dispatch(IntTypes{}, c.inputs[0].dtype,
           [&]<typename T>() { map_unary<T, T, T>(c, [](T x) { return static_cast<T>(~x); }); });
}
// Inverts every bit, or for booleans the lowest one.
void run_not_simd(const Call& c) {
  const ConstView& x = c.inputs[0];
  alignas(8) std::array<uint8_t, 8> turned;
  turned.fill(x.dtype == DType::boolean ? 1 : 0xff);
  const int64_t width = bits(x.dtype) / 8;
  const auto* from = static_cast<const std::byte*>(x.data);
  auto* to = static_cast<std::byte*>(c.outputs[0].data);
  parallel_for(x.elements(), kGrain, [&](int64_t begin, int64_t end) {
    integers_n(Integers::bit_xor, x.dtype, from + begin * width, turned.data(), false, to + begin * width, end - begin);
  });
}
constexpr Kernel kNot[] = {{.name = "simd", .run = run_not_simd}, {.name = "reference", .run = run_not}};
constexpr Kernel kBitwiseNot[] = {{.name = "simd", .run = run_not_simd}, {.name = "reference", .run = run_bitwise_not}};
std::vector<OpCase> not_cases() {
  return {{"odd", {CaseInput::range({3, 7}, 0, 1, DType::boolean)}, {}},
          {"scalar", {CaseInput::range({}, 0, 1, DType::boolean)}, {}}};
}
std::vector<OpCase> bitwise_not_cases() {
  return {{"i32", {CaseInput::range({3, 7}, -99, 99, DType::i32)}, {}},
          {"u8", {CaseInput::range({131}, 0, 255, DType::u8)}, {}},
          {"i64", {CaseInput::range({5}, -99, 99, DType::i64)}, {}}};
}

// --- BitShift
struct ShiftState final : KernelState {
  explicit ShiftState(Broadcast b, bool l) : plan(std::move(b)), left(l) {}
  Broadcast plan;
  bool left;
};
std::unique_ptr<KernelState> prepare_shift(const Problem& p) {
  const Shape shapes[] = {p.inputs[0].shape, p.inputs[1].shape};
  return std::make_unique<ShiftState>(Broadcast(p.outputs[0].shape, shapes), p.attrs().text("direction", "") == "LEFT");
}
void run_shift(const Call& c) {
  const ShiftState& s = c.as<ShiftState>();
  dispatch(IntTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    if (s.left) map_nary<T, T>(c, s.plan, fn::ShiftLeft{});
    else map_nary<T, T>(c, s.plan, fn::ShiftRight{});
  });
}
void infer_shift(InferContext& c) {
  const std::string direction = c.attrs.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") fail("direction is \"{}\", expected LEFT or RIGHT", direction);
  infer_nary<IntTypes>(c);
}
std::vector<OpCase> shift_cases() {
  std::vector<OpCase> all;
  for (const char* direction : {"LEFT", "RIGHT"}) {
    for (const DType dtype : {DType::u8, DType::u16, DType::u64, DType::i8, DType::i32}) {
      // Includes shifts by negative amounts and by more than the width.
      const double low = is_signed(dtype) ? -70 : 0;
      all.push_back({.name = fmt::format("{}_{}", direction, name(dtype)),
                     .inputs = {CaseInput::range({7, 31}, low, 120, dtype), CaseInput::range({31}, low, 70, dtype)},
                     .attrs = {{"direction", std::string(direction)}}});
    }
  }
  return all;
}
constexpr AttrSpec kShiftAttrs[] = {{"direction", AttrType::text, true}};
constexpr Kernel kShift[] = {{.name = "reference", .prepare = prepare_shift, .run = run_shift}};

const OpDef kOps[] = {
    logic_op<fn::And, Integers::bit_and, Booleans>("And", 7, "Whether both are true."),
    logic_op<fn::Or, Integers::bit_or, Booleans>("Or", 7, "Whether one or both are true."),
    logic_op<fn::Xor, Integers::bit_xor, Booleans>("Xor", 7, "Whether exactly one is true."),
    logic_op<fn::And, Integers::bit_and, IntTypes>("BitwiseAnd", 18, "The bits that both have."),
    logic_op<fn::Or, Integers::bit_or, IntTypes>("BitwiseOr", 18, "The bits that one or both have."),
    logic_op<fn::Xor, Integers::bit_xor, IntTypes>("BitwiseXor", 18, "The bits that exactly one has."),
    legacy_binary_op("And", false),
    legacy_binary_op("Or", false),
    legacy_binary_op("Xor", false),
    {.name = "Not",
     .doc = "True where x is false.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .traits = {.in_place = over_any_input, .elementwise = true},
     .infer = infer_unary<Booleans>,
     .cpu = kNot,
     .cuda = cuda::kElementwise,
     .no_gradient = no_gradient::kNotFloats,
     .cases = not_cases},
    {.name = "BitwiseNot",
     .doc = "Every bit turned.",
     .since = 18,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .traits = {.in_place = over_any_input, .elementwise = true},
     .infer = infer_unary<IntTypes>,
     .cpu = kBitwiseNot,
     .no_gradient = no_gradient::kNotFloats,
     .cases = bitwise_not_cases},
    {.name = "BitShift",
     .doc = "x moved by y bits; beyond the width only the sign stays.",
     .since = 11,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kShiftAttrs,
     .traits = {.in_place = over_any_input, .elementwise = true},
     .infer = infer_shift,
     .cpu = kShift,
     .no_gradient = no_gradient::kNotFloats,
     .cases = shift_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::logic_ops
