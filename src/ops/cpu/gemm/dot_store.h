// The end of an epilogue and the rounding to bf16 in one pass, for kernels that sum in f32 by dot products of bf16.
#pragma once

#include "ops/cpu/vector/epilogue.h"

namespace sparkpilot {

// An epilogue in two parts: what is applied to f32 values, and a last step that is done while they are stored.
struct DotStore {
  enum Last : uint8_t { none, gelu_tanh, add } last = none;
  int at = -1;  // the last step's place in the epilogue, for its operand
  Epilogue first;

  DotStore() = default;
  explicit DotStore(const Epilogue& epilogue);
  bool empty() const { return last == none && first.empty(); }

  // Applies all to the tile, whose lines go to `y`, output_stride apart. GELU is computed to 2^-12, of which bf16 keeps
  // less. Safe from several threads.
  void store(const Epilogue::Operands& operands, const Epilogue::Tile& tile, BFloat16* y) const;
};

}  // namespace sparkpilot
