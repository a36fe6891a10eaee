#include "route/contract/driver_outputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "route/contract/put_list.h"
#include "route/contract/squash.h"

namespace sparkpilot::drive {
namespace {

constexpr size_t kFaceValues = 6;  // three angles, two positions, one unused; then a log deviation for each

class Heads {
 public:
  Heads(const OutputSlices& slices, std::span<const float> raw, const std::string& model)
      : slices_(slices), raw_(raw), model_(model) {}

  std::span<const float> take(const std::string& name, size_t width) const {
    const auto found =
        std::find_if(slices_.begin(), slices_.end(), [&](const auto& item) { return item.first == name; });
    if (found == slices_.end()) fail("{}: no driver monitoring model: output_slices has no head \"{}\"", model_, name);
    const auto [begin, end] = found->second.resolve(std::ssize(raw_));
    if (end - begin != static_cast<int64_t>(width)) {
      fail("{}: head \"{}\" has {} values, expected {}", model_, name, end - begin, width);
    }
    return raw_.subspan(static_cast<size_t>(begin), width);
  }

  float probability(const std::string& name) const { return sigmoid(take(name, 1)[0]); }

 private:
  const OutputSlices& slices_;
  std::span<const float> raw_;
  const std::string& model_;
};

DriverSide side(const Heads& heads, const std::string& suffix) {
  const std::span<const float> face = heads.take("face_descs" + suffix, 2 * kFaceValues);
  DriverSide out;
  std::copy_n(face.begin(), 3, out.orientation.begin());
  std::copy_n(face.begin() + 3, 2, out.position.begin());
  for (size_t i = 0; i < 3; ++i) out.orientation_std[i] = exponential(face[kFaceValues + i]);
  for (size_t i = 0; i < 2; ++i) out.position_std[i] = exponential(face[kFaceValues + 3 + i]);
  out.face = heads.probability("face_prob" + suffix);
  out.left_eye = heads.probability("left_eye_prob" + suffix);
  out.right_eye = heads.probability("right_eye_prob" + suffix);
  out.left_blink = heads.probability("left_blink_prob" + suffix);
  out.right_blink = heads.probability("right_blink_prob" + suffix);
  out.sunglasses = heads.probability("sunglasses_prob" + suffix);
  out.phone = heads.probability("using_phone_prob" + suffix);
  return out;
}

void fill_side(cereal::DriverStateV2::DriverData::Builder out, const DriverSide& in) {
  put([&](unsigned n) { return out.initFaceOrientation(n); }, in.orientation);
  put([&](unsigned n) { return out.initFaceOrientationStd(n); }, in.orientation_std);
  put([&](unsigned n) { return out.initFacePosition(n); }, in.position);
  put([&](unsigned n) { return out.initFacePositionStd(n); }, in.position_std);
  out.setFaceProb(in.face);
  out.setLeftEyeProb(in.left_eye);
  out.setRightEyeProb(in.right_eye);
  out.setLeftBlinkProb(in.left_blink);
  out.setRightBlinkProb(in.right_blink);
  out.setSunglassesProb(in.sunglasses);
  out.setPhoneProb(in.phone);
}

}  // namespace

DriverOutputs parse_driver(const OutputSlices& slices, std::span<const float> raw, const std::string& model) {
  const Heads heads(slices, raw, model);
  return {side(heads, "_lhd"), side(heads, "_rhd"), heads.probability("wheel_on_right")};
}

void fill_driver_state(cereal::Event::Builder event, const DriverOutputs& outputs, uint32_t frame_id,
                       double execution_seconds, std::span<const float> raw) {
  event.setValid(true);
  auto state = event.initDriverStateV2();
  state.setFrameId(frame_id);
  state.setModelExecutionTime(static_cast<float>(execution_seconds));
  state.setWheelOnRightProb(outputs.wheel_on_right);
  fill_side(state.initLeftDriverData(), outputs.left);
  fill_side(state.initRightDriverData(), outputs.right);
  if (raw.empty()) return;
  auto bytes = state.initRawPredictions(static_cast<unsigned>(raw.size_bytes()));
  std::memcpy(bytes.begin(), raw.data(), raw.size_bytes());
}

}  // namespace sparkpilot::drive
