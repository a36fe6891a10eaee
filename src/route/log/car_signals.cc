#include "route/log/car_signals.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "route/log/reader.h"

namespace sparkpilot::drive {
namespace {

using Kind = cereal::Event::Which;

constexpr double kRadians = std::numbers::pi / 180;
constexpr double kFastest = 120, kFastestTurn = 5;  // m/s, rad/s
constexpr double kCameraToBumper = 1.52;            // m, as openpilot has it for every car

bool within(double value, double bound) { return std::abs(value) <= bound; }  // false for NaN

std::optional<double> third(cereal::LiveLocationKalman::Measurement::Reader m) {
  const auto values = m.getValue();
  if (!m.getValid() || values.size() < 3 || !within(values[2], kFastestTurn)) return {};
  return values[2];
}

CommandSample command_of(cereal::CarControl::Actuators::Reader in) {
  return {in.getTorque(), in.getSteeringAngleDeg() * kRadians};
}
bool sane(const CommandSample& c) { return within(c.torque, 10) && within(c.wheel, 50); }

// The model's most probable car ahead, which it sees from the camera.
LeadSample lead_of(cereal::ModelDataV2::Reader in) {
  const auto leads = in.getLeadsV3();
  if (leads.size() == 0 || !(leads[0].getProb() > 0.5F)) return {};
  const auto x = leads[0].getX(), v = leads[0].getV();
  if (x.size() == 0 || v.size() == 0) return {};
  return {true, x[0] - kCameraToBumper, v[0]};
}
bool sane(const LeadSample& lead) { return within(lead.gap, 1000) && within(lead.speed, kFastest); }

// A number of a car, if it may be one.
bool take_number(double value, double low, double high, double& out) {
  if (!(value >= low && value <= high)) return false;
  out = value;
  return true;
}

std::optional<CarFacts> facts_of(cereal::CarParams::Reader in) {
  CarFacts car;
  car.fingerprint = in.getCarFingerprint().cStr();
  const bool known =
      take_number(in.getMass(), 100, 60000, car.mass) && take_number(in.getRotationalInertia(), 10, 1e6, car.inertia) &&
      take_number(in.getWheelbase(), 0.5, 15, car.wheelbase) &&
      take_number(in.getCenterToFront(), 0.05 * car.wheelbase, 0.95 * car.wheelbase, car.center_to_front) &&
      take_number(in.getTireStiffnessFront(), 1e3, 1e7, car.stiffness_front) &&
      take_number(in.getTireStiffnessRear(), 1e3, 1e7, car.stiffness_rear) &&
      take_number(in.getSteerRatio(), 1, 60, car.steer_ratio) &&
      take_number(in.getSteerRatioRear(), -0.5, 0.5, car.steer_ratio_rear);
  if (!known) return {};
  take_number(in.getSteerActuatorDelay(), 0, 2, car.steer_delay);
  using Control = cereal::CarParams::SteerControlType;
  car.control = in.getSteerControlType() == Control::ANGLE       ? SteerControl::angle
                : in.getSteerControlType() == Control::CURVATURE ? SteerControl::curvature
                                                                 : SteerControl::torque;
  if (in.getLateralTuning().isTorque()) {
    const auto torque = in.getLateralTuning().getTorque();
    double value = 0;
    if (take_number(torque.getLatAccelFactor(), 0.1, 20, value)) car.accel_factor = value;
    if (take_number(torque.getFriction(), 0, 2, value)) car.friction = value;
  }
  return car;
}

}  // namespace

struct CarSignalsReader::Impl {
  CarSignals out;
  // The same from several kinds of events: the best that there is, is taken in the end.
  Samples<double> yaw_pose, yaw_location, yaw_gyroscope, yaw_car;
  Samples<CommandSample> output, output_older, requested;
  Samples<bool> enabled_older, changes_older;
  Samples<LeadSample> lead_radar, lead_model;
  bool yaw_car_said = false, output_older_said = false;

  void motion(uint64_t time, bool valid, cereal::CarState::Reader in) {
    const MotionSample sample{in.getVEgo(),
                              in.getAEgo(),
                              in.getSteeringAngleDeg() * kRadians,
                              in.getSteeringPressed(),
                              in.getGasPressed() || in.getBrakePressed(),
                              in.getStandstill(),
                              valid && in.getGearShifter() != cereal::CarState::GearShifter::REVERSE};
    if (!within(sample.speed, kFastest) || !within(sample.acceleration, 50) || !within(sample.wheel, 50)) return;
    out.motion.add(time, sample);
    if (!within(in.getYawRate(), kFastestTurn)) return;
    yaw_car.add(time, in.getYawRate());
    yaw_car_said |= in.getYawRate() != 0;  // most cars do not say it
  }

  void control(uint64_t time, cereal::CarControl::Reader in) {
    out.active.add(time, in.getLatActive() || in.getActiveDEPRECATED());
    const CommandSample asked = command_of(in.getActuators()), given = command_of(in.getActuatorsOutputDEPRECATED());
    if (sane(asked)) requested.add(time, asked);
    if (sane(given)) output_older.add(time, given);
    output_older_said |= given.torque != 0 || given.wheel != 0;
  }

  void parameters(uint64_t time, cereal::LiveParametersData::Reader in) {
    const ParameterSample sample{in.getRoll(), in.getAngleOffsetDeg() * kRadians, in.getSteerRatio(),
                                 in.getStiffnessFactor()};
    if (in.getValid() && within(sample.roll, 0.35) && within(sample.angle_offset, 1) && sample.steer_ratio > 0 &&
        within(sample.steer_ratio, 60) && sample.stiffness > 0 && within(sample.stiffness, 20)) {
      out.parameters.add(time, sample);
    }
  }

  void take(const cereal::Event::Reader& event) {
    const uint64_t time = event.getLogMonoTime();
    switch (event.which()) {
      case Kind::CAR_STATE: return motion(time, event.getValid(), event.getCarState());
      case Kind::CAR_CONTROL: return control(time, event.getCarControl());
      case Kind::CAR_OUTPUT: {
        const CommandSample sample = command_of(event.getCarOutput().getActuatorsOutput());
        if (sane(sample)) output.add(time, sample);
        return;
      }
      case Kind::LIVE_POSE: {
        const auto rate = event.getLivePose().getAngularVelocityDevice();
        if (rate.getValid() && within(rate.getZ(), kFastestTurn)) yaw_pose.add(time, -rate.getZ());
        return;
      }
      case Kind::LIVE_LOCATION_KALMAN: {
        const auto location = event.getLiveLocationKalman();
        std::optional<double> rate = third(location.getAngularVelocityCalibrated());
        if (!rate) rate = third(location.getAngularVelocityDevice());
        if (rate) yaw_location.add(time, -*rate);
        return;
      }
      case Kind::GYROSCOPE: {
        // The sensor's axes are the device's z, y, x, each reversed.
        const auto gyroscope = event.getGyroscope();
        if (!gyroscope.isGyroUncalibrated() || gyroscope.getGyroUncalibrated().getV().size() < 3) return;
        const double rate = gyroscope.getGyroUncalibrated().getV()[0];
        if (within(rate, kFastestTurn)) yaw_gyroscope.add(time, rate);
        return;
      }
      case Kind::LIVE_PARAMETERS: return parameters(time, event.getLiveParameters());
      case Kind::LIVE_TORQUE_PARAMETERS: {
        const auto in = event.getLiveTorqueParameters();
        const double factor = in.getLatAccelFactorFiltered(), friction = in.getFrictionCoefficientFiltered();
        if (in.getLiveValid() && factor > 0 && within(factor, 20)) out.live_accel_factor = factor;
        if (in.getLiveValid() && friction >= 0 && within(friction, 2)) out.live_friction = friction;
        return;
      }
      case Kind::RADAR_STATE: {
        const auto lead = event.getRadarState().getLeadOne();
        const LeadSample sample{lead.getStatus(), lead.getDRel(), lead.getVLead()};
        if (sane(sample)) lead_radar.add(time, sample);
        return;
      }
      case Kind::MODEL_V2: {
        using State = cereal::LaneChangeState;
        const State state = event.getModelV2().getMeta().getLaneChangeState();
        const LeadSample sample = lead_of(event.getModelV2());
        if (sane(sample)) lead_model.add(time, sample);
        return out.lane_change.add(time, state == State::LANE_CHANGE_STARTING || state == State::LANE_CHANGE_FINISHING);
      }
      case Kind::LATERAL_PLAN_D_E_P_R_E_C_A_T_E_D: {
        using State = cereal::LaneChangeState;
        const State state = event.getLateralPlanDEPRECATED().getLaneChangeState();
        return changes_older.add(time, state == State::LANE_CHANGE_STARTING || state == State::LANE_CHANGE_FINISHING);
      }
      case Kind::SELFDRIVE_STATE: return out.enabled.add(time, event.getSelfdriveState().getEnabled());
      case Kind::CONTROLS_STATE: return enabled_older.add(time, event.getControlsState().getEnabled());
      case Kind::CAR_PARAMS:
        if (auto car = facts_of(event.getCarParams())) out.car = std::move(car);
        return;
      default: return;
    }
  }
};

CarSignalsReader::CarSignalsReader() : impl_(std::make_unique<Impl>()) {}
CarSignalsReader::~CarSignalsReader() = default;

void CarSignalsReader::add(LogReader& log, const std::function<void(double)>& progress, int64_t events) {
  while ((events == 0 || log.events() < events) && log.next()) {
    if (log.known() && !read_fields([&] { impl_->take(log.event()); })) ++impl_->out.unreadable;
    if (progress && log.events() % 4096 == 0) progress(log.done());
  }
}

CarSignals CarSignalsReader::take() {
  Impl& in = *impl_;
  CarSignals& out = in.out;
  const auto choose = [](auto& to, std::string& name, std::initializer_list<std::pair<decltype(&to), const char*>> of) {
    for (const auto& [samples, source] : of) {
      if (samples->empty()) continue;
      to = std::move(*samples);
      name = source;
      return;
    }
  };
  if (!in.yaw_car_said) in.yaw_car = {};
  if (!in.output_older_said) in.output_older = {};
  choose(out.yaw_rate, out.yaw_source,
         {{&in.yaw_pose, "livePose"},
          {&in.yaw_location, "liveLocationKalman"},
          {&in.yaw_gyroscope, "gyroscope"},
          {&in.yaw_car, "carState"}});
  choose(out.command, out.command_source,
         {{&in.output, "carOutput"},
          {&in.output_older, "carControl.actuatorsOutput"},
          {&in.requested, "carControl.actuators"}});
  choose(out.lead, out.lead_source, {{&in.lead_radar, "radarState"}, {&in.lead_model, "modelV2"}});
  if (out.enabled.empty()) out.enabled = std::move(in.enabled_older);
  // In logs with lateralPlan, modelV2 does not yet contain lane changes.
  if (!in.changes_older.empty()) out.lane_change = std::move(in.changes_older);
  out.motion.sort();
  out.yaw_rate.sort();
  out.active.sort();
  out.enabled.sort();
  out.command.sort();
  out.parameters.sort();
  out.lane_change.sort();
  out.lead.sort();
  CarSignals taken = std::move(out);
  impl_ = std::make_unique<Impl>();
  return taken;
}

}  // namespace sparkpilot::drive
