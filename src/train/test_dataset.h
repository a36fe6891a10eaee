// For tests: a data set of a few rows, without a model.
#pragma once

#include <cmath>

#include "train/dataset_clip.h"

namespace sparkpilot::train {

// Of two networks, era C, with the smallest outputs that a data set may have.
inline DatasetInfo small_info(Source source = Source::routes) {
  DatasetInfo info;
  info.source = source;
  info.teacher = true;
  info.contract.era = 'C';
  info.inputs = {{"vision", "img", InputKind::road, DType::u8, Shape{12, 128, 256}},
                 {"vision", "big_img", InputKind::wide, DType::f32, Shape{12, 128, 256}},
                 {"policy", "desire_pulse", InputKind::desire, DType::f32, Shape{25, 8}},
                 {"policy", "features_buffer", InputKind::features, DType::f32, Shape{25, 512}},
                 {"policy", "traffic_convention", InputKind::traffic, DType::f32, Shape{2}}};
  info.networks = {{"vision", "v.onnx", "00000000000000aa", 513, {{"hidden_state", 1, 513}}},
                   {"policy", "p.onnx", "00000000000000bb", 3, {{"other", 0, 3}}}};
  info.options = "a test";
  info.routes = {{"dongle|log", false}, {"other", true}};
  return info;
}

// Values that tell which frame they are of.
inline Step small_step(int64_t frame) {
  Step step;
  step.frame_id = frame;
  step.time = 1000 + 50 * frame;
  step.speed = 10 + static_cast<float>(frame);
  step.features.assign(drive::kFeatures, static_cast<float>(frame) + 0.5F);
  step.pictures = std::make_shared<std::vector<uint8_t>>(size_t{kCameras} * drive::kFrameBytes);
  for (size_t i = 0; i < step.pictures->size(); ++i)
    (*step.pictures)[i] = static_cast<uint8_t>(7 * frame + static_cast<int64_t>(i >= drive::kFrameBytes) + 1);
  return step;
}

inline Targets small_targets(const DatasetInfo& info, int64_t frame) {
  Targets targets;
  for (const DatasetNetwork& network : info.networks)
    targets.teacher.emplace_back(static_cast<size_t>(network.width), static_cast<float>(frame));
  if (info.source == Source::synthetic) targets.labels = targets.teacher;
  targets.plan.fill(static_cast<float>(frame));
  targets.valid[0] = 1;
  return targets;
}

// A clip of these frames, every one a sample.
inline ClipCounts write_small_clip(const std::filesystem::path& folder, const DatasetInfo& info, int64_t frames,
                                   const std::string& clip = "log--0", const std::string& route = "dongle|log") {
  ClipWriter writer(info);
  writer.begin(folder, clip, route);
  for (int64_t i = 0; i < frames; ++i) {
    const Targets targets = small_targets(info, i);
    writer.add(small_step(i), &targets);
  }
  return writer.commit();
}

// One sample's fields.
template <typename Samples>
std::vector<std::vector<std::byte>> read_sample(const Samples& data, int64_t index) {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<std::byte*> to;
  for (const auto& field : data.fields())
    blocks.emplace_back(static_cast<size_t>(storage_bytes(field.dtype, field.shape.elements())));
  for (auto& block : blocks) to.push_back(block.data());
  data.read(index, to);
  return blocks;
}

// A block of u8 or f32 as floats.
template <typename Field>
std::vector<float> as_floats(const std::vector<std::byte>& block, const Field& field) {
  std::vector<float> out;
  for (int64_t i = 0; i < field.shape.elements(); ++i)
    out.push_back(static_cast<float>(load_element(field.dtype, block.data(), i)));
  return out;
}

}  // namespace sparkpilot::train
