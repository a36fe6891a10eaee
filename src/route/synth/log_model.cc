#include <algorithm>

#include "route/synth/log_fill.h"

namespace sparkpilot::drive::synth {
namespace {

using Track = cereal::XYZTData::Builder;

template <typename At>
void fill_floats(::capnp::List<float>::Builder list, At at) {
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, static_cast<float>(at(i)));
}

void fill_plan(Track b, const FrameTruth& truth, Vector3 PlanPoint::*what, double spread) {
  fill_floats(b.initX(kPoints), [&](size_t i) { return (truth.plan[i].*what)[0]; });
  fill_floats(b.initY(kPoints), [&](size_t i) { return (truth.plan[i].*what)[1]; });
  fill_floats(b.initZ(kPoints), [&](size_t i) { return (truth.plan[i].*what)[2]; });
  fill_floats(b.initT(kPoints), [](size_t i) { return plan_time(static_cast<int>(i)); });
  const auto deviation = [&](size_t i) { return spread * (1 + plan_time(static_cast<int>(i))); };
  fill_floats(b.initXStd(kPoints), deviation);
  fill_floats(b.initYStd(kPoints), deviation);
  fill_floats(b.initZStd(kPoints), deviation);
}

// The time at which the plan reaches x ahead; the plan's end if it never does.
double time_at(const FrameTruth& truth, double x) {
  for (size_t i = 1; i < kPoints; ++i) {
    const double from = truth.plan[i - 1].position[0], to = truth.plan[i].position[0];
    if (to < x || to <= from) continue;
    const double share = std::max(0.0, (x - from) / (to - from)), start = plan_time(static_cast<int>(i) - 1);
    return start + share * (plan_time(static_cast<int>(i)) - start);
  }
  return plan_time(kPoints - 1);
}

void fill_line(Track b, const FrameTruth& truth, const Polyline& line) {
  fill_floats(b.initX(kPoints), [](size_t i) { return line_x(static_cast<int>(i)); });
  fill_floats(b.initY(kPoints), [&](size_t i) { return line[i][1]; });
  fill_floats(b.initZ(kPoints), [&](size_t i) { return line[i][2]; });
  fill_floats(b.initT(kPoints), [&](size_t i) { return time_at(truth, line_x(static_cast<int>(i))); });
}

void fill_lead(cereal::ModelDataV2::LeadDataV3::Builder b, const LeadTruth& lead, double ahead) {
  b.setProb(static_cast<float>(lead.prob));
  b.setProbTime(static_cast<float>(ahead));
  fill_floats(b.initT(kLeadTimes), [](size_t i) { return lead_time(static_cast<int>(i)); });
  fill_list(b.initX(kLeadTimes), lead.x);
  fill_list(b.initY(kLeadTimes), lead.y);
  fill_list(b.initV(kLeadTimes), lead.v);
  fill_list(b.initA(kLeadTimes), lead.a);
  const double sure = lead.car >= 0 ? 1 : 20;
  fill_floats(b.initXStd(kLeadTimes), [&](size_t i) { return sure * (0.5 + static_cast<double>(i)); });
  fill_floats(b.initYStd(kLeadTimes), [&](size_t i) { return sure * (0.1 + 0.1 * static_cast<double>(i)); });
  fill_floats(b.initVStd(kLeadTimes), [&](size_t i) { return sure * (0.3 + 0.3 * static_cast<double>(i)); });
  fill_floats(b.initAStd(kLeadTimes), [&](size_t i) { return sure * (0.3 + 0.1 * static_cast<double>(i)); });
}

cereal::LaneChangeState change_state(const FrameTruth& truth) {
  return static_cast<cereal::LaneChangeState>(truth.change);
}

cereal::LaneChangeDirection change_direction(const FrameTruth& truth) {
  using Direction = cereal::LaneChangeDirection;
  return truth.change_direction == 0 ? Direction::NONE
                                     : (truth.change_direction < 0 ? Direction::LEFT : Direction::RIGHT);
}

void fill_meta(cereal::ModelDataV2::MetaData::Builder b, const FrameTruth& truth) {
  const bool moving = truth.change == ChangeState::starting || truth.change == ChangeState::finishing;
  const size_t desire = moving ? (truth.change_direction < 0 ? 3 : 4) : 0;
  const auto share = [desire](size_t i) { return i % 8 == desire ? 0.993 : 0.001; };
  fill_floats(b.initDesireState(8), share);
  fill_floats(b.initDesirePrediction(32), share);
  b.setEngagedProb(0.99F);
  b.setLaneChangeState(change_state(truth));
  b.setLaneChangeDirection(change_direction(truth));
  auto worries = b.initDisengagePredictions();
  const auto little = [](size_t) { return 0.01; };
  fill_floats(worries.initT(5), [](size_t i) { return 2.0 + 2.0 * static_cast<double>(i); });
  fill_floats(worries.initBrakeDisengageProbs(5), little);
  fill_floats(worries.initGasDisengageProbs(5), little);
  fill_floats(worries.initSteerOverrideProbs(5), little);
  fill_floats(worries.initBrake3MetersPerSecondSquaredProbs(5), little);
  fill_floats(worries.initBrake4MetersPerSecondSquaredProbs(5), little);
  fill_floats(worries.initBrake5MetersPerSecondSquaredProbs(5), little);
}

void fill_action(cereal::ModelDataV2::Action::Builder b, const FrameTruth& truth) {
  b.setDesiredCurvature(static_cast<float>(truth.desired_curvature));
  b.setDesiredAcceleration(static_cast<float>(truth.desired_acceleration));
  b.setShouldStop(truth.should_stop);
}

}  // namespace

void fill_model(const LogContext& t, cereal::ModelDataV2::Builder b, const FrameTruth& truth, int64_t frame) {
  b.setFrameId(t.frame_id(frame));
  b.setFrameIdExtra(t.frame_id(frame));
  b.setTimestampEof(t.mono(truth.time));
  b.setModelExecutionTime(0.02F);
  fill_plan(b.initPosition(), truth, &PlanPoint::position, 0.05);
  fill_plan(b.initVelocity(), truth, &PlanPoint::velocity, 0.05);
  fill_plan(b.initAcceleration(), truth, &PlanPoint::acceleration, 0.05);
  fill_plan(b.initOrientation(), truth, &PlanPoint::orientation, 0.002);
  fill_plan(b.initOrientationRate(), truth, &PlanPoint::rate, 0.002);
  auto lines = b.initLaneLines(4);
  for (unsigned i = 0; i < 4; ++i) fill_line(lines[i], truth, truth.lane_lines[i]);
  fill_list(b.initLaneLineProbs(4), truth.lane_line_probs);
  fill_floats(b.initLaneLineStds(4), [&](size_t i) { return truth.lane_line_probs[i] > 0.5 ? 0.05 : 1.0; });
  auto edges = b.initRoadEdges(2);
  for (unsigned i = 0; i < 2; ++i) fill_line(edges[i], truth, truth.road_edges[i]);
  fill_floats(b.initRoadEdgeStds(2), [](size_t) { return 0.1; });
  auto leads = b.initLeadsV3(3);
  for (unsigned i = 0; i < 3; ++i) fill_lead(leads[i], truth.leads[i], 2.0 * i);
  fill_meta(b.initMeta(), truth);
  auto pose = b.initTemporalPose();
  fill_list(pose.initTrans(3), truth.plan[0].velocity);
  fill_list(pose.initRot(3), truth.plan[0].rate);
  fill_list(pose.initTransStd(3), Vector3{0.05, 0.02, 0.02});
  fill_list(pose.initRotStd(3), Vector3{0.002, 0.002, 0.002});
  b.setConfidence(cereal::ModelDataV2::ConfidenceClass::GREEN);
  fill_action(b.initAction(), truth);
}

void fill_model_data(const LogContext& t, cereal::DrivingModelData::Builder b, const FrameTruth& truth, int64_t frame) {
  b.setFrameId(t.frame_id(frame));
  b.setFrameIdExtra(t.frame_id(frame));
  b.setModelExecutionTime(0.02F);
  fill_action(b.initAction(), truth);
  auto lines = b.initLaneLineMeta();
  lines.setLeftY(static_cast<float>(truth.lane_lines[1][0][1]));
  lines.setRightY(static_cast<float>(truth.lane_lines[2][0][1]));
  lines.setLeftProb(static_cast<float>(truth.lane_line_probs[1]));
  lines.setRightProb(static_cast<float>(truth.lane_line_probs[2]));
  auto meta = b.initMeta();
  meta.setLaneChangeState(change_state(truth));
  meta.setLaneChangeDirection(change_direction(truth));
}

// In the calibrated frame, as from a model that gets calibrated pictures; openpilot's locationd rotates it to the
// device's frame.
void fill_odometry(const LogContext& t, cereal::CameraOdometry::Builder b, const FrameTruth& truth, int64_t frame) {
  b.setFrameId(t.frame_id(frame));
  b.setTimestampEof(t.mono(truth.time));
  fill_list(b.initTrans(3), truth.plan[0].velocity);
  fill_list(b.initRot(3), truth.plan[0].rate);
  fill_list(b.initTransStd(3), Vector3{0.05, 0.02, 0.02});
  fill_list(b.initRotStd(3), Vector3{0.002, 0.002, 0.002});
  fill_list(b.initWideFromDeviceEuler(3), Vector3{0, 0, 0});
  fill_list(b.initWideFromDeviceEulerStd(3), Vector3{0.001, 0.001, 0.001});
  fill_list(b.initRoadTransformTrans(3), Vector3{0, 0, kDeviceHeight});
  fill_list(b.initRoadTransformTransStd(3), Vector3{0.02, 0.02, 0.02});
}

// As radard reports it without a radar: measured from the bumper, positive to the left.
void fill_radar(const LogContext& t, cereal::RadarState::Builder b, const FrameTruth& truth) {
  constexpr double kCameraToBumper = 1.52;
  b.setMdMonoTime(t.mono(truth.time));
  b.setCarStateMonoTime(t.mono(truth.time));
  const LeadTruth& lead = truth.leads[0];
  auto one = b.initLeadOne();
  b.initLeadTwo();
  if (lead.car < 0) return;
  one.setStatus(true);
  one.setDRel(static_cast<float>(lead.x[0] - kCameraToBumper));
  one.setYRel(static_cast<float>(-lead.y[0]));
  one.setVRel(static_cast<float>(lead.v[0] - truth.pose.speed));
  one.setVLead(static_cast<float>(lead.v[0]));
  one.setVLeadK(static_cast<float>(lead.v[0]));
  one.setALeadK(static_cast<float>(lead.a[0]));
  one.setALeadTau(1.5F);
  one.setModelProb(static_cast<float>(lead.prob));
}

}  // namespace sparkpilot::drive::synth
