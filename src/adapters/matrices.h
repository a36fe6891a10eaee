// Products of small matrices in double, shared among threads: adapters are made and merged with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sparkpilot {

// The product B A of an adapter's matrices for each group, [out, in]: A [groups * r, in], B [out, r].
std::vector<double> low_rank_product(std::span<const float> a, std::span<const float> b, int64_t out, int64_t in,
                                     int64_t groups);

// Euclidean norms of rows.
std::vector<double> row_norms(std::span<const double> matrix, int64_t rows);

// The `count` largest singular values of a matrix [rows, columns], the largest first, to about a per cent: by subspace
// iteration. `count` is at most the smaller dimension.
std::vector<double> largest_singular_values(std::span<const float> matrix, int64_t rows, int64_t columns,
                                            int64_t count);

}  // namespace sparkpilot
