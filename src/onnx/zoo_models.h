// The parts of the stand-in models; see zoo.h. Sizes of each model are in zoo.cc.
#pragma once

#include <array>
#include <optional>
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
// A small trunk: a stem and stages of these widths, `map` channels with all their places as features, and `motion`
// features of the ground's motion. Of the pictures before it sees only the ground.
struct RoadSize {
  std::array<int64_t, 3> widths;
  int64_t map, motion;
};
// After the trunk: pooled features -> summary -> hidden state and one small network for each head.
struct VisionHeadSize {
  int64_t features, bottleneck, summary;
};
struct PolicySize {
  int64_t width, mlp, context, trunk, plan, desire;  // channels
  int plan_blocks, desire_blocks;
  int64_t curvature = 0;
};
// Inverted bottlenecks with ReLU.
struct MobileSize {
  std::array<int, 7> depths, widths;
  int64_t expansion, stem, features, head;
};

// The era whose contract a driving model has: one network, two, two, one.
enum class ZooEra { v0_9_7, v0_10_0, v0_10_1, mid_2026 };

// What a model is made of: a trunk and vision's heads, policy, both, or `mobile` alone.
struct ZooSize {
  std::optional<FastVitSize> fast_vit = {};
  std::optional<VitSize> vit = {};
  std::optional<RoadSize> road = {};
  std::optional<VisionHeadSize> heads = {};
  std::optional<PolicySize> policy = {};
  std::optional<MobileSize> mobile = {};
};

// A head and how many values it has.
struct ZooHeadWidth {
  const char* name;
  int64_t width;
};

// Two cameras' images, each [1, 12, 128, 256] of `dtype`, as inputs of these names -> fp16 [1, 24, 128, 256].
struct ZooImages {
  const char *road, *wide;
  DType dtype;
};
ValueId zoo_images(Layers& layers, const ZooImages& images);
// An input of the model, cast to fp16.
ValueId zoo_input(Layers& layers, const std::string& name, const Shape& shape, DType dtype = DType::f32);
// Zeros at the end of the output.
ZooHead zoo_padding(Layers& layers, const std::string& name, int64_t width);

// Images -> features [1, C].
ValueId fast_vit(Layers& layers, ValueId images, const FastVitSize& size);
ValueId vit(Layers& layers, ValueId images, const VitSize& size);
// With the images as inputs, of bytes.
struct RoadFeatures {
  ValueId features;  // [1, C]
  ValueId speed;     // [1, 1], m/s
  ValueId there;     // [1, 1]: 1 if there is an earlier picture, 0 if it is empty
};
RoadFeatures road_trunk(Layers& layers, const ZooImages& images, const RoadSize& size);
// A plan of one hypothesis whose y follows from its x: that of the middle between the inner lane lines there, the way
// from the car to the middle, and what desires add. `desire`: [1, n, 8].
ValueId follow_lane(Layers& layers, ValueId plan, ValueId lane_lines, ValueId desire);
// A pose with the speed that the ground shows; the hidden state [1, 512] of a summary and the pose's speed; and a plan
// of one hypothesis whose x and speeds follow those in the hidden states `features` [1, n, 512], this frame's last.
ValueId add_speed(Layers& layers, ValueId pose, ValueId speed);
ValueId remember_speed(Layers& layers, ValueId summary, ValueId pose, ValueId there);
ValueId follow_speed(Layers& layers, ValueId plan, ValueId features);
// Features -> the heads named, and hidden_state [1, 512] last. `road`: whose speed the pose and the hidden state have.
ZooHeads vision_heads(Layers& layers, ValueId features, const VisionHeadSize& size, std::span<const ZooHeadWidth> heads,
                      const RoadFeatures* road = nullptr);
struct PolicyInputs {
  ValueId features;                      // [1, 25 n, 512], this frame's last; [1, 1, 512]: this frame's alone
  ValueId desire;                        // [1, 25 n, 8]
  std::vector<ValueId> context;          // vectors [1, any]
  std::optional<ValueId> steering = {};  // [1, any]: further input of desired_curvature
};
// -> a plan of `plan` values, desire_state and, with `steering`, desired_curvature.
ZooHeads policy_heads(Layers& layers, PolicyInputs inputs, const PolicySize& size, int64_t plan);
// A driving model of that era with its inputs -> its heads in the order of the contract, padding last.
ZooHeads driving_heads(Layers& layers, const ZooSize& size, ZooEra era);
// Luma uint8 [1, 960 * 1440] and calibration [1, 3] as inputs -> the heads of driver monitoring.
ZooHeads driver_monitoring(Layers& layers, const MobileSize& size);

// Makes the model of that name; its graph is still empty. Fails (user) if unknown.
void build_zoo_model(Layers& layers, std::string_view name);

}  // namespace sparkpilot
