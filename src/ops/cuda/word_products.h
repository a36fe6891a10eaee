// Products of a warp for the words `mma`: fragments, and what comes out, by the figures of the PTX manual.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sparkpilot/tensor.h"

namespace sparkpilot::cuda {

struct WordProduct {
  std::vector<uint32_t> words;  // of each lane: four of a, two of b, four of c; or, with scales, those instead of c
  std::vector<double> a, b, c;  // 16 x depth, depth x 8, 16 x 8
  int depth = 0;
};

// Whole numbers from -8 to 8 in f16, bf16 or f8e4m3fn, drawn from a seed: every sum is exact, whatever its order.
WordProduct whole_numbers(DType type, uint64_t seed);

// The same in f8e4m3fn with one NaN in a.
WordProduct product_with_nan(uint64_t seed);

// Every i8, and any i32 in c, of which some are so large that the sum wraps.
WordProduct integer_product(uint64_t seed);

// Every f4e2m1, with scales of 1/2, 1 and 2 for each 16 of depth: sums are exact in 16 bits.
WordProduct four_bit_product(uint64_t seed);

// a b + c as the lanes hold it.
std::vector<float> fragments_of(const WordProduct& product);
std::vector<uint32_t> integer_fragments_of(const WordProduct& product);  // modulo 2^32

// What word mma_tile reads and writes.
std::pair<std::vector<uint32_t>, std::vector<float>> tile_of_products();

}  // namespace sparkpilot::cuda
