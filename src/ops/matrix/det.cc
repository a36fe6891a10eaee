// Det: determinants of square matrices, by Gaussian elimination with partial pivoting in double.
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ops/registry.h"

namespace sparkpilot::det_ops {
namespace {

void infer(InferContext& c) {
  const Shape& in = c.shape(0);
  if (in.rank() < 2 || in[in.rank() - 1] != in[in.rank() - 2])
    fail("input has shape {}, expected square matrices", in.str());
  c.output(0, c.dtype(0), Shape(in.dims().first(static_cast<size_t>(in.rank() - 2))));
}

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<KernelState>();
  const Shape& in = p.inputs[0].shape;
  state->workspace = in.elements(in.rank() - 2, in.rank()) * static_cast<int64_t>(sizeof(double));
  return state;
}

double determinant(double* m, int64_t n) {
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::fabs(m[row * n + column]) > std::fabs(m[pivot * n + column])) pivot = row;
    }
    if (pivot != column) {
      for (int64_t k = column; k < n; ++k) std::swap(m[pivot * n + k], m[column * n + k]);
      product = -product;
    }
    const double top = m[column * n + column];
    product *= top;
    if (top == 0) return 0;
    for (int64_t row = column + 1; row < n; ++row) {
      const double factor = m[row * n + column] / top;
      for (int64_t k = column; k < n; ++k) m[row * n + k] -= factor * m[column * n + k];
    }
  }
  return product;
}

void run(const Call& c) {
  const Shape& in = c.inputs[0].shape;
  const int64_t n = in[in.rank() - 1];
  auto* matrix = reinterpret_cast<double*>(c.workspace);
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    for (int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      for (int64_t k = 0; k < n * n; ++k) matrix[k] = static_cast<double>(c.inputs[0].as<T>()[i * n * n + k]);
      c.outputs[0].as<T>()[i] = T(static_cast<Compute<T>>(determinant(matrix, n)));
    }
  });
}

double cost(const Problem& p) {
  const Shape& in = p.inputs[0].shape;
  return 2.0 / 3 * static_cast<double>(in.elements()) * static_cast<double>(in[in.rank() - 1]);
}

std::vector<OpCase> cases() {
  return {{"one", {CaseInput::of({5, 5})}, {}},
          {"many", {CaseInput::of({2, 3, 4, 4})}, {}},
          {"f16", {CaseInput::of({3, 2, 2}, DType::f16)}, {}},
          {"empty", {CaseInput::of({2, 0, 0})}, {}}};
}

constexpr Kernel kCpu[] = {
    {.name = "reference",
     .accepts = [](const Problem& p) -> Acceptance { return contains(FloatTypes{}, p.inputs[0].dtype); },
     .prepare = prepare,
     .run = run}};

const OpDef kOps[] = {{
    .name = "Det",
    .doc = "Determinants of square matrices.",
    .since = 11,
    .inputs = {1, 1},
    .outputs = {1, 1},
    .infer = infer,
    .cpu = kCpu,
    .no_gradient = "it needs the inverse of a matrix",
    .cost = cost,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::det_ops
