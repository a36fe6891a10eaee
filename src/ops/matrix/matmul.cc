// MatMul: NumPy's matrix product, with 1-D promotion and broadcast leading dimensions.
#include <numeric>

#include "ops/axes.h"
#include "ops/cpu/gemm/gemm_packed.h"
#include "ops/cpu/gemm/gemm_simd.h"
#include "ops/cpu/gemm/matmul_loop.h"
#include "ops/cpu/onednn/gemm_onednn.h"
#include "ops/cuda/product_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::matmul_ops {
namespace {

GemmArgs args_of(const Problem& p) { return {.shape = matmul_shape(p.inputs[0].shape, p.inputs[1].shape)}; }

void run(const Call& c) {
  const MatMulShape s = matmul_shape(c.inputs[0].shape, c.inputs[1].shape);
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    using Sum = MatMulSum<T>;
    const T* a = c.inputs[0].as<T>();
    const T* b = c.inputs[1].as<T>();
    T* y = c.outputs[0].as<T>();
    multiply_matrices<Sum>(
        s, [&](int64_t at) { return static_cast<Sum>(a[at]); }, [&](int64_t at) { return static_cast<Sum>(b[at]); },
        [&](int64_t entry, int64_t i, int64_t j, Sum sum) {
          y[(entry * s.m + i) * s.n + j] = T(static_cast<Compute<T>>(sum));
        });
  });
}

void infer(InferContext& c) {
  if (!contains(NumericTypes{}, c.dtype(0))) fail("input 0 is {}, expected a number type", name(c.dtype(0)));
  if (c.dtype(1) != c.dtype(0)) fail("input 1 is {}, expected {} as input 0", name(c.dtype(1)), name(c.dtype(0)));
  c.output(0, c.dtype(0), matmul_shape(c.shape(0), c.shape(1)).out);
}

double cost(const Problem& p) { return args_of(p).shape.flops(); }

std::vector<OpCase> cases() {
  const auto f = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const auto i = [](std::initializer_list<int64_t> dims, DType t) { return CaseInput::range(dims, -90, 90, t); };
  return {{"matrices", {f({7, 33}), f({33, 19}).fixed()}, {}},
          {"rows", {f({2, 3, 5, 17}), f({17, 9}).fixed()}, {}},
          {"batch", {f({2, 3, 5, 16}), f({2, 3, 16, 9})}, {}},
          {"broadcast", {f({3, 1, 4, 7}), f({2, 7, 5})}, {}},
          {"one_left", {f({5, 6}), f({4, 6, 3})}, {}},
          {"vector_matrix", {f({11}), f({3, 11, 4})}, {}},
          {"matrix_vector", {f({2, 5, 11}), f({11})}, {}},
          {"vectors", {f({37}), f({37})}, {}},
          {"i32", {i({3, 5}, DType::i32), i({5, 4}, DType::i32)}, {}},
          {"u64", {CaseInput::range({3, 5}, 0, 90, DType::u64), CaseInput::range({5, 4}, 0, 90, DType::u64)}, {}},
          {"f64", {CaseInput::of({3, 5}, DType::f64), CaseInput::of({5, 4}, DType::f64)}, {}},
          {"f16", {CaseInput::of({3, 15}, DType::f16), CaseInput::of({15, 4}, DType::f16)}, {}},
          {"bf16", {CaseInput::of({5, 48}, DType::bf16), CaseInput::of({48, 33}, DType::bf16).fixed()}, {}}};
}

AxisSource axes(const Problem& p, int, int axis, size_t input) {
  const Shape &a = p.inputs[0].shape, &b = p.inputs[1].shape, &y = p.outputs[0].shape;
  if (a.rank() < 2 || b.rank() < 2) return {};
  if (axis == y.rank() - 2) return input == 0 ? same_axis(a.rank() - 2) : whole_input();
  if (axis == y.rank() - 1) return input == 1 ? same_axis(b.rank() - 1) : whole_input();
  return broadcast_axis(p.inputs[input].shape, y, axis);
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

constexpr Kernel kCuda[] = {
    {.name = "mma",
     .accepts = [](const Problem& p) -> Acceptance { return cuda::product_accepts(p, args_of(p)); },
     .prepare = [](const Problem& p) { return cuda::product_prepare(p, args_of(p)); },
     .run = cuda::product_run,
     .variants = [](const Problem& p) { return cuda::product_variants(p, args_of(p)); },
     .take_variant = [](const Problem& p, std::string_view variant,
                        KernelState& state) { cuda::product_take_variant(p, args_of(p), variant, state); }}};

ValueId with_last_two_swapped(Builder& b, ValueId matrix) {
  std::vector<int64_t> perm(static_cast<size_t>(b.shape(matrix).rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return b.add("Transpose", {matrix}, {{"perm", perm}});
}

// dA = G B', dB = A' G. A vector is a matrix of one row, or of one column.
std::vector<ValueId> gradient(GradContext& c) {
  const bool row = c.b.shape(c.node.inputs[0]).rank() == 1, column = c.b.shape(c.node.inputs[1]).rank() == 1;
  const auto widened = [&](ValueId v, bool wanted, int64_t axis) {
    return wanted ? c.b.add("Unsqueeze", {v, c.b.ints({axis})}) : v;
  };
  const ValueId a = widened(c.node.inputs[0], row, 0), b = widened(c.node.inputs[1], column, 1);
  const ValueId g = widened(widened(c.out_grads[0], column, -1), row, -2);
  ValueId da, db;
  if (c.b.shape(b).rank() == 2) {
    // One product over all rows: with an axis for each leading dimension the weight's gradient would be a product for
    // each entry of the batch, all of them kept to be summed up.
    const auto rows = [&](ValueId v) {
      const Shape shape = c.b.shape(v);
      const int rank = shape.rank();
      return rank == 2 ? v : c.b.add("Reshape", {v, c.b.ints({shape.elements(0, rank - 1), shape[rank - 1]})});
    };
    const Shape shape = c.b.shape(a);
    const ValueId g_rows = rows(g);
    da = c.b.add("Gemm", {g_rows, b}, {{"transB", int64_t{1}}});
    if (shape.rank() != 2) da = c.b.add("Reshape", {da, c.b.ints(shape.dims())});
    db = c.b.add("Gemm", {rows(a), g_rows}, {{"transA", int64_t{1}}});
  } else {
    da = c.b.add("MatMul", {g, with_last_two_swapped(c.b, b)});
    db = c.b.add("MatMul", {with_last_two_swapped(c.b, a), g});
  }
  if (row) da = c.b.add("Squeeze", {da, c.b.ints({-2})});
  if (column) db = c.b.add("Squeeze", {db, c.b.ints({-1})});
  return {da, db};
}

const OpDef kOps[] = {{.name = "MatMul",
                       .doc = "Matrix product with broadcast leading dimensions.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .traits = {.product = true, .finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .cuda = kCuda,
                       .grad = gradient,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::matmul_ops
