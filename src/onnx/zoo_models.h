// The parts the stand-in models are put together from; see zoo.h. Sizes of each model are in zoo.cc.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "onnx/zoo_layers.h"

namespace sparkpilot {

// One named piece of the flat output, in the order of the contract.
struct ZooHead {
  std::string name;
  ValueId value;  // [1, width]
};
using ZooHeads = std::vector<ZooHead>;

// FastViT, the convolutional trunk of the driving models: depthwise convolutions mix places, 1x1 convolutions mix
// channels through an inverted bottleneck with GELU.
struct FastVitSize {
  std::array<int, 4> depths, widths;
  int64_t expansion;  // of the bottleneck
};
// A plain vision transformer on 16x16 patches.
struct VitSize {
  int depth;
  int64_t width, heads;
};
// What follows the trunk: pooled features -> summary -> hidden state and one small network a head.
struct VisionHeadSize {
  int64_t features, bottleneck, summary;
};
struct PolicySize {
  int64_t width, mlp, context, trunk, plan, desire;  // channels
  int plan_blocks, desire_blocks;
};
// Inverted bottlenecks with ReLU.
struct MobileSize {
  std::array<int, 7> depths, widths;
  int64_t expansion, stem, features, head;
};

// Both camera images, uint8 [1, 12, 128, 256], as inputs "img" and "big_img" -> fp16 [1, 24, 128, 256].
ValueId zoo_images(Layers& layers);
// An fp32 input of the model, cast to fp16.
ValueId zoo_input(Layers& layers, const std::string& name, const Shape& shape);

// Images -> features [1, C].
ValueId fast_vit(Layers& layers, ValueId images, const FastVitSize& size);
ValueId vit(Layers& layers, ValueId images, const VitSize& size);
// Features -> the eleven heads of vision, hidden_state [1, 512] last.
ZooHeads vision_heads(Layers& layers, ValueId features, const VisionHeadSize& size);
// `features_buffer` [1, 25, 512], `desire` [1, 25, 8], `context` vectors [1, n] -> plan, desire_state and the padding.
ZooHeads policy_heads(Layers& layers, ValueId features_buffer, ValueId desire, std::vector<ValueId> context,
                      const PolicySize& size);
// Luma uint8 [1, 960 * 1440] and calibration [1, 3] as inputs -> the heads of driver monitoring.
ZooHeads driver_monitoring(Layers& layers, const MobileSize& size);

// Makes the model of that name; its graph is still empty. Fails (user) where there is none.
void build_zoo_model(Layers& layers, std::string_view name);

}  // namespace sparkpilot
