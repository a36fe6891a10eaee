// Seeded contents for inputs, of a reasonable range.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace sparkpilot {

// Fills `view`: floats standard normal, bytes over their whole range (pixels), other integers 0 to 7 (they may be
// indices, of which models have at least a few), booleans either. The contents depend on the seed, the name, the dtype
// and the shape only, and are the same on every machine up to the last bit of a logarithm.
void fill_random(const View& view, std::string_view name, uint64_t seed);

}  // namespace sparkpilot
