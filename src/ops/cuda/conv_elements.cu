// Convolutions by tiles, from single elements and from bytes.
#include "ops/cuda/conv_elements.cuh"

#define CONV(name, type, element)                                                                             \
  extern "C" __global__ void __launch_bounds__(128, 2)                                                        \
      name(const __grid_constant__ sparkpilot::cuda::ConvArguments p) {                                       \
    using Type = device::type;                                                                                \
    device::conv_tile<Type, 64, 32, 4, 4, device::ImageByElements<Type, device::element<Type>, 64, 4>>(p, p); \
  }
CONV(conv_any_64x32_f32, F32, ElementOf)
CONV(conv_any_64x32_f16, F16, ElementOf)
CONV(conv_any_64x32_bf16, BF16, ElementOf)
CONV(conv_u8_64x32_f32, F32, ByteOf)
CONV(conv_u8_64x32_f16, F16, ByteOf)
CONV(conv_u8_64x32_bf16, BF16, ByteOf)
