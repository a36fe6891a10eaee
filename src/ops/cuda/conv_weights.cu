// Weights of convolutions in the order in which kernels read them: see conv_weights.h.
#include "ops/cuda/conv_weights.h"

#include "ops/cuda/strided.cuh"

// A thread for each element that is written.
extern "C" __global__ void __launch_bounds__(256)
    conv_weights_f32(const __grid_constant__ sparkpilot::cuda::ConvWeightsArguments p) {
  device::begin_kernel();
  const unsigned at = blockIdx.x * 256 + threadIdx.x;
  if (at >= p.elements) return;
  unsigned slice = at;
  const unsigned within = device::divide(slice, p.together);
  unsigned output = device::divide(slice, p.outputs);
  unsigned tap = slice * p.together.size + within;
  const unsigned channel = device::divide(tap, p.channels);
  float value = 0;
  if (static_cast<int>(tap) < p.taps) {
    const unsigned of_group = device::divide(output, p.of_group);  // and `output` is the group
    const int place = p.turned ? p.taps - 1 - static_cast<int>(tap) : static_cast<int>(tap);
    value =
        p.from[static_cast<long long>(output) * p.group_stride + static_cast<long long>(of_group) * p.output_stride +
               static_cast<long long>(channel) * p.channel_stride + place];
  }
  p.to[at] = value;
}
