#include "onnx/zoo.h"

#include <optional>

#include "onnx/metadata.h"
#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

struct ModelSize {
  std::optional<FastVitSize> fast_vit = {};
  std::optional<VitSize> vit = {};
  std::optional<VisionHeadSize> heads = {};
  std::optional<PolicySize> policy = {};
  std::optional<MobileSize> mobile = {};
};

constexpr FastVitSize kT12{{2, 2, 6, 2}, {64, 128, 256, 512}, 3}, kTinyFastVit{{1, 1, 1, 1}, {8, 8, 16, 32}, 2};
constexpr VitSize kVit{28, 1024, 16}, kTinyVit{2, 8, 2};
constexpr VisionHeadSize kVisionHeads{2048, 896, 512}, kTinyVisionHeads{16, 8, 8};
constexpr PolicySize kPolicy{512, 2048, 256, 512, 256, 128, 8, 4}, kTinyPolicy{16, 32, 16, 8, 16, 8, 1, 1};
constexpr MobileSize kMobile{{1, 2, 2, 3, 3, 4, 1}, {16, 24, 40, 80, 112, 192, 320}, 6, 32, 384, 128};
constexpr MobileSize kTinyMobile{{1, 1, 1, 1, 2, 1, 1}, {4, 8, 8, 12, 12, 16, 24}, 2, 8, 32, 16};

constexpr std::string_view kSplit = "openpilot v0.10.1 to early 2026", kSupercombo = "openpilot mid-2026",
                           kMonitoring = "openpilot 2024-09 to 2026-01";

struct Model {
  ZooEntry entry;
  ModelSize size;
};

const Model kModels[] = {
    {{"driving_vision", "Two cameras to scene and features; convolutional, decomposed tanh-GELU.", kSplit, 23'048'808,
      810'651'648},
     {.fast_vit = kT12, .heads = kVisionHeads}},
    {{"driving_policy", "Feature history and desire to plan; one transformer block, deep heads.", kSplit, 6'976'872,
      37'731'328},
     {.policy = kPolicy}},
    {{"driving_supercombo", "Vision and policy in one.", kSupercombo, 30'026'192, 848'383'488},
     {.fast_vit = kT12, .heads = kVisionHeads, .policy = kPolicy}},
    {{"dmonitoring_model", "Driver's face from one luma image; inverted bottlenecks.", kMonitoring, 3'530'039,
      214'329'376},
     {.mobile = kMobile}},
    {{"big_driving_supercombo", "Vision transformer and policy in one, 765 MB.", kSupercombo, 382'710'416,
      46'896'254'464, true},
     {.vit = kVit, .heads = kVisionHeads, .policy = kPolicy}},
    {{"tiny_driving_vision", "driving_vision for tests.", kSplit, 34'396, 17'201'856},
     {.fast_vit = kTinyFastVit, .heads = kTinyVisionHeads}},
    {{"tiny_driving_policy", "driving_policy for tests.", kSplit, 42'992, 136'384}, {.policy = kTinyPolicy}},
    {{"tiny_driving_supercombo", "driving_supercombo for tests.", kSupercombo, 77'420, 17'338'272},
     {.fast_vit = kTinyFastVit, .heads = kTinyVisionHeads, .policy = kTinyPolicy}},
    {{"tiny_dmonitoring_model", "dmonitoring_model for tests.", kMonitoring, 28'623, 12'761'360},
     {.mobile = kTinyMobile}},
    {{"tiny_big_driving_supercombo", "big_driving_supercombo for tests.", kSupercombo, 111'464, 7'163'424},
     {.vit = kTinyVit, .heads = kTinyVisionHeads, .policy = kTinyPolicy}},
};

const Model* find_model(std::string_view name) {
  for (const Model& model : kModels) {
    if (model.entry.name == name) return &model;
  }
  return nullptr;
}

ZooHeads heads_of_images(Layers& l, const ModelSize& size) {
  const ValueId images = zoo_images(l);
  const ValueId features = size.vit ? vit(l, images, *size.vit) : fast_vit(l, images, *size.fast_vit);
  return vision_heads(l, features, *size.heads);
}

// Features of the past come in; the current ones are the vision's own where it is in the same model.
ZooHeads heads_of_policy(Layers& l, const PolicySize& size, std::optional<ValueId> hidden_state) {
  const int64_t past = hidden_state ? 24 : 25;
  ValueId buffer = zoo_input(l, "features_buffer", Shape{1, past, 512});
  const ValueId desire = zoo_input(l, "desire_pulse", Shape{1, 25, 8});
  std::vector<ValueId> context{zoo_input(l, "traffic_convention", Shape{1, 2})};
  if (hidden_state) {
    context.push_back(zoo_input(l, "action_t", Shape{1, 2}));
    buffer = l.concat({buffer, l.node("Unsqueeze", {*hidden_state, l.ints({1})})}, 1);
  }
  return policy_heads(l, buffer, desire, std::move(context), size);
}

ZooHeads build_heads(Layers& l, const ModelSize& size) {
  if (size.mobile) return driver_monitoring(l, *size.mobile);
  ZooHeads heads;
  if (size.heads) heads = heads_of_images(l, size);
  if (size.policy) {
    const std::optional<ValueId> hidden = heads.empty() ? std::nullopt : std::optional(heads.back().value);
    for (ZooHead& head : heads_of_policy(l, *size.policy, hidden)) heads.push_back(std::move(head));
  }
  return heads;
}

// As openpilot's exporter writes them: the heads in order, and `pad` from the end, even where it is empty.
OutputSlices slices_of(const Layers& l, const ZooHeads& heads, bool padded) {
  OutputSlices slices;
  int64_t at = 0, pad = 0;
  for (const ZooHead& head : heads) {
    const int64_t width = l.shape(head.value)[1];
    if (head.name == "pad") pad = width;
    else slices.emplace_back(head.name, OutputSlice{at, at + width, {}});
    at += width;
  }
  if (padded) slices.emplace_back("pad", OutputSlice{-pad, {}, {}});
  return slices;
}

}  // namespace

std::span<const ZooEntry> zoo() {
  static const std::vector<ZooEntry> entries = [] {
    std::vector<ZooEntry> all;
    for (const Model& model : kModels) all.push_back(model.entry);
    return all;
  }();
  return entries;
}

const ZooEntry* find_zoo_entry(std::string_view name) {
  const Model* model = find_model(name);
  return model ? &model->entry : nullptr;
}

void build_zoo_model(Layers& layers, std::string_view name) {
  const Model* model = find_model(name);
  if (!model) {
    std::string names;
    for (const Model& known : kModels) names += fmt::format("{}{}", names.empty() ? "" : ", ", known.entry.name);
    fail("zoo: no model named \"{}\"; there are {}", name, names);
  }
  Graph& graph = layers.graph();
  graph.name = std::string(name);
  graph.opsets[""] = Layers::kOpset;
  const ZooHeads heads = build_heads(layers, model->size);
  std::vector<ValueId> parts;
  for (const ZooHead& head : heads) parts.push_back(head.value);
  graph.add_output(layers.cast(layers.concat(parts, 1), DType::f32), "outputs");
  graph.metadata[std::string(kOutputSlicesKey)] = write_output_slices(slices_of(layers, heads, !model->size.mobile));
  graph.metadata["model_checkpoint"] = fmt::format("sparkpilot-zoo/{}/{}", name, layers.seed());
}

Graph build_zoo_model(std::string_view name, uint64_t seed) {
  Graph graph;
  Layers layers(graph, seed);
  build_zoo_model(layers, name);
  return graph;
}

}  // namespace sparkpilot
