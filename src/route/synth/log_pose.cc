#include <cmath>

#include "route/synth/log_fill.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr int64_t kUnixStart = 1'750'000'000'000;  // milliseconds since 1970 at every world's first frame
constexpr double kDegrees = 180 / kPi;

void measured(cereal::LiveLocationKalman::Measurement::Builder b, const Vector3& value, double deviation) {
  auto values = b.initValue(3), deviations = b.initStd(3);
  for (unsigned i = 0; i < 3; ++i) values.set(i, value[i]), deviations.set(i, deviation);
  b.setValid(true);
}

void measured(cereal::LivePose::XYZMeasurement::Builder b, const Vector3& value, double deviation) {
  const auto spread = static_cast<float>(deviation);
  b.setX(static_cast<float>(value[0])), b.setY(static_cast<float>(value[1])), b.setZ(static_cast<float>(value[2]));
  b.setXStd(spread), b.setYStd(spread), b.setZStd(spread);
  b.setValid(true);
}

// The device's position, orientation and motion in all frames that messages use.
struct State {
  Pose pose;
  Matrix3 device_from_calib, ecef_from_calib, ned_from_calib;  // ned: north, east, down at its present position
  Vector3 ecef, velocity_ecef, velocity_ned, acceleration;
  Geodetic place;

  State(const World& world, double time) : pose(world.pose(time)), device_from_calib(rotation(world.calibration())) {
    const Matrix3 ecef_from_origin = ecef_from_ned(world.origin());
    ecef = ecef_from_geodetic(world.origin()) + multiply(ecef_from_origin, pose.position);
    place = geodetic_from_ecef(ecef);
    ecef_from_calib = multiply(ecef_from_origin, pose.ned_from_calib);
    ned_from_calib = multiply(transpose(ecef_from_ned(place)), ecef_from_calib);
    velocity_ecef = multiply(ecef_from_calib, Vector3{pose.speed, 0, 0});
    velocity_ned = multiply(ned_from_calib, Vector3{pose.speed, 0, 0});
    acceleration = {pose.acceleration, pose.speed * pose.rate[2], -pose.speed * pose.rate[1]};
  }
  Vector3 device(const Vector3& calibrated) const { return multiply(device_from_calib, calibrated); }
  Matrix3 of_device(const Matrix3& from_calib) const { return multiply(from_calib, transpose(device_from_calib)); }
};

}  // namespace

void fill_calibration(const LogContext& t, cereal::LiveCalibrationData::Builder b) {
  const Vector3& rpy = t.world.calibration();
  b.setCalStatus(cereal::LiveCalibrationData::Status::CALIBRATED);
  b.setCalCycle(0);
  b.setCalPerc(100);
  b.setValidBlocks(50);
  fill_list(b.initRpyCalib(3), rpy);
  fill_list(b.initRpyCalibSpread(3), Vector3{0.0005, 0.0005, 0.0005});
  fill_list(b.initWideFromDeviceEuler(3), Vector3{0, 0, 0});
  b.initHeight(1).set(0, static_cast<float>(kDeviceHeight));
  // View from road, as in calibrationd: no roll, and the road's y and z axes reversed.
  const Matrix3 turn =
      multiply(view_from_device(), multiply(rotation({0, rpy[1], rpy[2]}), {1, 0, 0, 0, -1, 0, 0, 0, -1}));
  auto extrinsic = b.initExtrinsicMatrix(12);
  for (unsigned row = 0; row < 3; ++row) {
    for (unsigned i = 0; i < 3; ++i) extrinsic.set(4 * row + i, static_cast<float>(turn[3 * row + i]));
    extrinsic.set(4 * row + 3, row == 1 ? static_cast<float>(kDeviceHeight) : 0.0F);
  }
}

void fill_parameters(const LogContext& t, cereal::LiveParametersData::Builder b, double time) {
  b.setValid(true);
  b.setSensorValid(true);
  b.setPosenetValid(true);
  b.setStiffnessFactor(1);
  b.setSteerRatio(static_cast<float>(t.vehicle.steer_ratio));
  const Pose pose = t.world.pose(time);
  b.setPosenetSpeed(static_cast<float>(pose.speed));
  b.setRoll(static_cast<float>(euler(pose.ned_from_calib)[0]));
  b.setStiffnessFactorStd(0.02F);
  b.setSteerRatioStd(0.05F);
  b.setAngleOffsetAverageStd(0.05F);
  b.setAngleOffsetFastStd(0.1F);
}

void fill_location(const LogContext& t, cereal::LiveLocationKalman::Builder b, double time) {
  const State at(t.world, time);
  measured(b.initPositionECEF(), at.ecef, 0.5);
  measured(b.initPositionGeodetic(), {at.place.latitude * kDegrees, at.place.longitude * kDegrees, at.place.altitude},
           0.5);
  measured(b.initVelocityECEF(), at.velocity_ecef, 0.05);
  measured(b.initVelocityNED(), at.velocity_ned, 0.05);
  measured(b.initVelocityDevice(), at.device({at.pose.speed, 0, 0}), 0.05);
  measured(b.initVelocityCalibrated(), {at.pose.speed, 0, 0}, 0.05);
  measured(b.initAccelerationDevice(), at.device(at.acceleration), 0.1);
  measured(b.initAccelerationCalibrated(), at.acceleration, 0.1);
  measured(b.initAngularVelocityDevice(), at.device(at.pose.rate), 0.005);
  measured(b.initAngularVelocityCalibrated(), at.pose.rate, 0.005);
  measured(b.initOrientationECEF(), euler(at.of_device(at.ecef_from_calib)), 0.01);
  measured(b.initCalibratedOrientationECEF(), euler(at.ecef_from_calib), 0.01);
  measured(b.initOrientationNED(), euler(at.of_device(at.ned_from_calib)), 0.01);
  measured(b.initCalibratedOrientationNED(), euler(at.ned_from_calib), 0.01);
  b.setStatus(cereal::LiveLocationKalman::Status::VALID);
  b.setUnixTimestampMillis(kUnixStart + static_cast<int64_t>(time * 1000));
  b.setTimeSinceReset(time + 60);
  b.setTimeToFirstFix(20);
}

void fill_pose(const LogContext& t, cereal::LivePose::Builder b, double time) {
  const State at(t.world, time);
  measured(b.initOrientationNED(), euler(at.of_device(at.ned_from_calib)), 0.01);
  measured(b.initVelocityDevice(), at.device({at.pose.speed, 0, 0}), 0.05);
  measured(b.initAccelerationDevice(), at.device(at.acceleration), 0.1);
  measured(b.initAngularVelocityDevice(), at.device(at.pose.rate), 0.005);
  b.setInputsOK(true);
  b.setPosenetOK(true);
  b.setSensorsOK(true);
}

void fill_gps(const LogContext& t, cereal::GpsLocationData::Builder b, double time) {
  const State at(t.world, time);
  b.setLatitude(at.place.latitude * kDegrees);
  b.setLongitude(at.place.longitude * kDegrees);
  b.setAltitude(at.place.altitude);
  b.setSpeed(static_cast<float>(at.pose.speed));
  const double bearing = arctan2(at.ned_from_calib[3], at.ned_from_calib[0]) * kDegrees;
  b.setBearingDeg(static_cast<float>(bearing < 0 ? bearing + 360 : bearing));
  fill_list(b.initVNED(3), at.velocity_ned);
  b.setUnixTimestampMillis(kUnixStart + static_cast<int64_t>(time * 1000));
  b.setHorizontalAccuracy(1.5F);
  b.setVerticalAccuracy(2.5F);
  b.setBearingAccuracyDeg(1);
  b.setSpeedAccuracy(0.2F);
  b.setSource(cereal::GpsLocationData::SensorSource::UBLOX);
  b.setHasFix(true);
  b.setSatelliteCount(14);
}

// The sensor is mounted so that its axes are the device's z, y, x, each reversed.
void fill_accelerometer(const LogContext& t, cereal::SensorEventData::Builder b, double time) {
  const State at(t.world, time);
  const Matrix3 device_from_ned = transpose(at.of_device(at.ned_from_calib));
  const Vector3 felt = at.device(at.acceleration) + multiply(device_from_ned, Vector3{0, 0, -9.81});
  b.setVersion(1), b.setSensor(1), b.setType(1);
  b.setTimestamp(static_cast<int64_t>(t.mono(time)));
  b.setSource(cereal::SensorEventData::SensorSource::LSM6DS3TRC);
  auto value = b.initAcceleration();
  fill_list(value.initV(3), Vector3{-felt[2], -felt[1], -felt[0]});
  value.setStatus(1);
}

void fill_gyroscope(const LogContext& t, cereal::SensorEventData::Builder b, double time) {
  const State at(t.world, time);
  const Vector3 rate = at.device(at.pose.rate);
  b.setVersion(2), b.setSensor(5), b.setType(16);
  b.setTimestamp(static_cast<int64_t>(t.mono(time)));
  b.setSource(cereal::SensorEventData::SensorSource::LSM6DS3TRC);
  auto value = b.initGyroUncalibrated();
  fill_list(value.initV(3), Vector3{-rate[2], -rate[1], -rate[0]});
  value.setStatus(1);
}

}  // namespace sparkpilot::drive::synth
