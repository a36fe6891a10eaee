#include "drive/driver_model.h"

#include <array>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot::drive {

DriverModel::DriverModel(const std::filesystem::path& file, const SessionOptions& options) : net_(file, options) {
  const TensorInfo* image = net_.find({"input_img"});
  const TensorInfo* calibration = net_.find({"calib"});
  const bool fits = image && calibration && image->shape && image->shape->elements() == kDriverFrameBytes &&
                    calibration->shape && calibration->shape->elements() == 3;
  if (!fits) {
    fail(
        "{}: not a driver monitoring model of 2024 to 2026: its inputs are {}; expected input_img (1,{}) and calib "
        "(1,3)",
        net_.file(), net_.input_list(), kDriverFrameBytes);
  }
  parse_driver(net_.slices(), net_.run(), net_.file());  // report missing heads before the first frame
}

void DriverModel::step(std::span<const uint8_t> luma, const Vector3& rpy) {
  const std::array<float, 3> calibration{static_cast<float>(rpy[0]), static_cast<float>(rpy[1]),
                                         static_cast<float>(rpy[2])};
  net_.set(*net_.find({"input_img"}), luma);
  net_.set(*net_.find({"calib"}), std::span<const float>(calibration));
  const int64_t start = now_ns();
  const std::span<const float> out = net_.run();
  ms_ = static_cast<double>(now_ns() - start) * 1e-6;
  raw_.assign(out.begin(), out.end());
  outputs_ = parse_driver(net_.slices(), raw_, net_.file());
}

}  // namespace sparkpilot::drive
