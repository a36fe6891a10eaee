// openpilot's driver monitoring model on a driver camera's frames.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "drive/network.h"
#include "route/contract/camera.h"
#include "route/contract/driver_outputs.h"
#include "route/contract/frame.h"

namespace sparkpilot::drive {

inline constexpr const char* kDriverMonitoring = "driver monitoring";  // its role, as the driving networks have theirs

// One thread at a time.
class DriverModel {
 public:
  // Fails (user) if the file is not a driver monitoring model of 2024 to 2026: input_img of 1440 x 960 luma and calib.
  DriverModel(const std::filesystem::path& file, const SessionOptions& options);

  // `luma`: kDriverFrameBytes, as prepare_driver_frame makes them; `rpy`: liveCalibration's.
  void step(std::span<const uint8_t> luma, const Vector3& rpy);
  const DriverOutputs& outputs() const { return outputs_; }
  std::span<const float> raw() const { return raw_; }
  double milliseconds() const { return ms_; }
  Network& network() { return net_; }

 private:
  Network net_;
  DriverOutputs outputs_;
  std::vector<float> raw_;
  double ms_ = 0;
};

}  // namespace sparkpilot::drive
