// Softmax, LogSoftmax and Hardmax along one axis.
//   softmax y = exp(x - max) / sum(exp(x - max)); log softmax y = x - max - log(sum(exp(x - max)));
//   hardmax y = 1 at the first largest element, 0 elsewhere
//
// Until opset 12 the input was flattened to a matrix, [dims before axis] x [dims from axis on]; those versions expand
// to the newest between two Reshapes.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/vector/vector_math.h"
#include "ops/cuda/row_candidates.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::softmax_ops {
namespace {

enum class Form : uint8_t { softmax, log_softmax, hardmax };

struct Axis {
  int64_t outer, size, inner;
  explicit Axis(const Shape& shape, const Attributes& attrs) {
    const int axis = normalize_axis(attrs.integer("axis", -1), shape.rank());
    outer = shape.elements(0, axis);
    size = shape[axis];
    inner = shape.elements(axis + 1, shape.rank());
  }
};

template <Form kForm>
void run_reference(const Call& c) {
  const Axis a(c.inputs[0].shape, c.attrs());
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    using C = double;  // the reference accumulates in double
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    const auto put = [&](int64_t at, C value) { y[at] = T(static_cast<Compute<T>>(value)); };
    parallel_for(a.outer * a.inner, 1 + 4096 / (a.size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t base = row / a.inner * a.size * a.inner + row % a.inner;
        const auto at = [&](int64_t i) { return base + i * a.inner; };
        int64_t top = 0;
        for (int64_t i = 1; i < a.size; ++i) {
          if (static_cast<C>(x[at(i)]) > static_cast<C>(x[at(top)])) top = i;
        }
        if (kForm == Form::hardmax) {
          for (int64_t i = 0; i < a.size; ++i) put(at(i), i == top ? 1 : 0);
          continue;
        }
        const C largest = a.size > 0 ? static_cast<C>(x[at(top)]) : 0;
        C sum = 0;
        for (int64_t i = 0; i < a.size; ++i) sum += std::exp(static_cast<C>(x[at(i)]) - largest);
        for (int64_t i = 0; i < a.size; ++i) {
          const C shifted = static_cast<C>(x[at(i)]) - largest;
          put(at(i), kForm == Form::log_softmax ? shifted - std::log(sum) : std::exp(shifted) / sum);
        }
      }
    });
  });
}

// --- contiguous rows of floats
constexpr int64_t kColumns = 256;

void log_softmax_row(const float* in, float* out, int64_t n) {
  alignas(64) float scratch[kColumns];
  const float top = row_max(in, n);
  float sum = 0;
  for (int64_t i = 0; i < n; i += kColumns) sum += exp_sub_sum(in + i, top, scratch, std::min(kColumns, n - i));
  vector_scalar_binary(BinaryMath::sub, in, top, out, n);
  vector_scalar_binary(BinaryMath::sub, out, std::log(sum), out, n);
}

template <Form kForm>
void rows(const float* in, float* out, int64_t n, int64_t count) {
  if constexpr (kForm == Form::softmax) return softmax_rows(in, out, n, count);
  for (int64_t r = 0; r < count; ++r) log_softmax_row(in + r * n, out + r * n, n);
}

// f16 and bf16 rows are converted to floats in the workspace, which holds the whole tensor in f32.
template <Form kForm>
void run_rows(const Call& c) {
  const ConstView& x = c.inputs[0];
  View& y = c.outputs[0];
  const Axis a(x.shape, c.attrs());
  parallel_for(a.outer, 1 + 4096 / (a.size + 1), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * a.size, n = (end - begin) * a.size;
    if (x.dtype == DType::f32) return rows<kForm>(x.as<float>() + at, y.as<float>() + at, a.size, end - begin);
    float* floats = reinterpret_cast<float*>(c.workspace) + at;
    floats_from(x.dtype, x.data, at, floats, n);
    rows<kForm>(floats, floats, a.size, end - begin);
    floats_to(y.dtype, floats, y.data, at, n);
  });
}

Acceptance accepts_rows(const Problem& p) {
  const DType dtype = p.inputs[0].dtype;
  if (!contains(TypeList<float, Half, BFloat16>{}, dtype)) return fmt::format("{} input", name(dtype));
  if (Axis(p.inputs[0].shape, p.attrs()).inner != 1) return "not along the last axis";
  return true;
}

std::unique_ptr<KernelState> prepare_rows(const Problem& p) {
  auto state = std::make_unique<KernelState>();
  if (p.inputs[0].dtype != DType::f32) {
    state->workspace = p.inputs[0].shape.elements() * static_cast<int64_t>(sizeof(float));
  }
  return state;
}

// --- an axis that is not the last: up to 256 adjacent lines at once
template <Form kForm>
void lines(const float* x, float* y, const Axis& a, int64_t n) {
  alignas(64) float top[kColumns], sum[kColumns], scratch[kColumns];
  std::copy_n(x, n, top);
  for (int64_t i = 1; i < a.size; ++i) vector_binary(BinaryMath::max, top, x + i * a.inner, top, n);
  std::fill_n(sum, n, 0.0f);
  for (int64_t i = 0; i < a.size; ++i) {
    // A softmax keeps its exponentials in the output; LogSoftmax still needs x.
    float* e = kForm == Form::softmax ? y + i * a.inner : scratch;
    vector_binary(BinaryMath::sub, x + i * a.inner, top, e, n);
    vector_unary(UnaryMath::exp, e, e, n);
    vector_binary(BinaryMath::add, sum, e, sum, n);
  }
  if constexpr (kForm == Form::softmax) vector_unary(UnaryMath::reciprocal, sum, sum, n);
  else vector_unary(UnaryMath::log, sum, sum, n);
  for (int64_t i = 0; i < a.size; ++i) {
    float* out = y + i * a.inner;
    if constexpr (kForm == Form::log_softmax) vector_binary(BinaryMath::sub, x + i * a.inner, top, out, n);
    vector_binary(kForm == Form::softmax ? BinaryMath::mul : BinaryMath::sub, out, sum, out, n);
  }
}

template <Form kForm>
void run_lines(const Call& c) {
  const Axis a(c.inputs[0].shape, c.attrs());
  const int64_t blocks = (a.inner + kColumns - 1) / kColumns;
  parallel_for(a.outer * blocks, 1 + 4096 / (a.size * std::min(a.inner, kColumns) + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t column = task % blocks * kColumns;
                   const int64_t at = task / blocks * a.size * a.inner + column;
                   lines<kForm>(c.inputs[0].as<float>() + at, c.outputs[0].as<float>() + at, a,
                                std::min(kColumns, a.inner - column));
                 }
               });
}

Acceptance accepts_lines(const Problem& p) {
  const Axis a(p.inputs[0].shape, p.attrs());
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[0].dtype));
  if (a.inner <= 1) return "along the last axis";
  if (a.size == 0) return "empty axis";
  return true;
}

void infer(InferContext& c) {
  expect_float(c, 0);
  normalize_axis(c.attrs.integer("axis", -1), c.rank(0));
  c.output(0, c.dtype(0), c.shape(0));
}

std::vector<ValueId> expand_matrix_form(ExpandContext& e) {
  const Shape shape = e.b.shape(e.in(0));
  const int64_t attr = e.node.attrs.integer("axis", 1);
  const int axis = attr == shape.rank() ? shape.rank() : normalize_axis(attr, shape.rank());
  const ValueId flat =
      e.b.add("Reshape", {e.in(0), e.b.ints({shape.elements(0, axis), shape.elements(axis, shape.rank())})});
  const ValueId out = e.b.add(e.node.op->name, {flat}, {{"axis", int64_t{1}}});
  return {e.b.add("Reshape", {out, e.b.ints(shape.dims())})};
}

double cost(const Problem& p) { return 5.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> cases() {
  const Tensor masked = Tensor::of<float>({2, 3}, {-INFINITY, 0, 1, -INFINITY, -INFINITY, 2});
  return {{"rows", {CaseInput::of({5, 33})}, {{"axis", int64_t{-1}}}},
          {"short_rows", {CaseInput::of({41, 3})}, {}},
          {"two_vectors", {CaseInput::of({7, 31})}, {}},
          {"four_vectors", {CaseInput::of({3, 49})}, {}},
          {"eight_vectors", {CaseInput::of({5, 101})}, {}},
          {"long_rows", {CaseInput::of({3, 1031})}, {}},
          {"middle", {CaseInput::of({2, 7, 3})}, {{"axis", int64_t{1}}}},
          {"channels", {CaseInput::of({2, 5, 300})}, {{"axis", int64_t{1}}}},
          {"large_values", {CaseInput::range({3, 17}, -500, 500)}, {}},
          {"masked", {CaseInput::value(masked)}, {}, 1, 0, false},
          {"all_masked", {CaseInput::value(Tensor::of<float>({2, 2}, {-INFINITY, -INFINITY, 0, 1}))}, {}, 1, 0, false},
          {"f16", {CaseInput::of({4, 9}, DType::f16)}, {}},
          {"bf16_middle", {CaseInput::of({4, 9, 2}, DType::bf16)}, {{"axis", int64_t{1}}}},
          {"f64", {CaseInput::of({4, 9}, DType::f64)}, {}}};
}

constexpr AttrSpec kAttrs[] = {{"axis", AttrType::integer}};

template <Form kForm>
constexpr Kernel kKernels[] = {
    {.name = "rows", .accepts = accepts_rows, .prepare = prepare_rows, .run = run_rows<kForm>},
    {.name = "lines", .accepts = accepts_lines, .run = run_lines<kForm>},
    {.name = "reference", .run = run_reference<kForm>}};
template <>
constexpr Kernel kKernels<Form::hardmax>[] = {{.name = "reference", .run = run_reference<Form::hardmax>}};

std::span<const Kernel> on_gpu(Form form) {
  if (form == Form::hardmax) return {};
  return form == Form::softmax ? cuda::kSoftmax : cuda::kLogSoftmax;
}

ValueId sum_along(GradContext& c, ValueId x) {
  return c.b.add("ReduceSum", {x, c.b.ints({c.node.attrs.integer("axis", -1)})});
}
std::vector<ValueId> gradient_of_softmax(GradContext& c) {
  const Term y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  return {(g - Term(c.b, sum_along(c, g * y))) * y};
}
std::vector<ValueId> gradient_of_log_softmax(GradContext& c) {
  const Term y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  return {g - y.of("Exp") * Term(c.b, sum_along(c, g))};
}

template <Form kForm>
OpDef op(std::string_view name, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .since = 13,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attributes = kAttrs,
          .traits = {.in_place = over_any_input},
          .infer = infer,
          .axes = axes_along_attribute<-1>,
          .cpu = kKernels<kForm>,
          .cuda = on_gpu(kForm),
          .grad = kForm == Form::softmax       ? gradient_of_softmax
                  : kForm == Form::log_softmax ? gradient_of_log_softmax
                                               : nullptr,
          .no_gradient = kForm == Form::hardmax ? no_gradient::kSteps : std::string_view(),
          .cost = cost,
          .cases = cases};
}

OpDef matrix_op(std::string_view name) {
  return {.name = name,
          .doc = "The form that sees a matrix.",
          .since = 1,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attributes = kAttrs,
          .infer = [](InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); },
          .expand = expand_matrix_form};
}

const OpDef kOps[] = {
    op<Form::softmax>("Softmax", "Normalised exponentials along an axis."),
    op<Form::log_softmax>("LogSoftmax", "Logarithm of Softmax."),
    op<Form::hardmax>("Hardmax", "1 at the first largest element along an axis, else 0."),
    matrix_op("Softmax"),
    matrix_op("LogSoftmax"),
    matrix_op("Hardmax"),
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::softmax_ops
