// Records of ops with two or more operands that broadcast.
#pragma once

#include <optional>

#include "ops/cpu/vector/elementwise.h"
#include "ops/elementwise/unary.h"

namespace sparkpilot {

// The integer loop of the same function; none for division.
constexpr std::optional<Integers> integers_like(BinaryMath op) {
  switch (op) {
    case BinaryMath::add: return Integers::add;
    case BinaryMath::sub: return Integers::sub;
    case BinaryMath::mul: return Integers::mul;
    case BinaryMath::max: return Integers::max;
    case BinaryMath::min: return Integers::min;
    default: return std::nullopt;
  }
}

// kVector: a BinaryMath, or NoVector{} if there is no vector function. kTypes: the dtypes.
template <class Fn, auto kVector, typename Types>
struct BinaryKernels {
  static void fast(const Call& c) {
    using V = std::remove_const_t<decltype(kVector)>;
    if constexpr (std::is_same_v<V, NoVector>) map_float_binary(c, c.as<BroadcastState>().plan, Fn{});
    else if (!is_float(c.inputs[0].dtype)) map_integer_nary(c, c.as<BroadcastState>().plan, *integers_like(kVector));
    else map_vector_nary(c, c.as<BroadcastState>().plan, kVector);
  }
  static void reference(const Call& c) {
    dispatch(Types{}, c.inputs[0].dtype,
             [&]<typename T>() { map_nary<T, Wide<T>>(c, c.as<BroadcastState>().plan, Fn{}); });
  }
  static Acceptance accepts(const Problem& p) {
    if constexpr (!std::is_same_v<std::remove_const_t<decltype(kVector)>, NoVector>) {
      if (integers_like(kVector) && !is_float(p.inputs[0].dtype)) return true;
    }
    return accepts_floats(p);
  }
  static constexpr Kernel kKernels[] = {
      {.name = kFastName<decltype(kVector)>, .accepts = accepts, .prepare = prepare_broadcast, .run = fast},
      {.name = "reference", .prepare = prepare_broadcast, .run = reference}};
};

// All inputs must have the same dtype, one that is allowed; the output has dtype `output` and the broadcast shape.
void infer_broadcast(InferContext& c, bool (*allowed)(DType), DType output);
template <typename Types>
void infer_nary(InferContext& c) {
  infer_broadcast(
      c, [](DType d) { return contains(Types{}, d); }, c.dtype(0));
}
template <typename Types>
void infer_compare(InferContext& c) {
  infer_broadcast(
      c, [](DType d) { return contains(Types{}, d); }, DType::boolean);
}

// Cases with shapes that reach every path of Broadcast, and all dtypes; values of both operands in [low, high].
std::vector<OpCase> binary_cases(double low, double high, bool floats, bool integers);

// Versions 1 and 6 of binary ops: B is broadcast only if `broadcast` is set, with its axes starting at A's axis `axis`
// (at the end if absent). Expands to the newest form.
OpDef legacy_binary_op(std::string_view name, bool compares);

}  // namespace sparkpilot
