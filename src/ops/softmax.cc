// Softmax and LogSoftmax. Formula: y = exp(x - max) / sum(exp(x - max)) along one axis.
//
// Until opset 12 the input was seen as a matrix, [dims before axis] x [dims from axis on]; those versions expand to the
// newest form between two Reshapes.
#include <cmath>

#include "base/parallel.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

template <bool kLog>
void run(const Call& c) {
  const ConstView& in = c.inputs[0];
  const int axis = normalize_axis(c.attrs().integer("axis", -1), in.shape.rank());
  const int64_t outer = in.shape.elements(0, axis), size = in.shape[axis];
  const int64_t inner = in.shape.elements(axis + 1, in.shape.rank());
  dispatch(FloatTypes{}, in.dtype, [&]<typename T>() {
    using C = double;  // the reference accumulates in double
    const T* x = in.as<T>();
    T* y = c.outputs[0].as<T>();
    parallel_for(outer * inner, 1 + 4096 / (size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t base = row / inner * size * inner + row % inner;
        C top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < size; ++i) top = std::max(top, static_cast<C>(x[base + i * inner]));
        for (int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<C>(x[base + i * inner]) - top);
        for (int64_t i = 0; i < size; ++i) {
          const C shifted = static_cast<C>(x[base + i * inner]) - top;
          y[base + i * inner] = T(static_cast<Compute<T>>(kLog ? shifted - std::log(sum) : std::exp(shifted) / sum));
        }
      }
    });
  });
}

bool accepts(const Problem& p) { return contains(FloatTypes{}, p.inputs[0].dtype); }

void infer(InferContext& c) {
  normalize_axis(c.attrs.integer("axis", -1), c.rank(0));
  c.output(0, c.dtype(0), c.shape(0));
}

template <bool kLog>
std::vector<ValueId> expand_matrix_form(ExpandContext& e) {
  const Shape shape = e.b.shape(e.in(0));
  const int64_t attr = e.node.attrs.integer("axis", 1);
  const int axis = attr == shape.rank() ? shape.rank() : normalize_axis(attr, shape.rank());
  const ValueId flat =
      e.b.add("Reshape", {e.in(0), e.b.ints({shape.elements(0, axis), shape.elements(axis, shape.rank())})});
  const ValueId out = e.b.add(kLog ? "LogSoftmax" : "Softmax", {flat}, {{"axis", int64_t{1}}});
  return {e.b.add("Reshape", {out, e.b.ints(shape.dims())})};
}

double cost(const Problem& p) { return 5.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> cases() {
  return {{"rows", {CaseInput::of({5, 33})}, {{"axis", int64_t{-1}}}},
          {"middle", {CaseInput::of({2, 7, 3})}, {{"axis", int64_t{1}}}},
          {"large_values", {CaseInput::range({3, 17}, -500, 500)}, {}},
          {"f16", {CaseInput::of({4, 9}, DType::f16)}, {}}};
}

constexpr AttrSpec kAttrs[] = {{"axis", AttrType::integer}};
constexpr Kernel kSoftmax[] = {{.name = "reference", .accepts = accepts, .run = run<false>}};
constexpr Kernel kLogSoftmax[] = {{.name = "reference", .accepts = accepts, .run = run<true>}};

const OpDef kOps[] = {
    {.name = "Softmax",
     .doc = "Normalised exponentials along an axis.",
     .since = 13,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.in_place = true},
     .infer = infer,
     .cpu = kSoftmax,
     .cost = cost,
     .cases = cases},
    {.name = "LogSoftmax",
     .doc = "Logarithm of Softmax.",
     .since = 13,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.in_place = true},
     .infer = infer,
     .cpu = kLogSoftmax,
     .cost = cost,
     .cases = cases},
    {.name = "Softmax",
     .doc = "Matrix form.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .infer = [](InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); },
     .expand = expand_matrix_form<false>},
    {.name = "LogSoftmax",
     .doc = "Matrix form.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .infer = [](InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); },
     .expand = expand_matrix_form<true>},
};

}  // namespace

std::span<const OpDef> softmax_ops() { return kOps; }

}  // namespace sparkpilot
