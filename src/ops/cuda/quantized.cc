#include "ops/cuda/quantized.h"

namespace sparkpilot::cuda {
namespace {

unsigned blocks(long long count, long long each) { return static_cast<unsigned>((count + each - 1) / each); }

}  // namespace

KernelLaunch qdepthwise_launch(const QConvArguments& p, int unit) {
  const ConvSizes& s = p.size;
  const long long pixels = static_cast<long long>(s.batch) * s.out_height * s.out_width;
  return {.grid_x = blocks(pixels * (s.out_channels / unit), 128), .threads = 128};
}

KernelLaunch byte_elements_launch(int elements) { return {.grid_x = blocks(elements, 16 * 128), .threads = 128}; }

KernelLaunch byte_pool_launch(const PoolArguments& p) {
  return {.grid_x = blocks(static_cast<long long>(p.batch) * p.out_height * p.out_width * p.channels, 128),
          .threads = 128};
}

}  // namespace sparkpilot::cuda
