// What candidates ask of types and shapes before kernels take them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/op.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// How kernels hold elements of a type; empty for those that they do not know.
std::optional<ElementType> element_type(DType dtype);
// Bytes of an element of a type that is copied as it is; empty for packed types.
std::optional<int> copied_bytes(DType dtype);

// An address where nothing lies, for functions that ask only what an address is a multiple of.
inline void* address_of_nothing(int64_t bytes) { return reinterpret_cast<void*>(static_cast<uintptr_t>(bytes)); }

std::vector<int64_t> sizes_of(const Shape& shape);

// Whether kernels can number a tensor's elements: at least one, and fewer than 2^31.
Acceptance takes_elements(const Shape& shape);
// Whether constant indices are in range, also those that count from the end; element i is one of an axis of
// sizes[i % sizes.size()]. One that is not is for the CPU, which says which.
Acceptance takes_indices(const Tensor& indices, std::span<const int64_t> sizes);

}  // namespace sparkpilot::cuda
