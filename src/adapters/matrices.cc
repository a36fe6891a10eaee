#include "adapters/matrices.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

// Items that are worth a thread, of which each takes `each` multiply-adds.
int64_t grain(int64_t each) { return std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, each)); }

double dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// Makes the rows of `vectors` [count, size] orthonormal, in place: Gram and Schmidt's method, twice for its rounding.
void orthonormalise(std::vector<double>& vectors, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i) {
    double* row = vectors.data() + i * size;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double* other = vectors.data() + j * size;
        const double along = dot(row, other, size);
        for (int64_t k = 0; k < size; ++k) row[k] -= along * other[k];
      }
    }
    const double norm = std::sqrt(dot(row, row, size));
    for (int64_t k = 0; k < size; ++k) row[k] = norm > 0 ? row[k] / norm : 0;
  }
}

// Row i of the result is W v_i, for the rows v_i of `vectors`.
std::vector<double> apply(std::span<const float> w, int64_t rows, int64_t columns, const std::vector<double>& vectors,
                          int64_t count) {
  std::vector<double> out(static_cast<size_t>(count * rows));
  parallel_for(rows, grain(columns * count), [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(columns));
    for (int64_t r = begin; r < end; ++r) {
      std::copy_n(w.data() + r * columns, columns, row.begin());
      for (int64_t i = 0; i < count; ++i) {
        out[static_cast<size_t>(i * rows + r)] = dot(row.data(), vectors.data() + i * columns, columns);
      }
    }
  });
  return out;
}

// The same with W transposed.
std::vector<double> apply_transposed(std::span<const float> w, int64_t rows, int64_t columns,
                                     const std::vector<double>& vectors, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count * columns));
  parallel_for(count, grain(rows * columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double* to = out.data() + i * columns;
      for (int64_t r = 0; r < rows; ++r) {
        const double by = vectors[static_cast<size_t>(i * rows + r)];
        const float* row = w.data() + r * columns;
        for (int64_t c = 0; c < columns; ++c) to[c] += by * static_cast<double>(row[c]);
      }
    }
  });
  return out;
}

// Eigenvalues of a symmetric matrix [n, n], the largest first: Jacobi's rotations.
std::vector<double> eigenvalues(std::vector<double> a, int64_t n) {
  const auto at = [&](int64_t i, int64_t j) -> double& { return a[static_cast<size_t>(i * n + j)]; };
  for (int sweep = 0; sweep < 30; ++sweep) {
    double off = 0, trace = 0;
    for (int64_t i = 0; i < n; ++i) {
      trace += std::abs(at(i, i));
      for (int64_t j = 0; j < i; ++j) off += std::abs(at(i, j));
    }
    if (off <= 1e-12 * trace) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (at(p, q) == 0) continue;
        const double theta = (at(q, q) - at(p, p)) / (2 * at(p, q));
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double x = at(k, p), y = at(k, q);
          at(k, p) = c * x - s * y;
          at(k, q) = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = at(p, k), y = at(q, k);
          at(p, k) = c * x - s * y;
          at(q, k) = s * x + c * y;
        }
      }
    }
  }
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(std::max(0.0, at(i, i)));
  std::ranges::sort(out, std::greater<>());
  return out;
}

}  // namespace

std::vector<double> low_rank_product(std::span<const float> a, std::span<const float> b, int64_t out, int64_t in,
                                     int64_t groups) {
  const int64_t r = static_cast<int64_t>(b.size()) / out, group = out / groups;  // r: of one group
  std::vector<double> product(static_cast<size_t>(out * in));
  parallel_for(out, grain(r * in), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      double* to = product.data() + o * in;
      for (int64_t k = 0; k < r; ++k) {
        const double by = b[static_cast<size_t>(o * r + k)];
        const float* row = a.data() + (o / group * r + k) * in;
        for (int64_t i = 0; i < in; ++i) to[i] += by * static_cast<double>(row[i]);
      }
    }
  });
  return product;
}

std::vector<double> row_norms(std::span<const double> matrix, int64_t rows) {
  const int64_t columns = static_cast<int64_t>(matrix.size()) / rows;
  std::vector<double> out(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = matrix.data() + r * columns;
    out[static_cast<size_t>(r)] = std::sqrt(dot(row, row, columns));
  }
  return out;
}

std::vector<double> largest_singular_values(std::span<const float> matrix, int64_t rows, int64_t columns,
                                            int64_t count) {
  constexpr int64_t kMore = 8;  // vectors beyond those asked for: they make the last ones converge
  constexpr int kIterations = 4;
  const int64_t vectors = std::min({count + kMore, rows, columns});
  std::vector<double> basis(static_cast<size_t>(vectors * columns));
  Random random(1);
  for (double& x : basis) x = random.normal();
  std::vector<double> image;
  for (int i = 0; i < kIterations; ++i) {
    orthonormalise(basis, vectors, columns);
    image = apply(matrix, rows, columns, basis, vectors);
    if (i + 1 < kIterations) basis = apply_transposed(matrix, rows, columns, image, vectors);
  }
  std::vector<double> gram(static_cast<size_t>(vectors * vectors));
  for (int64_t i = 0; i < vectors; ++i) {
    for (int64_t j = 0; j < vectors; ++j) {
      gram[static_cast<size_t>(i * vectors + j)] = dot(image.data() + i * rows, image.data() + j * rows, rows);
    }
  }
  std::vector<double> out = eigenvalues(std::move(gram), vectors);
  out.resize(static_cast<size_t>(count));
  for (double& value : out) value = std::sqrt(value);
  return out;
}

}  // namespace sparkpilot
