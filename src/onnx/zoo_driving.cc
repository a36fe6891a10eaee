// The driving models' contracts by era: inputs, heads and their order, and how the parts are connected.
#include <algorithm>

#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

constexpr ZooImages kOldImages{"input_imgs", "big_input_imgs", DType::f16}, kImages{"img", "big_img", DType::u8};

// 0.9.7, in the order of the output; `hidden_state` is vision's own output.
constexpr const char* kOldOrder[] = {"plan",
                                     "lane_lines",
                                     "lane_lines_prob",
                                     "road_edges",
                                     "lead",
                                     "lead_prob",
                                     "desire_state",
                                     "meta",
                                     "desire_pred",
                                     "pose",
                                     "wide_from_device_euler",
                                     "sim_pose",
                                     "road_transform",
                                     "desired_curvature",
                                     "hidden_state"};
constexpr ZooHeadWidth kOldVision[] = {{"lane_lines", 528}, {"lane_lines_prob", 8}, {"road_edges", 264},
                                       {"lead", 102},       {"lead_prob", 3},       {"meta", 48},
                                       {"desire_pred", 32}, {"pose", 12},           {"wide_from_device_euler", 6},
                                       {"sim_pose", 12},    {"road_transform", 12}};

// kOnePlan: means and deviations of 15 values at 33 times. kFivePlans: five such plans, each with a weight.
constexpr int64_t kOnePlan = 990, kFivePlans = 5 * (kOnePlan + 1);

// Since 0.10.0. Only `lead` changed its width: at first two hypotheses with weights for three times, later one per
// time.
std::array<ZooHeadWidth, 10> split_vision(int64_t lead) {
  return {{{"meta", 55},
           {"desire_pred", 32},
           {"pose", 12},
           {"wide_from_device_euler", 6},
           {"road_transform", 12},
           {"lane_lines", 528},
           {"lane_lines_prob", 8},
           {"road_edges", 264},
           {"lead", lead},
           {"lead_prob", 3}}};
}

ValueId trunk(Layers& l, ValueId images, const ZooSize& size) {
  return size.vit ? vit(l, images, *size.vit) : fast_vit(l, images, *size.fast_vit);
}

// The feature history with this frame's feature appended.
ValueId append_feature(Layers& l, ValueId buffer, ValueId hidden_state) {
  return l.concat({buffer, l.node("Unsqueeze", {hidden_state, l.ints({1})})}, 1);
}

// Speed, delay and the newest of the previous curvatures.
ValueId steering_vector(Layers& l, ValueId lateral, ValueId curvatures) {
  const int64_t last = l.shape(curvatures)[1] - 1;
  const ValueId newest = l.node("Gather", {curvatures, l.ints({last})}, {{"axis", int64_t{1}}});
  return l.concat({lateral, l.reshape(newest, {1, 1})}, 1);
}

// The inputs that policy shared until 0.10.0, in openpilot's order; `features` are the rows of features_buffer.
PolicyInputs old_policy_inputs(Layers& l, int64_t frames, int64_t features, DType dtype) {
  const ValueId desire = zoo_input(l, "desire", Shape{1, frames, 8}, dtype);
  const ValueId traffic = zoo_input(l, "traffic_convention", Shape{1, 2}, dtype);
  const ValueId lateral = zoo_input(l, "lateral_control_params", Shape{1, 2}, dtype);
  const ValueId curvatures = zoo_input(l, "prev_desired_curv", Shape{1, frames, 1}, dtype);
  const ValueId buffer = zoo_input(l, "features_buffer", Shape{1, features, 512}, dtype);
  return {buffer, desire, {traffic}, steering_vector(l, lateral, curvatures)};
}

ZooHeads in_order(ZooHeads heads, std::span<const char* const> order) {
  ZooHeads sorted;
  for (const char* name : order) {
    sorted.push_back(*std::find_if(heads.begin(), heads.end(), [&](const ZooHead& head) { return head.name == name; }));
  }
  return sorted;
}

// 0.9.7: everything at 20 Hz, halves in and out.
ZooHeads old_supercombo(Layers& l, const ZooSize& size) {
  const ValueId images = zoo_images(l, kOldImages);
  PolicyInputs inputs = old_policy_inputs(l, 100, 99, DType::f16);
  ZooHeads heads = vision_heads(l, trunk(l, images, size), *size.heads, kOldVision);
  inputs.features = append_feature(l, inputs.features, heads.back().value);
  for (ZooHead& head : policy_heads(l, std::move(inputs), *size.policy, kFivePlans)) heads.push_back(std::move(head));
  return in_order(std::move(heads), kOldOrder);
}

// 0.10.0, one network or the other.
ZooHeads old_split(Layers& l, const ZooSize& size) {
  ZooHeads heads;
  if (size.heads) {
    const ValueId features = trunk(l, zoo_images(l, kImages), size);
    heads = vision_heads(l, features, *size.heads, split_vision(102));
    heads.push_back(zoo_padding(l, "vision.pad", 2));
  } else {
    heads = policy_heads(l, old_policy_inputs(l, 25, 25, DType::f32), *size.policy, kFivePlans);
    heads.push_back(zoo_padding(l, "policy.pad", 3));
  }
  return heads;
}

// Since 0.10.1: vision, policy, or both merged into one network; merged, past features are inputs and the newest comes
// from vision.
ZooHeads split_or_merged(Layers& l, const ZooSize& size, bool merged) {
  ZooHeads heads;
  if (size.heads) {
    if (size.road) {
      const RoadFeatures road = road_trunk(l, kImages, *size.road);
      heads = vision_heads(l, road.features, *size.heads, split_vision(144), &road);
    } else {
      heads = vision_heads(l, trunk(l, zoo_images(l, kImages), size), *size.heads, split_vision(144));
    }
  }
  if (!size.policy) return heads;
  PolicyInputs inputs;
  inputs.features = zoo_input(l, "features_buffer", Shape{1, merged ? 24 : 25, 512});
  inputs.desire = zoo_input(l, "desire_pulse", Shape{1, 25, 8});
  inputs.context = {zoo_input(l, "traffic_convention", Shape{1, 2})};
  if (merged) {
    inputs.context.push_back(zoo_input(l, "action_t", Shape{1, 2}));
    inputs.features = append_feature(l, inputs.features, heads.back().value);
  }
  const ValueId desire = inputs.desire, features = inputs.features;
  // What a small policy makes of the past are the roads that it was trained on; of it the speeds are enough.
  if (size.road) inputs.features = l.node("Unsqueeze", {heads.back().value, l.ints({1})});
  for (ZooHead& head : policy_heads(l, std::move(inputs), *size.policy, kOnePlan)) heads.push_back(std::move(head));
  if (size.road) {
    const auto named = [&](const char* name) -> ValueId& {
      return std::ranges::find(heads, name, &ZooHead::name)->value;
    };
    named("plan") = follow_speed(l, named("plan"), features);
    named("plan") = follow_lane(l, named("plan"), named("lane_lines"), desire);
  }
  heads.push_back(zoo_padding(l, "policy.pad", 2));
  return heads;
}

}  // namespace

ZooHeads driving_heads(Layers& l, const ZooSize& size, ZooEra era) {
  switch (era) {
    case ZooEra::v0_9_7: return old_supercombo(l, size);
    case ZooEra::v0_10_0: return old_split(l, size);
    case ZooEra::v0_10_1: return split_or_merged(l, size, false);
    case ZooEra::mid_2026: break;
  }
  return split_or_merged(l, size, true);
}

}  // namespace sparkpilot
