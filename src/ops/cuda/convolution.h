// Kernels of convolutions: their arguments, the weights as they read them, and the launches that they want.
//
// Images and outputs are N, H, W, C in the storage type, computed in fp32 and rounded once. Kernels, <type> being f32,
// f16 or bf16:
//   conv_<M>x<N>_<type>      implicit product by tiles of M pixels and N output channels, from whole pieces of 16 bytes
//   conv_any_64x32_<type>    the same from single elements: any number of channels, strides and storage of the image
//   conv_sum_<type>          adds up the parts of those whose depth is split
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/direct_gemm.h"
#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

struct ConvSizes {
  int batch = 1, height = 1, width = 1, channels = 1;  // of the image
  int out_height = 1, out_width = 1, out_channels = 1;
  int kernel_height = 1, kernel_width = 1, stride_height = 1, stride_width = 1;
  int dilation_height = 1, dilation_width = 1;
  int pad_top = 0, pad_left = 0;  // what is padded below and to the right follows from the output's size
  int groups = 1;
};

// For indices of pixels and of depth.
struct ConvDivisors {
  Divisor channels, kernel_width, out_width, out_height;
  Divisor quads;  // groups of four output channels
};
ConvDivisors conv_divisors(const ConvSizes& size);

// What conv_any reads an image as: elements of the storage type, or others, which are rounded to it; bytes count 0 to
// 255. Of bytes_together, eight channels (in f32 four) lie beside each other from a multiple of as many bytes on.
enum class ImageStorage : uint8_t { own, f32, bytes, bytes_together };

// Weights are finite: those of taps beyond the image's border are multiplied by zeros. x, weights, bias, y and partial
// lie at multiples of 16 bytes. Operands of the epilogue have `pixels` rows (batch x height x width of the output) and
// a column for each channel; they are read fastest where they lie at multiples of 16 bytes with a column stride of 1
// and a row stride that is a multiple of 4.
struct ConvArguments {
  const void* x;
  const void* weights;  // pack_conv_weights
  const float* bias;    // [out_channels], or null
  void* y;              // [pixels, out_channels]
  float* partial;       // [splits, pixels, out_channels], if splits > 1
  ConvSizes size;
  ConvDivisors by;                // of `size`
  int splits = 1;                 // parts of the depth; conv_sum adds them up
  bool constant_weights = false;  // the first are loaded while the kernel waits for the one before it
  // conv_any: distances in x, in elements. No element of an image is 2^31 or more from its first.
  long long x_image = 0;
  int x_row = 0, x_column = 0, x_channel = 0;
  ImageStorage x_storage = ImageStorage::own;
  Epilogue epilogue;
};

// Weights as kernels of groups = 1 read them: [depth in slices of 64 bytes][out_channels][64 bytes], depth being
// (kernel row, kernel column, channel), filled up with zeros. So any tile reads whole sectors, and a step of a tile of
// all its channels lies together.
size_t conv_weight_bytes(const ConvSizes& size, Storage storage);
// From ONNX's order (out_channels, channels, kernel row, kernel column), elements of the storage type.
void pack_conv_weights(const ConvSizes& size, Storage storage, const void* weights, void* packed);

// Tiles of conv_<M>x<N>, with the ring of buffers that steps of depth come through. The four warps of a block have a
// quarter of the tile each, or the whole tile and a quarter of each step's depth: then tiles can be so small that few
// pixels of few channels give work to all multiprocessors, and what the warps have is added within the block.
struct ConvTile {
  int pixels, channels;
  int pieces;  // of 16 bytes of depth in a step
  int stages;  // buffers in the ring
  bool operator==(const ConvTile&) const = default;
  constexpr bool by_depth() const { return pixels < 32; }
  constexpr size_t shared_bytes() const {
    const int ring = (pixels + channels) * pieces * 16 * stages;
    const int sums = (by_depth() ? 4 : 1) * pixels * (channels + 8) * 4;
    return static_cast<size_t>(ring > sums ? ring : sums);
  }
};
inline constexpr ConvTile kConvTiles[] = {{128, 64, 4, 4}, {64, 64, 8, 3}, {64, 32, 8, 4},
                                          {32, 64, 8, 4},  {32, 32, 8, 4}, {16, 16, 16, 4}};
inline constexpr ConvTile kConvElementTile = {64, 32, 4, 4};

// Which kernel computes a convolution of groups = 1, and with how many splits.
struct ConvPlan {
  ConvTile tile = kConvElementTile;
  int splits = 1;
  bool pieces = true;                         // conv_<M>x<N>, else conv_any
  std::optional<DirectGemmPlan> direct = {};  // direct_gemm_* instead

  std::string kernel(Storage storage) const;
  std::string variant() const;  // "64x64 in 4 parts"
  size_t partial_bytes(const ConvSizes& size) const;
  // Grid: tiles of pixels, tiles of channels, splits; 128 threads.
  KernelLaunch launch(const ConvSizes& size) const;
};
// Whether conv_<M>x<N> takes it: images of channels_last in whole pieces of 16 bytes.
bool conv_pieces_accepts(const ConvSizes& size, Storage storage);
// Whether any of the kernels here takes it: one group, and no size beyond 2^31 elements an image or pixels in all.
bool conv_accepts(const ConvSizes& size);
// Whether it is a product of rows that lie together in the image, of at least 16 bytes: 1x1 without strides, or a
// kernel that covers the image.
bool conv_is_product(const ConvSizes& size);
DirectGemmArguments direct_gemm_of(const ConvArguments& arguments);
// Plans that are worth timing on a GPU with this many multiprocessors; `pieces` false: for conv_any. The first is the
// one that a model expects to be the fastest; at least half of the multiprocessors have a block in it, if tiles and
// splits allow it.
// direct_gemm_*, which loads weights ahead, only for `constant` ones.
std::vector<ConvPlan> conv_plans(const ConvSizes& size, Storage storage, int multiprocessors, bool pieces = true,
                                 bool constant = true);
inline ConvPlan plan_conv(const ConvSizes& size, Storage storage, int multiprocessors, bool pieces = true) {
  return conv_plans(size, storage, multiprocessors, pieces).front();
}
// conv_sum_*, which takes the arguments of a kernel with splits > 1 after it: adds up, then bias and epilogue.
KernelLaunch conv_sum_launch(const ConvSizes& size);

}  // namespace sparkpilot::cuda
