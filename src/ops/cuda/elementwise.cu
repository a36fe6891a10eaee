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

// Where a thread's eight elements lie: a row's coordinates, and the first one's column.
struct Place {
  Coordinates row;
  int column, count;
};

__device__ __forceinline__ void read_eight(const ElementwiseOperand& operand, const Place& place, float (&y)[8]) {
  const long long row = device::offset<1>(place.row, operand.strides);
  if (operand.strides[0] == 0) {
    const float value = device::load_value(operand.type, operand.data, row);
#pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = value;
  } else if (place.count == 8) {
    device::load_eight_values(operand.type, operand.data, row + place.column, y);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      y[i] = i < place.count ? device::load_value(operand.type, operand.data, row + place.column + i) : 0.0f;
    }
  }
}

// One step on eight elements. What is cheap is written out for all; for the rest the elements go in turn through one
// copy of the code, which would else be eight times as long.
__device__ __forceinline__ void unary_step(const ElementwiseStep& step, float (&x)[8]) {
#pragma unroll 1
  for (int turn = 0; turn < 8; ++turn) {
    const float value = device::unary(step.function, x[0], step.alpha, step.beta);
#pragma unroll
    for (int i = 0; i < 7; ++i) x[i] = x[i + 1];
    x[7] = value;
  }
}
__device__ __forceinline__ void binary_step(const ElementwiseStep& step, float (&x)[8], float (&y)[8]) {
  if (step.reversed) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float value = x[i];
      x[i] = y[i], y[i] = value;
    }
  }
  switch (step.function) {
    case Function::add:
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] += y[i];
      return;
    case Function::mul:
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] *= y[i];
      return;
    default: break;
  }
#pragma unroll 1
  for (int turn = 0; turn < 8; ++turn) {
    const float value = device::binary(step.function, x[0], y[0]);
#pragma unroll
    for (int i = 0; i < 7; ++i) x[i] = x[i + 1], y[i] = y[i + 1];
    x[7] = value;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) elementwise_wide(ElementwiseArguments p) {
  unsigned row = blockIdx.x * 128 + threadIdx.x;
  if (row >= p.vectors) return;
  Place place;
  const int vector = static_cast<int>(device::divide(row, p.vectors_of_a_row));
  place.row = device::coordinates<1>(p.dimensions, row);
  place.column = vector * 8;
  const int size = static_cast<int>(p.dimensions.sizes[0].size);
  place.count = device::least(size - place.column, 8);
  float x[8], kept[8];
  read_eight(p.operands[0], place, x);
#pragma unroll
  for (int i = 0; i < 8; ++i) kept[i] = 0;
#pragma unroll 1
  for (int s = 0; s < p.step_count; ++s) {
    const ElementwiseStep& step = p.steps[s];
    if (step.function == Function::keep) {
#pragma unroll
      for (int i = 0; i < 8; ++i) kept[i] = x[i];
    } else if (step.function < sparkpilot::cuda::first_of_two) {
      unary_step(step, x);
    } else {
      float y[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) y[i] = kept[i];
      if (step.operand != kKept) read_eight(p.operands[step.operand], place, y);
      if (step.function == Function::select) {
        float z[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) z[i] = kept[i];
        if (step.second != kKept) read_eight(p.operands[step.second], place, z);
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = x[i] != 0.0f ? y[i] : z[i];
      } else {
        binary_step(step, x, y);
      }
    }
  }
  const long long at = static_cast<long long>(row) * size + place.column;
  if (place.count == 8) {
    device::store_eight_values(p.type, p.y, at, x);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < place.count) device::store_value(p.type, p.y, at + i, x[i]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) elementwise(ElementwiseArguments p) {
  const unsigned at = blockIdx.x * 128 + threadIdx.x;
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
  const unsigned at = blockIdx.x * 128 + threadIdx.x;
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
