#include "ops/cuda/depthwise.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace sparkpilot::cuda {
namespace {

constexpr long long kMost = std::numeric_limits<int>::max();

long long pixels(const ConvSizes& s) { return 1LL * s.batch * s.out_height * s.out_width; }
long long divided(long long a, long long b) { return (a + b - 1) / b; }
int element_bytes(Storage storage) { return storage == Storage::f32 ? 4 : 2; }

}  // namespace

size_t grouped_weight_bytes(const ConvSizes& size, Storage storage) {
  return static_cast<size_t>(1LL * size.kernel_height * size.kernel_width * (size.channels / size.groups) *
                             size.out_channels * element_bytes(storage));
}

void pack_grouped_weights(const ConvSizes& size, Storage storage, const void* weights, void* packed) {
  const long long taps = 1LL * size.kernel_height * size.kernel_width, in_group = size.channels / size.groups;
  const auto bytes = static_cast<size_t>(element_bytes(storage));
  for (long long o = 0; o < size.out_channels; ++o) {
    for (long long c = 0; c < in_group; ++c) {
      for (long long tap = 0; tap < taps; ++tap) {
        const auto to = static_cast<size_t>((tap * in_group + c) * size.out_channels + o);
        const auto from = static_cast<size_t>((o * in_group + c) * taps + tap);
        std::memcpy(static_cast<char*>(packed) + to * bytes, static_cast<const char*>(weights) + from * bytes, bytes);
      }
    }
  }
}

std::vector<float> packed_depthwise_bias(const ConvSizes& size, Storage storage, const float* bias) {
  const int each = 16 / element_bytes(storage), quads = each / 4;
  std::vector<float> out(static_cast<size_t>(size.out_channels));
  for (int c = 0; c < size.out_channels; ++c) {
    const int piece = c / each, quad = c % each / 4;
    out[static_cast<size_t>(quad * (size.out_channels / quads) + piece * 4 + c % 4)] = bias[c];
  }
  return out;
}

bool grouped_accepts(const ConvSizes& size) {
  ConvSizes dense = size;
  dense.groups = 1;
  return size.groups >= 1 && size.channels % size.groups == 0 && size.out_channels % size.groups == 0 &&
         conv_accepts(dense) && divided(pixels(size) * size.out_channels, 128) <= kMost;
}

bool depthwise_accepts(const ConvSizes& size, Storage storage) {
  const int kernel = size.kernel_height, piece = 16 / element_bytes(storage);
  return kernel == size.kernel_width && (kernel == 3 || kernel == 5 || kernel == 7) && size.groups == size.channels &&
         (size.out_channels == size.channels || size.out_channels == 2 * size.channels) && size.channels % piece == 0 &&
         grouped_accepts(size) && pixels(size) * size.out_channels <= kMost;
}

std::string DepthwisePlan::name(Storage storage) const {
  const std::string size = std::to_string(kernel);
  return "depthwise_" + size + "x" + size +
         (way == strips                 ? "_strip_"
          : way == rows && filters == 2 ? "_double_"
          : way == rows                 ? "_rows_"
                                        : "_") +
         (storage == Storage::f32   ? "f32"
          : storage == Storage::f16 ? "f16"
                                    : "bf16");
}

KernelLaunch DepthwisePlan::launch(const ConvSizes& size, Storage storage) const {
  const long long in_line = divided(size.out_width, way == strips ? kDepthwiseStrip : 1);
  const long long in_pixel = size.out_channels / (way == rows ? 4 : 16 / element_bytes(storage));
  return {.grid_x =
              static_cast<unsigned>(divided(in_pixel * in_line * size.out_height * size.batch, way == rows ? 32 : 128)),
          .threads = way == rows ? 32U * static_cast<unsigned>(kernel) : 128U};
}

std::vector<DepthwisePlan> depthwise_plans(const ConvSizes& size, Storage storage, int multiprocessors) {
  constexpr long long kWarps = 64;  // of a multiprocessor at a time
  const int kernel = size.kernel_height, filters = size.out_channels / size.channels;
  const DepthwisePlan rows{.kernel = kernel, .way = DepthwisePlan::rows, .filters = filters}, single{.kernel = kernel},
      strips{.kernel = kernel, .way = DepthwisePlan::strips};
  if (filters == 2) return {rows};
  std::vector<DepthwisePlan> out{single};
  if (storage != Storage::f32 && kernel != 5 && size.stride_height == 1 && size.stride_width == 1 &&
      size.dilation_height == 1 && size.dilation_width == 1) {
    out.insert(out.begin(), strips);
  }
  const bool few = 1LL * rows.launch(size, storage).grid_x * kernel <= kWarps * multiprocessors;
  out.insert(few ? out.begin() : out.end(), rows);
  return out;
}

KernelLaunch grouped_launch(const ConvSizes& size) {
  return {.grid_x = static_cast<unsigned>(divided(pixels(size) * size.out_channels, 128)), .threads = 128};
}

}  // namespace sparkpilot::cuda
