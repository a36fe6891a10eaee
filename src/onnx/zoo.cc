#include "onnx/zoo.h"

#include <algorithm>

#include "base/file.h"
#include "onnx/metadata.h"
#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {

constexpr FastVitSize kT12{{2, 2, 6, 2}, {64, 128, 256, 512}, 3}, kTinyFastVit{{1, 1, 1, 1}, {8, 8, 16, 32}, 2};
constexpr VitSize kVit{28, 1024, 16}, kTinyVit{2, 8, 2};
constexpr VisionHeadSize kVisionHeads{2048, 896, 512}, kTinyVisionHeads{16, 8, 8};
constexpr PolicySize kPolicy{512, 2048, 256, 512, 256, 128, 8, 4}, kTinyPolicy{16, 32, 16, 8, 16, 8, 1, 1};
// Less than a megabyte that can be trained: `make tiny-model`.
constexpr RoadSize kDemoRoad{{24, 32, 48}, 8, 32};
constexpr VisionHeadSize kDemoHeads{64, 48, 48};
constexpr PolicySize kDemoPolicy{48, 96, 32, 48, 48, 16, 1, 1};
// Before 0.10.0: five plans, hence a wide last layer, and a curvature.
constexpr VisionHeadSize kOldHeads{2048, 104, 512};
constexpr PolicySize kOldPolicy{512, 2048, 256, 512, 256, 128, 6, 4, 128}, kTinyOldPolicy{16, 16, 8, 8, 8, 8, 1, 1, 8};
constexpr MobileSize kMobile{{1, 2, 2, 3, 3, 4, 1}, {16, 24, 40, 80, 112, 192, 320}, 6, 32, 384, 128};
constexpr MobileSize kTinyMobile{{1, 1, 1, 1, 2, 1, 1}, {4, 8, 8, 12, 12, 16, 24}, 2, 8, 32, 16};

constexpr std::string_view kSplit = "openpilot v0.10.1 to early 2026", kSupercombo = "openpilot mid-2026",
                           kMonitoring = "openpilot 2024-09 to 2026-01", kOldSupercombo = "openpilot v0.9.7",
                           kOldSplit = "openpilot v0.10.0";

// How the name of the checkpoint begins.
constexpr std::string_view kStandIn = "sparkpilot-zoo/", kTrained = "sparkpilot-trained/";
constexpr const char* kCheckpoint = "model_checkpoint";

struct Model {
  ZooEntry entry;
  ZooSize size;
  ZooEra era = ZooEra::v0_10_1;
};

const Model kModels[] = {
    {{"driving_vision", "Two cameras to scene and features; convolutional, decomposed tanh-GELU.", kSplit, 23'048'808,
      810'651'648},
     {.fast_vit = kT12, .heads = kVisionHeads}},
    {{"driving_policy", "Feature history and desire to plan; one transformer block, deep heads.", kSplit, 6'976'872,
      37'731'328},
     {.policy = kPolicy}},
    {{"driving_supercombo", "Vision and policy in one.", kSupercombo, 30'026'192, 848'383'488},
     {.fast_vit = kT12, .heads = kVisionHeads, .policy = kPolicy},
     ZooEra::mid_2026},
    {{"dmonitoring_model", "Driver's face from one luma image; inverted bottlenecks.", kMonitoring, 3'530'039,
      214'329'376},
     {.mobile = kMobile}},
    {{"big_driving_supercombo", "Vision transformer and policy in one, 765 MB.", kSupercombo, 382'710'416,
      46'896'254'464, true},
     {.vit = kVit, .heads = kVisionHeads, .policy = kPolicy},
     ZooEra::mid_2026},
    {{"supercombo", "One network at 20 Hz, fp16 in and out; five plans.", kOldSupercombo, 25'084'152, 843'438'464},
     {.fast_vit = kT12, .heads = kOldHeads, .policy = kOldPolicy},
     ZooEra::v0_9_7},
    {{"driving_vision_v0.10.0", "driving_vision of the first split.", kOldSplit, 23'027'264, 810'630'144},
     {.fast_vit = kT12, .heads = kVisionHeads},
     ZooEra::v0_10_0},
    {{"driving_policy_v0.10.0", "driving_policy of the first split: five plans, a curvature.", kOldSplit, 7'865'064,
      38'615'936},
     {.policy = kOldPolicy},
     ZooEra::v0_10_0},
    {{"tiny_driving_vision", "driving_vision for tests.", kSplit, 34'396, 17'201'856},
     {.fast_vit = kTinyFastVit, .heads = kTinyVisionHeads}},
    {{"tiny_driving_policy", "driving_policy for tests.", kSplit, 42'992, 136'384}, {.policy = kTinyPolicy}},
    {{"tiny_driving_supercombo", "driving_supercombo for tests.", kSupercombo, 77'420, 17'338'272},
     {.fast_vit = kTinyFastVit, .heads = kTinyVisionHeads, .policy = kTinyPolicy},
     ZooEra::mid_2026},
    {{"demo_supercombo", "driving_supercombo to be trained.", kSupercombo, 452'792, 34'582'453},
     {.road = kDemoRoad, .heads = kDemoHeads, .policy = kDemoPolicy},
     ZooEra::mid_2026},
    {{"tiny_dmonitoring_model", "dmonitoring_model for tests.", kMonitoring, 28'623, 12'761'360},
     {.mobile = kTinyMobile}},
    {{"tiny_big_driving_supercombo", "big_driving_supercombo for tests.", kSupercombo, 111'464, 7'163'424},
     {.vit = kTinyVit, .heads = kTinyVisionHeads, .policy = kTinyPolicy},
     ZooEra::mid_2026},
    {{"tiny_supercombo", "supercombo for tests.", kOldSupercombo, 102'244, 17'354'600},
     {.fast_vit = kTinyFastVit, .heads = kTinyVisionHeads, .policy = kTinyOldPolicy},
     ZooEra::v0_9_7},
    {{"tiny_driving_vision_v0.10.0", "driving_vision_v0.10.0 for tests.", kOldSplit, 34'020, 17'201'520},
     {.fast_vit = kTinyFastVit, .heads = kTinyVisionHeads},
     ZooEra::v0_10_0},
    {{"tiny_driving_policy_v0.10.0", "driving_policy_v0.10.0 for tests.", kOldSplit, 63'240, 148'112},
     {.policy = kTinyOldPolicy},
     ZooEra::v0_10_0},
};

const Model* find_model(std::string_view name) {
  for (const Model& model : kModels) {
    if (model.entry.name == name) return &model;
  }
  return nullptr;
}

// As openpilot's exporter writes them: the heads in order, then `pad`, counted from the end, even if it is empty.
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
  const ZooSize& size = model->size;
  const ZooHeads heads =
      size.mobile ? driver_monitoring(layers, *size.mobile) : driving_heads(layers, size, model->era);
  std::vector<ValueId> parts;
  for (const ZooHead& head : heads) parts.push_back(head.value);
  const ValueId output = layers.concat(parts, 1);
  const bool halves = model->era == ZooEra::v0_9_7;  // whose inputs and output are fp16, too
  graph.add_output(halves ? output : layers.cast(output, DType::f32), "outputs");
  graph.metadata[std::string(kOutputSlicesKey)] = write_output_slices(slices_of(layers, heads, !size.mobile));
  graph.metadata[kCheckpoint] = fmt::format("{}{}/{}", kStandIn, name, layers.seed());
}

bool is_stand_in(const std::filesystem::path& file) {
  constexpr int64_t kHead = 1 << 16;  // the metadata is stored before the graph
  const InputFile in(file);
  std::string head(static_cast<size_t>(std::min(kHead, in.size())), '\0');
  in.read_at(0, std::as_writable_bytes(std::span(head.data(), head.size())));
  return head.find(kStandIn) != std::string::npos;
}

void mark_as_trained(Graph& graph) {
  const auto found = graph.metadata.find(kCheckpoint);
  if (found == graph.metadata.end() || !found->second.starts_with(kStandIn)) return;
  found->second.replace(0, kStandIn.size(), kTrained);
}

Graph build_zoo_model(std::string_view name, uint64_t seed) {
  Graph graph;
  Layers layers(graph, seed);
  build_zoo_model(layers, name);
  return graph;
}

}  // namespace sparkpilot
