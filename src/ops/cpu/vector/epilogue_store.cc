#include "ops/cpu/vector/epilogue_store.h"

#include "base/parallel.h"

namespace sparkpilot {
namespace {

constexpr int64_t kGrain = 4096;  // elements that justify a thread

}  // namespace

void store_floats(const View& out, const float* values, int64_t first, int64_t count) {
  if (out.dtype == DType::f16) float_to_half_n(values + first, out.as<Half>() + first, count);
  if (out.dtype == DType::bf16) float_to_bfloat16_n(values + first, out.as<BFloat16>() + first, count);
}

int64_t epilogue_store_bytes(DType dtype, int64_t elements) {
  return dtype == DType::f32 ? 0 : elements * static_cast<int64_t>(sizeof(float));
}

float* epilogue_values(const Call& call, std::byte* workspace) {
  return call.outputs[0].dtype == DType::f32 ? call.outputs[0].as<float>() : reinterpret_cast<float*>(workspace);
}

void store_rows(const Call& call, const Epilogue& epilogue, float* values, int64_t rows, int64_t channels) {
  const Epilogue::Operands operands = epilogue.bind(call);
  parallel_for(rows, 1 + kGrain / (1 + channels), [&](int64_t first, int64_t last) {
    epilogue.apply_rows(operands, {.data = values + first * channels,
                                   .lines = last - first,
                                   .length = channels,
                                   .stride = channels,
                                   .channel = 0,
                                   .offset = first * channels,
                                   .output_stride = channels});
    store_floats(call.outputs[0], values, first * channels, (last - first) * channels);
  });
}

void store_planes(const Call& call, const Epilogue& epilogue, float* values, int64_t batch, int64_t channels,
                  int64_t size) {
  const Epilogue::Operands operands = epilogue.bind(call);
  parallel_for(batch * channels, 1 + kGrain / (1 + size), [&](int64_t first, int64_t last) {
    for (int64_t plane = first; plane < last; ++plane) {
      epilogue.apply_planes(operands, {.data = values + plane * size,
                                       .lines = 1,
                                       .length = size,
                                       .stride = size,
                                       .channel = plane % channels,
                                       .offset = plane * size,
                                       .output_stride = size});
    }
    store_floats(call.outputs[0], values, first * size, (last - first) * size);
  });
}

}  // namespace sparkpilot
