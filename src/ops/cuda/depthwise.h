// Kernels of convolutions with groups: their weights, and the launches that they want. Their arguments are those of
// convolution.h, without splits. <type> is f32, f16 or bf16.
//   depthwise_<k>x<k>_<type>          one filter a channel; k 3, 5 or 7, any strides and dilations
//   depthwise_<k>x<k>_rows_<type>     the same with a thread for a row of the kernel and four channels: more threads
//   depthwise_<k>x<k>_double_<type>   the same with two filters a channel
//   depthwise_<k>x<k>_strip_<type>    four outputs beside each other a thread; strides and dilations of 1; k 3 or 7;
//                                     f16 and bf16
//   grouped_<type>                    any groups, any numbers of channels
// All but the last read images and weights in pieces of 16 bytes of channels, and the bias in their order. They
// multiply weights by the zeros beyond the image's border, so these must be finite.
#pragma once

#include <vector>

#include "ops/cuda/convolution.h"

namespace sparkpilot::cuda {

// Weights as these kernels read them: [kernel row][kernel column][channels / groups][out_channels]. From ONNX's order
// (out_channels, channels / groups, kernel row, kernel column), elements of the storage type.
size_t grouped_weight_bytes(const ConvSizes& size, Storage storage);
void pack_grouped_weights(const ConvSizes& size, Storage storage, const void* weights, void* packed);

// The bias as depthwise kernels read it: [quads of a piece][pieces][4], so that a warp's request of quads lies
// together.
std::vector<float> packed_depthwise_bias(const ConvSizes& size, Storage storage, const float* bias);

// Whether a depthwise kernel takes it: as many groups as channels, one or two filters for each, in whole pieces of 16
// bytes, and a kernel of 3x3, 5x5 or 7x7.
bool depthwise_accepts(const ConvSizes& size, Storage storage);
// Whether grouped_<type> takes it, as it does unless sizes are beyond 2^31 elements an image or pixels in all.
bool grouped_accepts(const ConvSizes& size);

struct DepthwisePlan {
  enum Way { pixels, strips, rows };
  int kernel = 3;  // or 5 or 7
  Way way = pixels;
  int filters = 1;  // for each channel; rows only: or 2
  std::string name(Storage storage) const;
  std::string variant() const { return way == pixels ? "single pixels" : way == strips ? "strips" : "rows"; }
  KernelLaunch launch(const ConvSizes& size, Storage storage) const;
};
constexpr int kDepthwiseStrip = 4;
// First rows, unless they are more warps than a GPU with this many multiprocessors holds at a time; then strips where
// they can be.
std::vector<DepthwisePlan> depthwise_plans(const ConvSizes& size, Storage storage, int multiprocessors);
inline DepthwisePlan plan_depthwise(const ConvSizes& size, Storage storage, int multiprocessors) {
  return depthwise_plans(size, storage, multiprocessors).front();
}
KernelLaunch grouped_launch(const ConvSizes& size);

}  // namespace sparkpilot::cuda
