// Driver monitoring: an EfficientNet-like trunk on one large grey image, and small heads for either side of the car.
#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

constexpr std::array<int64_t, 7> kKernels{3, 3, 5, 3, 5, 5, 3}, kStrides{2, 2, 2, 2, 1, 2, 1};

// Expand by 1x1, a depthwise convolution, project by 1x1; a skip connection if shapes allow it.
ValueId inverted_bottleneck(Layers& l, ValueId x, int64_t out, int64_t expansion, int64_t kernel, int64_t stride) {
  const int64_t in = l.shape(x)[1], inner = in * expansion;
  ValueId y = x;
  if (expansion > 1) y = l.relu(l.conv("expand_conv", y, {.out = inner}));
  y = l.relu(l.conv("depthwise_conv", y,
                    {.out = inner, .kernel = kernel, .stride = stride, .groups = inner, .identity = true}));
  const bool skip = stride == 1 && in == out;
  y = l.conv("project_conv", y, {.out = out, .gain = skip ? 0.3 * kReluGain : kReluGain});
  return skip ? l.add(x, y) : y;
}

ValueId trunk(Layers& l, ValueId image, const MobileSize& size) {
  const Layers::Scope scope(l, "backbone");
  ValueId x = l.relu(
      l.conv("conv_stem", image, {.out = size.stem, .kernel = 8, .stride = 8, .mean = 127.5, .deviation = 73.9}));
  int index = 0;
  for (size_t stage = 0; stage < size.depths.size(); ++stage) {
    for (int block = 0; block < size.depths[stage]; ++block) {
      const Layers::Scope blocks(l, fmt::format("blocks.{}", index++));
      x = inverted_bottleneck(l, x, size.widths[stage], stage == 0 ? 1 : size.expansion, kKernels[stage],
                              block == 0 ? kStrides[stage] : 1);
    }
  }
  x = l.relu(l.conv("conv_head", x, {.out = size.features}));
  return l.node("Flatten", {l.node("GlobalAveragePool", {x})}, {{"axis", int64_t{1}}});
}

}  // namespace

ZooHeads driver_monitoring(Layers& l, const MobileSize& size) {
  const ValueId luma = l.graph().add_input("input_img", DType::u8, Shape{1, 1382400});
  const ValueId calib = l.cast(l.graph().add_input("calib", DType::f32, Shape{1, 3}), DType::f16);
  const ValueId pooled = trunk(l, l.cast(l.reshape(luma, {1, 1, 960, 1440}), DType::f16), size);
  const ValueId inner = l.relu(l.linear("fc", l.concat({pooled, calib}, 1), size.features, 2 * kReluGain));
  const ValueId features = l.linear("features", inner, 512, kReluGain);
  const ValueId shared = l.relu(l.linear("neck", inner, size.head, kReluGain));

  ZooHeads heads;
  for (const std::string side : {"lhd", "rhd"}) {
    const Layers::Scope scope(l, side);
    const ValueId x = l.residual_block("resblock", shared, size.head);
    heads.push_back({"face_descs_" + side, l.linear("face_descs", x, 12)});
    for (const char* name : {"face_prob", "left_eye_prob", "right_eye_prob", "sunglasses_prob", "left_blink_prob",
                             "right_blink_prob", "using_phone_prob"}) {
      heads.push_back({fmt::format("{}_{}", name, side), l.linear(name, x, 1)});
    }
  }
  heads.push_back({"wheel_on_right", l.linear("wheel_on_right", shared, 1)});
  heads.push_back({"features", features});
  return heads;
}

}  // namespace sparkpilot
