// What tests of products and of attention share.
#pragma once

#include "ops/cuda/epilogue.h"
#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda {

// relu(y) + c[row, column], of rows of `columns` numbers.
inline Epilogue relu_then_add(const TestStorage& storage, const void* c, int columns) {
  Epilogue out{};
  out.count = 2;
  out.steps[0] = {.kind = EpilogueStep::activation, .function = Activation::relu};
  out.steps[1] = {.kind = EpilogueStep::add,
                  .storage = storage_of(storage),
                  .operand = c,
                  .row_stride = columns,
                  .column_stride = 1};
  return out;
}

}  // namespace sparkpilot::cuda
