// Gemm: Y = alpha * A' x B' + beta * C, where ' means an optional transposition and C broadcasts to Y.
//
// Until opset 6 C was broadcast only if the attribute `broadcast` was set, and could then start at any axis: those
// versions expand to the newest, after the broadcast has been checked.
#include "ops/axes.h"
#include "ops/cpu/gemm/gemm_packed.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/matmul_loop.h"
#include "ops/cpu/onednn/gemm_onednn.h"
#include "ops/cuda/product_candidates.h"
#include "ops/epilogue_nodes.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::gemm_ops {
namespace {

using SmallTypes = TypeList<Half, BFloat16>;

MatMulShape shape_of(const Attributes& attrs, const Shape& a, const Shape& b) {
  if (a.rank() != 2) fail("A has shape {}, expected a matrix", a.str());
  return gemm_shape(a, b, attrs.integer("transA", 0) != 0, attrs.integer("transB", 0) != 0);
}

GemmArgs args_of(const Problem& p) {
  GemmArgs args{.shape = shape_of(p.attrs(), p.inputs[0].shape, p.inputs[1].shape)};
  args.alpha = p.attrs().real("alpha", 1);
  args.beta = p.attrs().real("beta", 1);
  if (p.has(2) && args.beta != 0) args.c = 2;
  return args;
}

// Floats are scaled and added in double; integers wrap, with alpha and beta truncated to integers first.
template <typename T>
void run_as(const Call& c, const MatMulShape& s) {
  using Sum = MatMulSum<T>;
  const auto scale = [](float value) {
    if constexpr (std::is_integral_v<T>) return static_cast<Sum>(static_cast<int64_t>(value));
    else return static_cast<Sum>(value);
  };
  const Sum alpha = scale(c.attrs().real("alpha", 1)), beta = scale(c.attrs().real("beta", 1));
  const T* a = c.inputs[0].as<T>();
  const T* b = c.inputs[1].as<T>();
  const T* add = c.has(2) ? c.inputs[2].as<T>() : nullptr;
  int64_t add_row = 0, add_col = 0;
  if (add) {
    const Shape& shape = c.inputs[2].shape;
    const int rank = shape.rank();
    if (rank > 0 && shape[rank - 1] != 1) add_col = 1;
    if (rank > 1 && shape[0] != 1) add_row = shape[1];
  }
  T* y = c.outputs[0].as<T>();
  multiply_matrices<Sum>(
      s, [&](int64_t at) { return static_cast<Sum>(a[at]); }, [&](int64_t at) { return static_cast<Sum>(b[at]); },
      [&](int64_t, int64_t i, int64_t j, Sum sum) {
        Sum value = alpha * sum;
        if (add) value += beta * static_cast<Sum>(add[i * add_row + j * add_col]);
        y[i * s.n + j] = T(static_cast<Compute<T>>(value));
      });
}

void run(const Call& c) {
  const MatMulShape s = shape_of(c.attrs(), c.inputs[0].shape, c.inputs[1].shape);
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() { run_as<T>(c, s); });
}

void check_scale(float value, DType dtype, std::string_view what) {
  if (is_integer(dtype) && !(value > -1e9f && value < 1e9f)) fail("{} is {}, expected a small integer", what, value);
}

void infer(InferContext& c) {
  const MatMulShape s = shape_of(c.attrs, c.shape(0), c.shape(1));
  if (!contains(NumericTypes{}, c.dtype(0))) fail("A is {}, expected a number type", name(c.dtype(0)));
  for (int i = 1; i < c.input_count(); ++i) {
    if (c.has(i) && c.dtype(i) != c.dtype(0))
      fail("input {} is {}, expected {}", i, name(c.dtype(i)), name(c.dtype(0)));
  }
  check_scale(c.attrs.real("alpha", 1), c.dtype(0), "alpha");
  check_scale(c.attrs.real("beta", 1), c.dtype(0), "beta");
  if (c.has(2) && (c.rank(2) > 2 || !(broadcast(c.shape(2), s.out) == s.out))) {
    fail("C has shape {}, which does not broadcast to {}", c.shape(2).str(), s.out.str());
  }
  c.output(0, c.dtype(0), s.out);
}

std::vector<ValueId> expand_old(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  attrs.erase("broadcast");
  return {e.b.add("Gemm", e.node.inputs, attrs)};
}

// ---------------------------------------------------------------- 16 bits in, f32 out
void infer_wide(InferContext& c) {
  const MatMulShape s = shape_of(c.attrs, c.shape(0), c.shape(1));
  if (!contains(SmallTypes{}, c.dtype(0))) fail("A is {}, expected f16 or bf16", name(c.dtype(0)));
  if (c.dtype(1) != c.dtype(0)) fail("B is {}, A {}", name(c.dtype(1)), name(c.dtype(0)));
  c.output(0, DType::f32, s.out);
}

void run_wide(const Call& c) {
  const MatMulShape s = shape_of(c.attrs(), c.inputs[0].shape, c.inputs[1].shape);
  const double alpha = static_cast<double>(c.attrs().real("alpha", 1));
  dispatch(SmallTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* a = c.inputs[0].as<T>();
    const T* b = c.inputs[1].as<T>();
    float* y = c.outputs[0].as<float>();
    multiply_matrices<double>(
        s, [&](int64_t at) { return static_cast<double>(a[at]); },
        [&](int64_t at) { return static_cast<double>(b[at]); },
        [&](int64_t, int64_t i, int64_t j, double sum) { y[i * s.n + j] = static_cast<float>(alpha * sum); });
  });
}

std::vector<ValueId> expand_wide(ExpandContext& e) {
  return {e.b.add("Gemm", {cast_to(e.b, e.in(0), DType::f32), cast_to(e.b, e.in(1), DType::f32)}, e.node.attrs)};
}

std::vector<OpCase> wide_cases() {
  const auto of = [](std::initializer_list<int64_t> dims, DType dtype) { return CaseInput::of(dims, dtype); };
  const int64_t on = 1;
  return {{"plain", {of({5, 33}, DType::bf16), of({33, 19}, DType::bf16)}, {}},
          {"weights", {of({67, 48}, DType::bf16), of({67, 65}, DType::bf16)}, {{"transA", on}}},
          {"both", {of({17, 3}, DType::bf16), of({9, 17}, DType::bf16)}, {{"transA", on}, {"transB", on}}},
          {"one_row", {of({1, 40}, DType::bf16), of({1, 24}, DType::bf16)}, {{"transA", on}}},
          {"scaled", {of({4, 8}, DType::bf16), of({5, 8}, DType::bf16)}, {{"alpha", 0.5f}, {"transB", on}}},
          {"f16", {of({31, 7}, DType::f16), of({31, 9}, DType::f16)}, {{"transA", on}}}};
}

double cost(const Problem& p) { return args_of(p).shape.flops(); }

std::vector<OpCase> cases() {
  const auto f = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const auto i = [](std::initializer_list<int64_t> dims) { return CaseInput::range(dims, -9, 9, DType::i32); };
  const int64_t on = 1;
  return {
      {"plain", {f({5, 33}), f({33, 19}).fixed()}, {}},
      {"bias", {f({3, 17}), f({9, 17}).fixed(), f({9}).fixed()}, {{"transB", on}}},
      {"transposed_a", {f({17, 3}), f({17, 9}), f({1, 9})}, {{"transA", on}}},
      {"scaled", {f({4, 8}), f({8, 5}), f({4, 5}).fixed()}, {{"alpha", 0.5f}, {"beta", -1.5f}}},
      {"scaled_at_run", {f({4, 8}), f({8, 5}), f({4, 5})}, {{"alpha", 0.5f}, {"beta", 0.25f}}},
      {"column", {f({4, 8}), f({8, 5}), f({4, 1})}, {}},
      {"scalar", {f({4, 8}), f({8, 5}), f({})}, {{"transA", int64_t{0}}, {"alpha", 2.0f}}},
      {"vector", {f({1, 300}), f({300, 65}).fixed(), f({65}).fixed()}, {}},
      {"ints", {i({3, 5}), i({5, 4}), i({4})}, {{"beta", 2.0f}}},
      {"f64",
       {CaseInput::of({3, 5}, DType::f64), CaseInput::of({5, 4}, DType::f64), CaseInput::of({4}, DType::f64)},
       {}},
      {"bf16",
       {CaseInput::of({3, 40}, DType::bf16), CaseInput::of({40, 24}, DType::bf16).fixed(),
        CaseInput::of({24}, DType::bf16).fixed()},
       {}},
      {"bf16_at_run",
       {CaseInput::of({9, 40}, DType::bf16), CaseInput::of({40, 24}, DType::bf16), CaseInput::of({24}, DType::bf16)},
       {}},
      {"bf16_column_at_run",
       {CaseInput::of({9, 40}, DType::bf16), CaseInput::of({24, 40}, DType::bf16), CaseInput::of({9, 1}, DType::bf16)},
       {{"alpha", 0.5f}, {"transB", on}}}};
}

constexpr AttrSpec kAttrs[] = {
    {"alpha", AttrType::real}, {"beta", AttrType::real}, {"transA", AttrType::integer}, {"transB", AttrType::integer}};
constexpr AttrSpec kOldAttrs[] = {{"alpha", AttrType::real},
                                  {"beta", AttrType::real},
                                  {"broadcast", AttrType::integer},
                                  {"transA", AttrType::integer},
                                  {"transB", AttrType::integer}};
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  if (input == 2) return broadcast_axis(p.inputs[2].shape, p.outputs[0].shape, axis);
  if (static_cast<int>(input) != axis) return whole_input();
  const bool transposed = p.attrs().integer(axis == 0 ? "transA" : "transB", 0) != 0;
  return same_axis(transposed ? 1 - axis : axis);
}

constexpr Kernel kCpu[] = {
    {.name = "simd",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_simd_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_simd_prepare(p, args_of(p)); },
     .run = gemm_simd_run},
    {.name = "onednn",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_onednn_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_onednn_prepare(p, args_of(p)); },
     .run = onednn::run},
    {.name = "packed",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_packed_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_packed_prepare(p, args_of(p)); },
     .run = gemm_packed_run},
    {.name = "reference", .run = run}};

constexpr AttrSpec kWideAttrs[] = {
    {"alpha", AttrType::real}, {"transA", AttrType::integer}, {"transB", AttrType::integer}};
constexpr Kernel kWideCpu[] = {
    {.name = "onednn",
     .accepts = [](const Problem& p) -> Acceptance { return gemm_onednn_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return gemm_onednn_prepare(p, args_of(p)); },
     .run = onednn::run},
    {.name = "reference", .run = run_wide}};

constexpr Kernel kCuda[] = {
    {.name = "mma",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::product_prepare(p, args_of(p)); },
     .run = cuda::product_run,
     .variants = [](const Problem& p) { return cuda::product_variants(p, args_of(p)); },
     .take_variant = [](const Problem& p, std::string_view variant,
                        KernelState& state) { cuda::product_take_variant(p, args_of(p), variant, state); }}};

// Y = alpha A B + beta C, with A or B as they are or transposed.
std::vector<ValueId> gradient(GradContext& c) {
  const bool a_t = c.node.attrs.integer("transA", 0) != 0, b_t = c.node.attrs.integer("transB", 0) != 0;
  const float alpha = c.node.attrs.real("alpha", 1), beta = c.node.attrs.real("beta", 1);
  const ValueId a = c.node.inputs[0], b = c.node.inputs[1], g = c.out_grads[0];
  const auto product = [&](ValueId left, ValueId right, bool left_t, bool right_t) {
    return c.b.add("Gemm", {left, right},
                   {{"alpha", alpha}, {"transA", int64_t{left_t}}, {"transB", int64_t{right_t}}});
  };
  std::vector<ValueId> out{a_t ? product(b, g, b_t, true) : product(g, b, false, !b_t),
                           b_t ? product(g, a, true, a_t) : product(a, g, !a_t, false)};
  if (c.node.inputs.size() > 2) out.push_back(beta == 1 ? g : ValueId(double{beta} * Term(c.b, g)));
  return out;
}

const OpDef kOps[] = {{.name = "Gemm",
                       .doc = "Product of two matrices, scaled, plus a third.",
                       .since = 7,
                       .inputs = {2, 3},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .cuda = kCuda,
                       .grad = gradient,
                       .cost = cost,
                       .cases = cases},
                      {.name = "Gemm",
                       .doc = "With the attribute broadcast.",
                       .since = 1,
                       .inputs = {3, 3},
                       .outputs = {1, 1},
                       .attributes = kOldAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .expand = expand_old},
                      {.name = "WideGemm",
                       .domain = "sparkpilot",
                       .doc = "Gemm of two matrices of 16 bits whose result is f32: the gradient of weights.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kWideAttrs,
                       .traits = {.product = true, .finite = true},
                       .infer = infer_wide,
                       .axes = axes,
                       .cpu = kWideCpu,
                       .expand = expand_wide,
                       .cost = cost,
                       .cases = wide_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::gemm_ops
