// Where: elements of X where the condition holds, of Y elsewhere; all three broadcast.
#include "ops/cpu/elementwise.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

void run(const Call& c) {
  const Broadcast& plan = c.as<BroadcastState>().plan;
  dispatch_size(c.inputs[1].dtype, [&]<typename T>() {
    const bool* condition = c.inputs[0].as<bool>();
    const T *x = c.inputs[1].as<T>(), *y = c.inputs[2].as<T>();
    T* out = c.outputs[0].as<T>();
    parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
      bool choice[kBlock];
      alignas(64) T left[kBlock], right[kBlock];
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        const bool* p = block(plan, 0, condition, i, n, choice);
        const T* q = block(plan, 1, x, i, n, left);
        const T* r = block(plan, 2, y, i, n, right);
        for (int64_t j = 0; j < n; ++j) out[i + j] = p[j] ? q[j] : r[j];
      }
    });
  });
}

void infer(InferContext& c) {
  expect_dtype(c, 0, TypeList<bool>{}, "bool");
  expect_same_dtype(c, 2, 1);
  if (bits(c.dtype(1)) < 8) fail("inputs of {} are not supported", name(c.dtype(1)));
  c.output(0, c.dtype(1), broadcast(broadcast(c.shape(0), c.shape(1)), c.shape(2)));
}

std::vector<OpCase> cases() {
  const auto condition = [](const Shape& shape) { return CaseInput::range(shape, 0, 1, DType::boolean); };
  return {{"same", {condition({5, 67}), CaseInput::of({5, 67}), CaseInput::of({5, 67})}, {}},
          {"mask", {condition({1, 9, 9}), CaseInput::of({4, 9, 9}), CaseInput::of({})}, {}},
          {"all_three", {condition({5, 1, 3}), CaseInput::of({7, 1}), CaseInput::of({1, 1, 3})}, {}},
          {"i64",
           {condition({40}), CaseInput::range({40}, -9, 9, DType::i64), CaseInput::range({1}, -9, 9, DType::i64)},
           {}},
          {"f16", {condition({3, 300}), CaseInput::of({300}, DType::f16), CaseInput::of({3, 1}, DType::f16)}, {}},
          {"bool", {condition({9}), condition({9}), condition({})}, {}}};
}

constexpr Kernel kKernels[] = {{.name = "reference", .prepare = prepare_broadcast, .run = run}};

const OpDef kOps[] = {{.name = "Where",
                       .doc = "X where the condition holds, else Y.",
                       .since = 9,
                       .inputs = {3, 3},
                       .outputs = {1, 1},
                       .traits = {.in_place = true, .elementwise = true},
                       .infer = infer,
                       .cpu = kKernels,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> where_ops() { return kOps; }

}  // namespace sparkpilot
