// Elementwise chains.
#include "ops/cuda/elementwise.h"

#include "ops/cuda/elements.cuh"
#include "ops/cuda/functions.cuh"
#include "ops/cuda/strided.cuh"

namespace {

using device::Coordinates;
using device::Function;
using sparkpilot::cuda::ElementwiseArguments;
using sparkpilot::cuda::ElementwiseOperand;
using sparkpilot::cuda::ElementwiseStep;
using sparkpilot::cuda::kKept;

// Where a thread's elements lie: a row's coordinates, and the first one's column.
struct Place {
  Coordinates row;
  int column, count;
};

template <int kWidth>
__device__ __forceinline__ void read(const ElementwiseOperand& operand, const Place& place, float (&y)[kWidth]) {
  const long long row = device::offset<1>(place.row, operand.strides);
  if (operand.strides[0] == 0) {
    const float value = device::load_value(operand.type, operand.data, row);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y[i] = value;
  } else if (place.count == kWidth) {
    device::load_values(operand.type, operand.data, row + place.column, y);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      y[i] = i < place.count ? device::load_value(operand.type, operand.data, row + place.column + i) : 0.0f;
    }
  }
}

// One step on kWidth elements. What is cheap is written out for all; for the rest the elements go in turn through one
// copy of the code, which would else be that many times as long.
template <int kWidth>
__device__ __forceinline__ void unary_step(const ElementwiseStep& step, float (&x)[kWidth]) {
#pragma unroll 1
  for (int turn = 0; turn < kWidth; ++turn) {
    const float value = device::unary(step.function, x[0], step.alpha, step.beta);
#pragma unroll
    for (int i = 0; i < kWidth - 1; ++i) x[i] = x[i + 1];
    x[kWidth - 1] = value;
  }
}
template <int kWidth>
__device__ __forceinline__ void binary_step(const ElementwiseStep& step, float (&x)[kWidth], float (&y)[kWidth]) {
  if (step.reversed) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float value = x[i];
      x[i] = y[i], y[i] = value;
    }
  }
  switch (step.function) {
    case Function::add:
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] += y[i];
      return;
    case Function::mul:
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] *= y[i];
      return;
    default: break;
  }
#pragma unroll 1
  for (int turn = 0; turn < kWidth; ++turn) {
    const float value = device::binary(step.function, x[0], y[0]);
#pragma unroll
    for (int i = 0; i < kWidth - 1; ++i) x[i] = x[i + 1], y[i] = y[i + 1];
    x[kWidth - 1] = value;
  }
}

template <int kWidth>
__device__ __forceinline__ void elementwise_chain(const ElementwiseArguments& p) {
  unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= p.vectors) return;
  Place place;
  const int vector = static_cast<int>(device::divide(row, p.vectors_of_a_row));
  place.row = device::coordinates<1>(p.dimensions, row);
  place.column = vector * kWidth;
  const int size = static_cast<int>(p.dimensions.sizes[0].size);
  place.count = device::least(size - place.column, kWidth);
  float x[kWidth], kept[kWidth];
  read(p.operands[0], place, x);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) kept[i] = 0;
#pragma unroll 1
  for (int s = 0; s < p.step_count; ++s) {
    const ElementwiseStep& step = p.steps[s];
    if (step.function == Function::keep) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) kept[i] = x[i];
    } else if (step.function < sparkpilot::cuda::first_of_two) {
      unary_step(step, x);
    } else {
      float y[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) y[i] = kept[i];
      if (step.operand != kKept) read(p.operands[step.operand], place, y);
      if (step.function == Function::select) {
        float z[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) z[i] = kept[i];
        if (step.second != kKept) read(p.operands[step.second], place, z);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) x[i] = x[i] != 0.0f ? y[i] : z[i];
      } else {
        binary_step(step, x, y);
      }
    }
  }
  const long long at = static_cast<long long>(row) * size + place.column;
  if (place.count == kWidth) {
    device::store_values(p.type, p.y, at, x);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < place.count) device::store_value(p.type, p.y, at + i, x[i]);
    }
  }
}

}  // namespace

// So many blocks of a multiprocessor at least: else ptxas spills to save registers.
extern "C" __global__ void __launch_bounds__(128, 6) elementwise_wide_8(ElementwiseArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  elementwise_chain<8>(p);
}
extern "C" __global__ void __launch_bounds__(128, 8) elementwise_wide_4(ElementwiseArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  elementwise_chain<4>(p);
}

extern "C" __global__ void __launch_bounds__(128) elementwise(ElementwiseArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= static_cast<unsigned>(p.elements)) return;
  const Coordinates c = device::coordinates<0>(p.dimensions, at);
  const auto read = [&](int i) {
    const ElementwiseOperand& operand = p.operands[i];
    return device::load_value(operand.type, operand.data, device::offset<0>(c, operand.strides));
  };
  float x = read(0), kept = 0;
#pragma unroll 1
  for (int s = 0; s < p.step_count; ++s) {
    const ElementwiseStep& step = p.steps[s];
    if (step.function == Function::keep) {
      kept = x;
    } else if (step.function < sparkpilot::cuda::first_of_two) {
      x = device::unary(step.function, x, step.alpha, step.beta);
    } else {
      const float y = step.operand == kKept ? kept : read(step.operand);
      if (step.function == Function::select) {
        const float z = step.second == kKept ? kept : read(step.second);
        x = x != 0.0f ? y : z;
      } else {
        x = device::binary(step.function, step.reversed ? y : x, step.reversed ? x : y);
      }
    }
  }
  device::store_value(p.type, p.y, at, x);
}

extern "C" __global__ void __launch_bounds__(128) elementwise_integers(ElementwiseArguments p) {
  device::begin_kernel();
  device::let_next_begin();
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= static_cast<unsigned>(p.elements)) return;
  const Coordinates c = device::coordinates<0>(p.dimensions, at);
  const auto read = [&](int i) {
    const ElementwiseOperand& operand = p.operands[i];
    return device::load_integer(operand.type, operand.data, device::offset<0>(c, operand.strides));
  };
  long long x = read(0), kept = 0;
#pragma unroll 1
  for (int s = 0; s < p.step_count; ++s) {
    const ElementwiseStep& step = p.steps[s];
    if (step.function == Function::keep) {
      kept = x;
      continue;
    }
    long long y = kept;
    if (step.function >= sparkpilot::cuda::first_of_two && step.operand != kKept) y = read(step.operand);
    if (step.function == Function::select) {
      const long long z = step.second == kKept ? kept : read(step.second);
      x = x != 0 ? y : z;
    } else {
      x = device::integers(step.function, step.reversed ? y : x, step.reversed ? x : y);
    }
  }
  device::store_integer(p.type, p.y, at, x);
}
