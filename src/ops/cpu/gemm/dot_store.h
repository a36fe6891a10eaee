// Applies the end of an epilogue and rounds to bf16 in one pass, for kernels that sum bf16 dot products in f32.
#pragma once

#include <limits>

#include "ops/cpu/vector/epilogue.h"

namespace sparkpilot {

// An epilogue in two parts: steps on f32 values in memory, and a last step that is applied while they are stored.
struct DotStore {
  enum Last : uint8_t { none, gelu_tanh, add } last = none;
  int at = -1;  // index of the last step in the epilogue, to find its operand
  Epilogue first;
  // On x86-64, where `first` is empty: bounds that are applied before the last step; NaN stays.
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  DotStore() = default;
  explicit DotStore(const Epilogue& epilogue);
  bool empty() const { return last == none && first.empty(); }

  // Applies all steps to the tile and writes its lines to `y`, output_stride apart. GELU is computed to 2^-12, which is
  // more precise than bf16. Thread-safe.
  void store(const Epilogue::Operands& operands, const Epilogue::Tile& tile, BFloat16* y) const;
};

}  // namespace sparkpilot
