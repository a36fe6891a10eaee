// Vision: a convolutional (FastViT-T12) or a transformer trunk on both cameras' images, and the heads of vision.
#include <algorithm>

#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

// Mean and deviation of a uniformly random byte; close enough for pictures.
constexpr double kPixelMean = 127.5, kPixelDeviation = 73.9;
// Weight of a residual branch. Trained networks end near it; it keeps the signal's size through any depth.
constexpr double kLayerScale = 0.2;

ValueId stem(Layers& l, ValueId images, int64_t width) {
  const Layers::Scope scope(l, "stem");
  ValueId x = l.gelu(
      l.conv("0", images, {.out = width, .kernel = 3, .stride = 2, .mean = kPixelMean, .deviation = kPixelDeviation}));
  x = l.gelu(l.conv("1", x, {.out = width, .kernel = 3, .stride = 2, .groups = width, .gain = kGeluGain}));
  return l.gelu(l.conv("2", x, {.out = width, .gain = kGeluGain}));
}

// Halves the size, with `width` output channels.
ValueId downsample(Layers& l, ValueId x, int64_t width) {
  const Layers::Scope scope(l, "downsample");
  const int64_t in = l.shape(x)[1];
  x = l.conv("proj.0", x, {.out = width, .kernel = 7, .stride = 2, .groups = in, .identity = true});
  return l.gelu(l.conv("proj.1", x, {.out = width, .gain = kGeluGain}));
}

ValueId mixer_block(Layers& l, ValueId x, int64_t expansion) {
  const int64_t width = l.shape(x)[1];
  const ValueId mixed =
      l.conv("token_mixer", x, {.out = width, .kernel = 3, .groups = width, .gain = 0.5, .identity = true});
  ValueId inner = l.conv("mlp.conv", mixed, {.out = width, .kernel = 7, .groups = width});
  inner = l.gelu(l.conv("mlp.fc1", inner, {.out = width * expansion}));
  inner = l.conv("mlp.fc2", inner, {.out = width, .gain = kGeluGain});
  return l.add(mixed, l.layer_scale("layer_scale.gamma", inner, Shape{width, 1, 1}, kLayerScale));
}

ValueId transformer_block(Layers& l, ValueId x, int64_t heads) {
  const int64_t width = l.shape(x)[2];
  const ValueId attended = l.attention("attn", l.layer_norm("norm1", x), heads);
  x = l.add(x, l.layer_scale("ls1.gamma", attended, Shape{width}, kLayerScale));
  const ValueId inner = l.gelu(l.linear_tokens("mlp.fc1", l.layer_norm("norm2", x), 4 * width));
  const ValueId out = l.linear_tokens("mlp.fc2", inner, width, kGeluGain);
  return l.add(x, l.layer_scale("ls2.gamma", out, Shape{width}, kLayerScale));
}

}  // namespace

ValueId zoo_images(Layers& l, const ZooImages& images) {
  const Shape shape{1, 12, 128, 256};
  const ValueId road = l.graph().add_input(images.road, images.dtype, shape);
  const ValueId wide = l.graph().add_input(images.wide, images.dtype, shape);
  const ValueId both = l.concat({road, wide}, 1);
  return images.dtype == DType::f16 ? both : l.cast(both, DType::f16);
}

ValueId fast_vit(Layers& l, ValueId images, const FastVitSize& size) {
  const Layers::Scope scope(l, "vision");
  ValueId x = stem(l, images, size.widths[0]);
  for (size_t stage = 0; stage < size.depths.size(); ++stage) {
    const Layers::Scope stages(l, fmt::format("stages.{}", stage));
    if (stage > 0) x = downsample(l, x, size.widths[stage]);
    for (int block = 0; block < size.depths[stage]; ++block) {
      const Layers::Scope blocks(l, fmt::format("blocks.{}", block));
      x = mixer_block(l, x, size.expansion);
    }
  }
  const Layers::Scope last(l, "final_conv");
  const int64_t width = l.shape(x)[1];
  x = l.conv("conv", x, {.out = 2 * width, .kernel = 3, .groups = width});
  x = l.gelu(l.squeeze_excite("se", x, std::max<int64_t>(width / 8, 4)));
  return l.node("Flatten", {l.node("GlobalAveragePool", {x})}, {{"axis", int64_t{1}}});
}

ValueId vit(Layers& l, ValueId images, const VitSize& size) {
  const Layers::Scope scope(l, "vision");
  ValueId x = l.conv("patch_embed", images,
                     {.out = size.width, .kernel = 16, .stride = 16, .mean = kPixelMean, .deviation = kPixelDeviation});
  const int64_t tokens = l.shape(x)[2] * l.shape(x)[3];
  x = l.transpose(l.reshape(x, {1, size.width, tokens}), {0, 2, 1});
  x = l.add(x, l.uniform("pos_embed", Shape{1, tokens, size.width}, 0.5));
  for (int block = 0; block < size.depth; ++block) {
    const Layers::Scope blocks(l, fmt::format("blocks.{}", block));
    x = transformer_block(l, x, size.heads);
  }
  const Attributes over_tokens{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
  return l.node("ReduceMean", {l.layer_norm("norm", x)}, over_tokens);
}

ZooHeads vision_heads(Layers& l, ValueId features, const VisionHeadSize& size, std::span<const ZooHeadWidth> wanted,
                      const RoadFeatures* road) {
  const Layers::Scope scope(l, "heads");
  // Means over the image leave a weak signal, hence the gain.
  ValueId x = l.relu(l.linear("fc", features, size.features, 2 * kReluGain));
  for (const char* block : {"resblock.0", "resblock.1"}) x = l.residual_block(block, x, size.bottleneck);
  const ValueId summary = l.relu(l.linear("summary", x, size.summary, kReluGain));
  ZooHeads heads;
  for (const auto& [name, width] : wanted) {
    const Layers::Scope head(l, name);
    const ValueId out = l.linear("out", l.residual_block("resblock", summary, size.summary), width);
    heads.push_back({name, out});
  }
  ValueId hidden;
  if (road) {
    ValueId& pose = std::ranges::find(heads, "pose", &ZooHead::name)->value;
    pose = add_speed(l, pose, road->speed);
    hidden = remember_speed(l, summary, pose, road->there);
  } else {
    hidden = l.l2_normalize(l.linear("hidden_state", summary, 512));
  }
  heads.push_back({"hidden_state", hidden});
  return heads;
}

}  // namespace sparkpilot
