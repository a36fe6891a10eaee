#include "ops/cpu/gemm/matmul_shape.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot {
namespace {

std::span<const int64_t> leading(const Shape& s) { return s.dims().first(static_cast<size_t>(s.rank() - 2)); }

// Strides between the matrices of one operand along the broadcast leading dimensions.
std::array<int64_t, Shape::kMaxRank> batch_strides(const Shape& operand, const Shape& lead) {
  std::array<int64_t, Shape::kMaxRank> out{};
  const auto strides = operand.strides();
  const int own = operand.rank() - 2, shift = lead.rank() - own;
  for (int i = 0; i < own; ++i) {
    if (operand[i] != 1) out[static_cast<size_t>(shift + i)] = strides[static_cast<size_t>(i)];
  }
  return out;
}

// Drops leading dimensions of 1 and merges adjacent ones that have a single stride in both operands.
void join_batch(MatMulShape& s) {
  int rank = 0;
  for (int i = 0; i < s.batch_rank; ++i) {
    const auto from = static_cast<size_t>(i), to = static_cast<size_t>(rank), last = static_cast<size_t>(rank - 1);
    const int64_t size = s.batch_dims[from];
    if (size == 1) continue;
    if (rank > 0 && s.a_batch[last] == s.a_batch[from] * size && s.b_batch[last] == s.b_batch[from] * size) {
      s.batch_dims[last] *= size;
      s.a_batch[last] = s.a_batch[from];
      s.b_batch[last] = s.b_batch[from];
      continue;
    }
    s.batch_dims[to] = size;
    s.a_batch[to] = s.a_batch[from];
    s.b_batch[to] = s.b_batch[from];
    ++rank;
  }
  s.batch_rank = rank;
}

}  // namespace

double MatMulShape::flops() const {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

MatMulShape::Offsets MatMulShape::offsets(int64_t entry) const {
  Offsets at{0, 0};
  for (int i = batch_rank; i-- > 0;) {
    const auto d = static_cast<size_t>(i);
    const int64_t index = entry % batch_dims[d];
    entry /= batch_dims[d];
    at.a += index * a_batch[d];
    at.b += index * b_batch[d];
  }
  return at;
}

MatMulShape matmul_shape(const Shape& a_given, const Shape& b_given) {
  if (a_given.rank() == 0 || b_given.rank() == 0) {
    fail("shapes {} and {} cannot be multiplied: a scalar is no matrix", a_given.str(), b_given.str());
  }
  const Shape a = a_given.rank() == 1 ? a_given.inserted(0, 1) : a_given;
  const Shape b = b_given.rank() == 1 ? b_given.inserted(1, 1) : b_given;
  MatMulShape s;
  s.m = a[a.rank() - 2];
  s.k = a[a.rank() - 1];
  s.n = b[b.rank() - 1];
  if (b[b.rank() - 2] != s.k) {
    fail("shapes {} and {} do not fit: {} columns against {} rows", a_given.str(), b_given.str(), s.k, b[b.rank() - 2]);
  }
  s.a_row = s.k;
  s.a_col = 1;
  s.b_row = s.n;
  s.b_col = 1;
  const Shape lead = broadcast(Shape(leading(a)), Shape(leading(b)));
  Shape out = lead;
  if (a_given.rank() > 1) out = out.inserted(out.rank(), s.m);
  if (b_given.rank() > 1) out = out.inserted(out.rank(), s.n);
  s.out = out;
  if (b.elements(0, b.rank() - 2) == 1 && a.elements(0, a.rank() - 2) == lead.elements()) {
    s.m *= lead.elements();
    return s;
  }
  s.batch = lead.elements();
  s.batch_rank = lead.rank();
  std::copy(lead.begin(), lead.end(), s.batch_dims.begin());
  s.a_batch = batch_strides(a, lead);
  s.b_batch = batch_strides(b, lead);
  join_batch(s);
  return s;
}

MatMulShape gemm_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  if (a.rank() < 2 || (transpose_a && a.rank() != 2)) fail("A has shape {}, expected a matrix", a.str());
  if (b.rank() != 2) fail("B has shape {}, expected a matrix", b.str());
  const int last = a.rank() - 1;
  MatMulShape s;
  s.m = transpose_a ? a[1] : a.elements(0, last);
  s.k = transpose_a ? a[0] : a[last];
  s.n = b[transpose_b ? 0 : 1];
  const int64_t rows = b[transpose_b ? 1 : 0];
  if (rows != s.k) fail("A has {} columns, B has {} rows (shapes {} and {})", s.k, rows, a.str(), b.str());
  s.a_row = transpose_a ? 1 : s.k;
  s.a_col = transpose_a ? s.m : 1;
  s.b_row = transpose_b ? 1 : s.n;
  s.b_col = transpose_b ? s.k : 1;
  s.out = transpose_a ? Shape{s.m, s.n} : a.with(last, s.n);
  return s;
}

}  // namespace sparkpilot
