// Depthwise convolution of bf16 images with channels last: rows are converted to f32 into a ring that stays in cache,
// go through the f32 kernel, and are rounded after the epilogue.
#pragma once

#include "ops/cpu/conv/depthwise.h"
#include "ops/cpu/gemm/dot_store.h"

namespace sparkpilot {

struct DepthwiseBf16 {
  const ConvShape& shape;  // one or two dimensions
  const PanelMatrix& weights;
  TileOutput output;  // bias and limits
  const DotStore& store;
  int64_t threads;  // at most

  // Bytes of workspace for each thread.
  static int64_t workspace(const ConvShape& shape);
  // Parallel. Results do not depend on the number of threads.
  void run(const BFloat16* x, BFloat16* y, const Epilogue::Operands& operands, std::byte* workspace) const;
};

}  // namespace sparkpilot
