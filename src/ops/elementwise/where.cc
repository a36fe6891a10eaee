// Where: elements of X where the condition holds, of Y elsewhere; all three broadcast.
#include "ops/cpu/vector/elementwise.h"
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cuda/elementwise_candidates.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::where_ops {
namespace {

// fn(condition, x, y, out, n) over blocks of all three operands.
template <typename Fn>
void each_block(const Call& c, const Fn& fn) {
  const Broadcast& plan = c.as<BroadcastState>().plan;
  dispatch_size(c.inputs[1].dtype, [&]<typename T>() {
    T* out = c.outputs[0].as<T>();
    parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
      Blocks<bool, bool> condition(plan, 0, c.inputs[0].as<bool>());
      Blocks<T, T> x(plan, 1, c.inputs[1].as<T>()), y(plan, 2, c.inputs[2].as<T>());
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        fn(condition.at(i, n), x.at(i, n), y.at(i, n), out + i, n);
      }
    });
  });
}

void run_simd(const Call& c) {
  each_block(c, []<typename T>(const bool* condition, const T* x, const T* y, T* out, int64_t n) {
    select_n(sizeof(T), condition, x, y, out, n);
  });
}

void run_reference(const Call& c) {
  each_block(c, []<typename T>(const bool* condition, const T* x, const T* y, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = condition[i] ? x[i] : y[i];
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

constexpr Kernel kKernels[] = {{.name = "simd", .prepare = prepare_broadcast, .run = run_simd},
                               {.name = "reference", .prepare = prepare_broadcast, .run = run_reference}};

const OpDef kOps[] = {{.name = "Where",
                       .doc = "X where the condition holds, else Y.",
                       .since = 9,
                       .inputs = {3, 3},
                       .outputs = {1, 1},
                       .traits = {.in_place = over_any_input, .elementwise = true, .finite = true},
                       .infer = infer,
                       .cpu = kKernels,
                       .cuda = cuda::kElementwise,
                       .grad =
                           [](GradContext& c) {
                             const Term condition(c.b, c.node.inputs[0]), g(c.b, c.out_grads[0]);
                             return std::vector<ValueId>{{}, where(condition, g, 0), where(condition, g.number(0), g)};
                           },
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::where_ops
