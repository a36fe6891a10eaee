#include "route/log/model_record.h"

#include <algorithm>

namespace sparkpilot::drive {
namespace {

constexpr unsigned kMaxItems = 4096;

std::vector<float> floats(capnp::List<float>::Reader list) {
  std::vector<float> out(std::min(list.size(), kMaxItems));
  for (unsigned i = 0; i < out.size(); ++i) out[i] = list[i];
  return out;
}

Polyline polyline(cereal::XYZTData::Reader in) {
  return {floats(in.getX()),    floats(in.getY()),    floats(in.getZ()),   floats(in.getT()),
          floats(in.getXStd()), floats(in.getYStd()), floats(in.getZStd())};
}

std::vector<Polyline> polylines(capnp::List<cereal::XYZTData>::Reader list) {
  std::vector<Polyline> out;
  for (unsigned i = 0; i < std::min(list.size(), kMaxItems); ++i) out.push_back(polyline(list[i]));
  return out;
}

LeadRecord lead(cereal::ModelDataV2::LeadDataV3::Reader in) {
  return {in.getProb(),         in.getProbTime(),     floats(in.getT()),   floats(in.getX()),
          floats(in.getY()),    floats(in.getV()),    floats(in.getA()),   floats(in.getXStd()),
          floats(in.getYStd()), floats(in.getVStd()), floats(in.getAStd())};
}

DriverSideRecord driver_side(cereal::DriverStateV2::DriverData::Reader in) {
  return {floats(in.getFaceOrientation()),
          floats(in.getFaceOrientationStd()),
          floats(in.getFacePosition()),
          floats(in.getFacePositionStd()),
          in.getFaceProb(),
          in.getLeftEyeProb(),
          in.getRightEyeProb(),
          in.getLeftBlinkProb(),
          in.getRightBlinkProb(),
          in.getSunglassesProb(),
          in.getPhoneProb()};
}

void read_meta(cereal::ModelDataV2::MetaData::Reader meta, ModelRecord& out) {
  out.engaged_prob = meta.getEngagedProb();
  out.desire_state = floats(meta.getDesireState());
  out.desire_prediction = floats(meta.getDesirePrediction());
  out.hard_brake_predicted = meta.getHardBrakePredicted();
  out.lane_change_state = static_cast<int>(meta.getLaneChangeState());
  out.lane_change_direction = static_cast<int>(meta.getLaneChangeDirection());
  const auto p = meta.getDisengagePredictions();
  out.brake_disengage = floats(p.getBrakeDisengageProbs());
  out.gas_disengage = floats(p.getGasDisengageProbs());
  out.steer_override = floats(p.getSteerOverrideProbs());
  out.hard_brake_3 = floats(p.getBrake3MetersPerSecondSquaredProbs());
  out.hard_brake_4 = floats(p.getBrake4MetersPerSecondSquaredProbs());
  out.hard_brake_5 = floats(p.getBrake5MetersPerSecondSquaredProbs());
}

}  // namespace

DriverRecord read_driver(const cereal::Event::Reader& event) {
  const auto driver = event.getDriverStateV2();
  return {event.getLogMonoTime(), driver.getFrameId(), driver_side(driver.getLeftDriverData()),
          driver_side(driver.getRightDriverData()), driver.getWheelOnRightProb()};
}

ModelRecord read_model(const cereal::Event::Reader& event) {
  const auto model = event.getModelV2();
  ModelRecord out;
  out.mono_time = event.getLogMonoTime();
  out.valid = event.getValid();
  out.timestamp_eof = model.getTimestampEof();
  out.frame_id = model.getFrameId();
  out.frame_id_extra = model.getFrameIdExtra();
  out.position = polyline(model.getPosition());
  out.velocity = polyline(model.getVelocity());
  out.acceleration = polyline(model.getAcceleration());
  out.orientation = polyline(model.getOrientation());
  out.orientation_rate = polyline(model.getOrientationRate());
  out.lane_lines = polylines(model.getLaneLines());
  out.road_edges = polylines(model.getRoadEdges());
  out.lane_line_probs = floats(model.getLaneLineProbs());
  out.lane_line_stds = floats(model.getLaneLineStds());
  out.road_edge_stds = floats(model.getRoadEdgeStds());
  const auto leads = model.getLeadsV3();
  for (unsigned i = 0; i < std::min(leads.size(), kMaxItems); ++i) out.leads.push_back(lead(leads[i]));
  read_meta(model.getMeta(), out);
  out.confidence = static_cast<int>(model.getConfidence());
  out.execution_seconds = model.getModelExecutionTime();
  if (model.hasAction()) {
    const auto action = model.getAction();
    out.action = {action.getDesiredCurvature(), action.getDesiredAcceleration(), action.getShouldStop()};
  }
  return out;
}

}  // namespace sparkpilot::drive
