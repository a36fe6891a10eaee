#include "train/key_frames.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "drive/overlay_frame.h"
#include "route/draw/overlay.h"
#include "route/video/jpeg.h"
#include "train/trainer.h"

namespace sparkpilot::train {
namespace {

constexpr int kQuality = 5;  // of JPEG
constexpr int kScale = 2;    // the overlay's lines are too coarse for 512 pixels

drive::YuvImage enlarged(const drive::YuvImage& small) {
  drive::YuvImage out(kScale * small.width(), kScale * small.height());
  const auto plane = [](const uint8_t* from, uint8_t* to, int width, int height) {
    for (int y = 0; y < kScale * height; ++y) {
      for (int x = 0; x < kScale * width; ++x) *to++ = from[y / kScale * width + x / kScale];
    }
  };
  const drive::YuvView in = small.view();
  plane(in.y, out.y(), in.width, in.height);
  plane(in.u, out.u(), in.width / 2, in.height / 2);
  plane(in.v, out.v(), in.width / 2, in.height / 2);
  return out;
}

}  // namespace

KeyFrames::KeyFrames(const Dataset& data, const Student& student, int64_t count)
    : data_(data), outputs_(student.outputs()) {
  const int64_t shown = std::min(count, data.size());
  for (int64_t i = 0; i < shown; ++i) chosen_.push_back((2 * i + 1) * data.size() / (2 * shown));
  for (const Student::Output& output : outputs_) {
    const Field& field = data.fields()[place_of(data.fields(), output.target)];
    parsers_.emplace_back(output.slices, field.shape[0], output.role);
  }
  drawn_.resize(chosen_.size());
}

// The newer of the road camera's two.
drive::YuvImage KeyFrames::picture_of(const std::vector<Tensor>& sample) const {
  const auto& inputs = data_.info().inputs;
  const auto road = std::ranges::find(inputs, InputKind::road, &DatasetInput::kind);
  if (road == inputs.end()) fail("the samples have no picture of the road camera");
  const size_t place = place_of(data_.fields(), road->name);
  std::vector<uint8_t> frame(drive::kFrameBytes);
  for (size_t i = 0; i < frame.size(); ++i) {
    frame[i] = static_cast<uint8_t>(
        load_element(road->dtype, sample[place].raw(), drive::kFrameBytes + static_cast<int64_t>(i)));
  }
  drive::YuvImage picture;
  unpack_frame(frame, picture);
  return enlarged(picture);
}

void KeyFrames::draw(TrainingProgram& program, bool average, const std::string& when, const std::string& target) {
  const auto fields = data_.fields();
  drive::Overlay overlay({.width = kScale * drive::kModelWidth,
                          .height = kScale * drive::kModelHeight,
                          .ours = "model",
                          .recorded = target});
  drive::Matrix3 intrinsics = drive::model_intrinsics();
  for (size_t i = 0; i < 6; ++i) intrinsics[i] *= kScale;
  evaluate_samples(program, data_, chosen_, average, [&](size_t place, int64_t entry) {
    const auto sample = sample_of(data_, chosen_[place]);
    drive::ModelOutputs model, wanted;
    std::set<std::string> heads;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      parsers_[i].parse(output_of(program, outputs_[i].role, entry, average), model);
      parsers_[i].parse(sample[place_of(fields, outputs_[i].target)].data<float>(), wanted);
      heads.insert(parsers_[i].heads().begin(), parsers_[i].heads().end());
    }
    const drive::ModelRecord ours = drive::record_of(model, heads), theirs = drive::record_of(wanted, heads);
    const int64_t frame = data_.frame_id(chosen_[place]);
    drive::YuvImage picture = picture_of(sample);
    overlay.draw({.intrinsics = intrinsics,
                  .ours = &ours,
                  .recorded = &theirs,
                  .v_ego = static_cast<double>(sample.back().data<float>()[0]),
                  .frame_id = frame},
                 picture);
    drawn_[place].push_back({fmt::format("{}, frame {}: {}", data_.clip_of(chosen_[place]).name, frame, when),
                             drive::encode_jpeg(picture.view(), kQuality)});
  });
}

std::vector<drive::PagePicture> KeyFrames::pictures() const {
  std::vector<drive::PagePicture> out;
  for (const auto& of_one : drawn_) out.insert(out.end(), of_one.begin(), of_one.end());
  return out;
}

}  // namespace sparkpilot::train
