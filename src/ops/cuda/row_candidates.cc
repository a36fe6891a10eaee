#include "ops/cuda/row_candidates.h"

#include "ops/cuda/candidate_shapes.h"
#include "ops/cuda/candidates.h"
#include "ops/cuda/rows.h"

namespace sparkpilot::cuda {
namespace {

// Rows of `size` elements, `inner` apart.
struct Rows {
  int64_t outer = 1, size = 1, inner = 1;
  int64_t count() const { return outer * inner; }
};
Rows rows_along(const Problem& p) {
  const Shape& shape = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", -1), shape.rank());
  return {shape.elements(0, axis), shape[axis], shape.elements(axis + 1, shape.rank())};
}
// All axes from one on as one.
Rows rows_from(const Problem& p) {
  const Shape& shape = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", -1), shape.rank());
  return {shape.elements(0, axis), shape.elements(axis, shape.rank()), 1};
}

Acceptance takes_rows(const Problem& p) {
  if (!storage_suffix(p.inputs[0].dtype)) return fmt::format("{} input", name(p.inputs[0].dtype));
  return takes_elements(p.inputs[0].shape);
}
template <bool kStrided>
Acceptance takes_along(const Problem& p) {
  if (const Acceptance takes = takes_rows(p); !takes) return takes;
  if (!kStrided && rows_along(p).inner != 1) return "not along the last axis";
  return true;
}

std::string kernel_name(const char* kind, const Problem& p) {
  return fmt::format("{}_{}", kind, *storage_suffix(p.inputs[0].dtype));
}

// ---------------------------------------------------------------- softmax
struct SoftmaxState : OneLaunch {
  SoftmaxArguments arguments{};
  int inner = 1;
};

template <bool kLog>
std::unique_ptr<KernelState> prepare_softmax(const Problem& p) {
  const Rows rows = rows_along(p);
  auto state = std::make_unique<SoftmaxState>();
  state->arguments = {
      .x = nullptr, .y = nullptr, .rows = rows.count(), .size = static_cast<int>(rows.size), .log = kLog};
  state->function = &kernel_on(*p.gpu, kernel_name("softmax", p));
  state->how = softmax_launch(state->arguments);
  return state;
}
void run_softmax(const Call& c) {
  const auto& state = c.as<SoftmaxState>();
  SoftmaxArguments arguments = state.arguments;
  arguments.x = c.inputs[0].data;
  arguments.y = c.outputs[0].data;
  c.stream->launch(*state.function, state.how, arguments);
}

struct SoftmaxStridedState : OneLaunch {
  SoftmaxStridedArguments arguments{};
};

template <bool kLog>
std::unique_ptr<KernelState> prepare_softmax_strided(const Problem& p) {
  const Rows rows = rows_along(p);
  auto state = std::make_unique<SoftmaxStridedState>();
  state->arguments = {.x = nullptr,
                      .y = nullptr,
                      .outer = rows.outer,
                      .size = static_cast<int>(rows.size),
                      .inner = static_cast<int>(rows.inner),
                      .of_inner = make_divisor(rows.inner),
                      .log = kLog};
  state->function = &kernel_on(*p.gpu, kernel_name("softmax_strided", p));
  state->how = softmax_strided_launch(state->arguments);
  return state;
}
void run_softmax_strided(const Call& c) {
  const auto& state = c.as<SoftmaxStridedState>();
  SoftmaxStridedArguments arguments = state.arguments;
  arguments.x = c.inputs[0].data;
  arguments.y = c.outputs[0].data;
  c.stream->launch(*state.function, state.how, arguments);
}

// ---------------------------------------------------------------- norms
// A row of f32 that elements are multiplied with, or that is added to them: packed from a constant, or an input.
struct RowOperand {
  std::shared_ptr<Buffer> packed;
  size_t input = 0;  // 0: none
  const float* at(const Call& c) const {
    if (packed) return reinterpret_cast<const float*>(packed->data());
    return input ? static_cast<const float*>(c.inputs[input].data) : nullptr;
  }
};

struct NormState : OneLaunch {
  NormArguments arguments{};
  RowOperand gain, bias;
};
struct NormStridedState : OneLaunch {
  NormStridedArguments arguments{};
};

// Whether an operand broadcasts to one row, the axes of `x` from `axis` on.
bool broadcasts_to_row(const Shape& operand, const Shape& x, int axis) {
  for (int i = 0; i < operand.rank(); ++i) {
    if (x.rank() - operand.rank() + i < axis && operand[i] != 1) return false;
  }
  return true;
}

Acceptance takes_row_operand(const Problem& p, size_t input, const char* what) {
  const Shape& x = p.inputs[0].shape;
  const TensorType& operand = p.inputs[input];
  const int axis = normalize_axis(p.attrs().integer("axis", -1), x.rank());
  if (!broadcasts_to_row(operand.shape, x, axis)) return fmt::format("{} is not one row", what);
  if (p.is_constant(input)) return true;
  if (operand.dtype != DType::f32) return fmt::format("{} is {} and not constant", what, name(operand.dtype));
  if (operand.shape.elements() != rows_from(p).size) return fmt::format("{} is shorter and not constant", what);
  return true;
}

RowOperand row_operand(const Problem& p, size_t input, uint64_t& consumed) {
  RowOperand out{.packed = nullptr, .input = input};
  if (!p.is_constant(input)) return out;
  const Shape& x = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", -1), x.rank());
  const std::vector<int64_t> whole = sizes_of(x);
  const std::vector<int64_t> strides = broadcast_strides(sizes_of(p.inputs[input].shape), whole);
  const Tensor& from = p.constants[input];
  Tensor row(DType::f32, Shape{rows_from(p).size});
  for (int64_t i = 0; i < row.elements(); ++i) {
    int64_t rest = i, at = 0;
    for (int k = x.rank() - 1; k >= axis; --k) {
      at += rest % x[k] * strides[static_cast<size_t>(k)];
      rest /= x[k];
    }
    store_element(DType::f32, row.raw(), i, load_element(from.dtype(), from.raw(), at));
  }
  out.packed = p.gpu->upload(row.raw(), row.bytes());
  consumed |= uint64_t{1} << input;
  return out;
}

Acceptance accepts_norm(const Problem& p) {
  if (const Acceptance takes = takes_rows(p); !takes) return takes;
  if (p.outputs[0].dtype != p.inputs[0].dtype) return fmt::format("{} output", name(p.outputs[0].dtype));
  for (size_t i = 1; i < p.outputs.size(); ++i) {
    if (p.outputs[i].dtype != DType::none) return "statistics are asked for";
  }
  if (const Acceptance takes = takes_row_operand(p, 1, "scale"); !takes) return takes;
  return p.has(2) ? takes_row_operand(p, 2, "bias") : true;
}

std::unique_ptr<NormState> norm_rows(const Problem& p, NormKind kind, const Rows& rows, float epsilon) {
  auto state = std::make_unique<NormState>();
  state->arguments.rows = rows.count();
  state->arguments.size = static_cast<int>(rows.size);
  state->arguments.epsilon = epsilon;
  state->arguments.kind = kind;
  state->function = &kernel_on(*p.gpu, kernel_name("norm", p));
  state->how = norm_launch(state->arguments);
  return state;
}
template <NormKind kKind>
std::unique_ptr<KernelState> prepare_norm(const Problem& p) {
  auto state = norm_rows(p, kKind, rows_from(p), p.attrs().real("epsilon", 1e-5f));
  state->gain = row_operand(p, 1, state->consumed);
  if (p.has(2)) state->bias = row_operand(p, 2, state->consumed);
  return state;
}
void run_norm(const Call& c) {
  const auto& state = c.as<NormState>();
  NormArguments arguments = state.arguments;
  arguments.x = c.inputs[0].data;
  arguments.y = c.outputs[0].data;
  arguments.gain = state.gain.at(c);
  arguments.bias = state.bias.at(c);
  c.stream->launch(*state.function, state.how, arguments);
}

// L2 norms along an axis; the internal op has a least length.
template <bool kInternal>
float least_length(const Problem& p) {
  return kInternal ? p.attrs().real("epsilon", 1e-12f) : 0.0f;
}
template <bool kStrided>
Acceptance accepts_l2(const Problem& p) {
  if (p.attrs().integer("p", 2) != 2) return "p is not 2";
  return takes_along<kStrided>(p);
}
template <bool kInternal>
std::unique_ptr<KernelState> prepare_l2(const Problem& p) {
  return norm_rows(p, NormKind::l2, rows_along(p), least_length<kInternal>(p));
}
template <bool kInternal>
std::unique_ptr<KernelState> prepare_l2_strided(const Problem& p) {
  const Rows rows = rows_along(p);
  auto state = std::make_unique<NormStridedState>();
  state->arguments.norm = norm_rows(p, NormKind::l2, rows, least_length<kInternal>(p))->arguments;
  state->arguments.inner = static_cast<int>(rows.inner);
  state->arguments.of_inner = make_divisor(rows.inner);
  state->function = &kernel_on(*p.gpu, kernel_name("norm_strided", p));
  state->how = norm_strided_launch(state->arguments);
  return state;
}
void run_l2_strided(const Call& c) {
  const auto& state = c.as<NormStridedState>();
  NormStridedArguments arguments = state.arguments;
  arguments.norm.x = c.inputs[0].data;
  arguments.norm.y = c.outputs[0].data;
  c.stream->launch(*state.function, state.how, arguments);
}

template <bool kLog>
constexpr Kernel kSoftmaxRows = {
    .name = "rows", .accepts = takes_along<false>, .prepare = prepare_softmax<kLog>, .run = run_softmax};
template <bool kLog>
constexpr Kernel kSoftmaxStrided = {.name = "strided",
                                    .accepts = takes_along<true>,
                                    .prepare = prepare_softmax_strided<kLog>,
                                    .run = run_softmax_strided};
template <bool kInternal>
constexpr Kernel kL2Rows = {
    .name = "rows", .accepts = accepts_l2<false>, .prepare = prepare_l2<kInternal>, .run = run_norm};
template <bool kInternal>
constexpr Kernel kL2Strided = {
    .name = "strided", .accepts = accepts_l2<true>, .prepare = prepare_l2_strided<kInternal>, .run = run_l2_strided};

}  // namespace

constinit const Kernel kSoftmax[2] = {kSoftmaxRows<false>, kSoftmaxStrided<false>};
constinit const Kernel kLogSoftmax[2] = {kSoftmaxRows<true>, kSoftmaxStrided<true>};
constinit const Kernel kLayerNorm[1] = {
    {.name = "rows", .accepts = accepts_norm, .prepare = prepare_norm<NormKind::layer>, .run = run_norm}};
constinit const Kernel kRmsNorm[1] = {
    {.name = "rows", .accepts = accepts_norm, .prepare = prepare_norm<NormKind::rms>, .run = run_norm}};
constinit const Kernel kLpNorm[2] = {kL2Rows<false>, kL2Strided<false>};
constinit const Kernel kL2Norm[2] = {kL2Rows<true>, kL2Strided<true>};

}  // namespace sparkpilot::cuda
