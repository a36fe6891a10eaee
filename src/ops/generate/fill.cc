// Ops that generate tensors by a rule: ConstantOfShape, EyeLike, Range.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::fill_ops {
namespace {

// --- ConstantOfShape
void infer_constant(InferContext& c) {
  DType dtype = DType::f32;
  if (c.attrs.has("value")) {
    const Tensor& value = c.attrs.tensor("value");
    if (value.elements() != 1) fail("attribute value has shape {}, expected one element", value.shape().str());
    dtype = value.dtype();
  }
  const std::vector<int64_t> dims = list_operand(c, 0);
  c.output(0, dtype, Shape(std::span<const int64_t>(dims)));
}

void run_constant(const Call& c) {
  const float zero = 0;
  const void* value = c.attrs().has("value") ? c.attrs().tensor("value").raw() : &zero;
  fill(c.outputs[0].dtype, c.outputs[0].data, c.outputs[0].elements(), value);
}

std::vector<OpCase> constant_cases() {
  return {{"zeros", {CaseInput::value(Tensor::ints({2, 3}))}, {}},
          {"value", {CaseInput::value(Tensor::ints({7}))}, {{"value", Tensor::of<int64_t>(Shape{1}, {-4})}}},
          {"scalar", {CaseInput::value(Tensor::ints({}))}, {}},
          {"empty", {CaseInput::value(Tensor::ints({3, 0}))}, {}}};
}

// --- EyeLike
void infer_eye(InferContext& c) {
  if (c.rank(0) != 2) fail("input has shape {}, expected a matrix", c.shape(0).str());
  c.output(0, dtype_attribute(c.attrs, "dtype", c.dtype(0)), c.shape(0));
}

Acceptance accepts_eye(const Problem& p) { return contains(AllTypes{}, p.outputs[0].dtype); }

void run_eye(const Call& c) {
  const View& out = c.outputs[0];
  const int64_t rows = out.shape[0], columns = out.shape[1];
  const int64_t k = std::clamp(c.attrs().integer("k", 0), -rows, columns);
  std::memset(out.data, 0, static_cast<size_t>(out.bytes()));
  for (int64_t row = std::max<int64_t>(0, -k); row < rows && row + k < columns; ++row) {
    store_element(out.dtype, out.data, row * columns + row + k, 1);
  }
}

std::vector<OpCase> eye_cases() {
  return {{"square", {CaseInput::of({5, 5})}, {}},
          {"above", {CaseInput::of({3, 7})}, {{"k", int64_t{2}}}},
          {"below", {CaseInput::of({7, 3})}, {{"k", int64_t{-5}}, {"dtype", int64_t{7}}}},
          {"outside", {CaseInput::of({3, 3})}, {{"k", INT64_MAX}}}};
}

// --- Range
using RangeTypes = TypeList<float, double, Half, BFloat16, int16_t, int32_t, int64_t>;

// The number of elements of [start, limit) in steps of delta; limited to one more than a shape may have.
template <typename T>
int64_t range_count(T start, T limit, T delta) {
  if constexpr (std::is_integral_v<T>) {
    if (delta == 0) fail("the step is 0");
    if (delta > 0 ? limit <= start : limit >= start) return 0;
    const auto wide = [](T value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); };
    const uint64_t span = delta > 0 ? wide(limit) - wide(start) : wide(start) - wide(limit);
    const uint64_t step = delta > 0 ? wide(delta) : 0 - wide(delta);
    return static_cast<int64_t>(std::min<uint64_t>((span - 1) / step, Shape::kMaxElements) + 1);
  } else {
    const double count =
        std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    if (std::isnan(count)) fail("no range from {} to {} in steps of {}", start, limit, delta);
    return static_cast<int64_t>(std::clamp(count, 0.0, static_cast<double>(Shape::kMaxElements + 1)));
  }
}

void infer_range(InferContext& c) {
  expect_same_dtype(c, 0, 1);
  expect_same_dtype(c, 0, 2);
  for (const int i : {0, 1, 2}) {
    if (c.shape(i).elements() != 1) fail("input {} has shape {}, expected a scalar", i, c.shape(i).str());
  }
  if (!contains(RangeTypes{}, c.dtype(0))) fail("ranges of {} are not defined", name(c.dtype(0)));
  dispatch(RangeTypes{}, c.dtype(0), [&]<typename T>() {
    const auto at = [&](int i) { return static_cast<Compute<T>>(c.known(i).data<T>()[0]); };
    c.output(0, c.dtype(0), Shape{range_count<Compute<T>>(at(0), at(1), at(2))});
  });
}

void run_range(const Call& c) {
  dispatch(RangeTypes{}, c.outputs[0].dtype, [&]<typename T>() {
    T* out = c.outputs[0].as<T>();
    const T start = *c.inputs[0].as<T>(), delta = *c.inputs[2].as<T>();
    parallel_for(c.outputs[0].elements(), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (std::is_integral_v<T>) {
          out[i] =
              static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
        } else {
          const double value = static_cast<double>(start) + static_cast<double>(i) * static_cast<double>(delta);
          out[i] = T(static_cast<Compute<T>>(value));
        }
      }
    });
  });
}

std::vector<OpCase> range_cases() {
  const auto three = []<typename T>(T a, T b, T d) {
    return std::vector<CaseInput>{CaseInput::value(Tensor::scalar(a)), CaseInput::value(Tensor::scalar(b)),
                                  CaseInput::value(Tensor::scalar(d))};
  };
  return {{"floats", three(1.0f, 5.5f, 0.5f), {}},
          {"backwards", three(int64_t{10}, int64_t{-7}, int64_t{-3}), {}},
          {"empty", three(int32_t{3}, int32_t{1}, int32_t{1}), {}},
          {"widest", three(INT64_MAX - 1, INT64_MAX, INT64_MAX), {}}};
}

constexpr Kernel kConstant[] = {{.name = "reference", .run = run_constant}};
constexpr Kernel kEye[] = {{.name = "reference", .accepts = accepts_eye, .run = run_eye}};
constexpr Kernel kRange[] = {{.name = "reference", .run = run_range}};
constexpr AttrSpec kConstantAttrs[] = {{"value", AttrType::tensor}};
constexpr AttrSpec kEyeAttrs[] = {{"dtype", AttrType::integer}, {"k", AttrType::integer}};
constexpr AttrSpec kRangeAttrs[] = {{"stash_type", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "ConstantOfShape",
     .doc = "One value everywhere, in a shape given as data.",
     .since = 9,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kConstantAttrs,
     .infer = infer_constant,
     .cpu = kConstant,
     .no_gradient = no_gradient::kGenerated,
     .cost = no_flops,
     .cases = constant_cases},
    {.name = "EyeLike",
     .doc = "Ones on a diagonal, zeros elsewhere.",
     .since = 9,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kEyeAttrs,
     .traits = {.shape_only = true},
     .infer = infer_eye,
     .cpu = kEye,
     .no_gradient = no_gradient::kGenerated,
     .cost = no_flops,
     .cases = eye_cases},
    {.name = "Range",
     .doc = "start, start + delta, ... up to but without limit.",
     .since = 11,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kRangeAttrs,
     .infer = infer_range,
     .cpu = kRange,
     .no_gradient = no_gradient::kGenerated,
     .cases = range_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::fill_ops
