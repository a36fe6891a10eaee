#include "route/contract/model_message.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "route/contract/put_list.h"

namespace sparkpilot::drive {
namespace {

// The probability that the driver takes over decides the colour; the thresholds are openpilot's.
constexpr double kGreen = 0.01165, kYellow = 0.06157;
constexpr std::array<float, 5> kBrake5{0.05F, 0.05F, 0.15F, 0.15F, 0.15F};
constexpr std::array<float, 2> kBrake3{0.7F, 0.7F};

const std::array<float, kPoints>& plan_times() {
  static const auto times = [] {
    std::array<float, kPoints> out{};
    for (int i = 0; i < kPoints; ++i) out[static_cast<size_t>(i)] = static_cast<float>(plan_time(i));
    return out;
  }();
  return times;
}

const std::array<float, kPoints>& line_distances() {
  static const auto distances = [] {
    std::array<float, kPoints> out{};
    for (int i = 0; i < kPoints; ++i) out[static_cast<size_t>(i)] = static_cast<float>(line_distance(i));
    return out;
  }();
  return distances;
}

void put_plan(cereal::XYZTData::Builder out, const ModelOutputs& outputs, int column, bool with_std) {
  const auto part = [&](std::span<const float> from, int c, auto&& init) { put(init, from, c, kPlanWidth, kPoints); };
  const std::span<const float> mean = outputs.plan.mean, std = outputs.plan.std;
  put([&](unsigned n) { return out.initT(n); }, plan_times());
  part(mean, column, [&](unsigned n) { return out.initX(n); });
  part(mean, column + 1, [&](unsigned n) { return out.initY(n); });
  part(mean, column + 2, [&](unsigned n) { return out.initZ(n); });
  if (!with_std) return;
  part(std, column, [&](unsigned n) { return out.initXStd(n); });
  part(std, column + 1, [&](unsigned n) { return out.initYStd(n); });
  part(std, column + 2, [&](unsigned n) { return out.initZStd(n); });
}

// `line`: [33, (y, z)].
void put_line(cereal::XYZTData::Builder out, std::span<const float> line, const std::array<float, kPoints>& times) {
  put([&](unsigned n) { return out.initT(n); }, times);
  put([&](unsigned n) { return out.initX(n); }, line_distances());
  put([&](unsigned n) { return out.initY(n); }, line, 0, 2, kPoints);
  put([&](unsigned n) { return out.initZ(n); }, line, 1, 2, kPoints);
}

void put_lines(cereal::ModelDataV2::Builder model, const ModelOutputs& outputs) {
  const std::array<float, kPoints> times = line_times(outputs);
  constexpr size_t kLine = size_t{kPoints} * 2;
  auto lines = model.initLaneLines(kLaneLines);
  auto line_stds = model.initLaneLineStds(kLaneLines);
  for (unsigned i = 0; i < kLaneLines; ++i) {
    put_line(lines[i], std::span(outputs.lane_lines.mean).subspan(i * kLine, kLine), times);
    line_stds.set(i, outputs.lane_lines.std[i * kLine]);
  }
  put([&](unsigned n) { return model.initLaneLineProbs(n); }, outputs.lane_line_probs);
  auto edges = model.initRoadEdges(kRoadEdges);
  auto edge_stds = model.initRoadEdgeStds(kRoadEdges);
  for (unsigned i = 0; i < kRoadEdges; ++i) {
    put_line(edges[i], std::span(outputs.road_edges.mean).subspan(i * kLine, kLine), times);
    edge_stds.set(i, outputs.road_edges.std[i * kLine]);
  }
}

void put_leads(cereal::ModelDataV2::Builder model, const ModelOutputs& outputs) {
  constexpr size_t kLead = size_t{kLeadTimes} * kLeadWidth;
  auto leads = model.initLeadsV3(kLeads);
  for (unsigned i = 0; i < kLeads; ++i) {
    auto lead = leads[i];
    const auto mean = std::span<const float>(outputs.leads.mean).subspan(i * kLead, kLead);
    const auto std = std::span<const float>(outputs.leads.std).subspan(i * kLead, kLead);
    const auto column = [](std::span<const float> from, int c, auto&& init) {
      put(init, from, c, kLeadWidth, kLeadTimes);
    };
    lead.setProb(outputs.lead_probs[i]);
    lead.setProbTime(kLeadProbTimes[i]);
    put([&](unsigned n) { return lead.initT(n); }, kLeadTimeOffsets);
    column(mean, 0, [&](unsigned n) { return lead.initX(n); });
    column(mean, 1, [&](unsigned n) { return lead.initY(n); });
    column(mean, 2, [&](unsigned n) { return lead.initV(n); });
    column(mean, 3, [&](unsigned n) { return lead.initA(n); });
    column(std, 0, [&](unsigned n) { return lead.initXStd(n); });
    column(std, 1, [&](unsigned n) { return lead.initYStd(n); });
    column(std, 2, [&](unsigned n) { return lead.initVStd(n); });
    column(std, 3, [&](unsigned n) { return lead.initAStd(n); });
  }
}

void put_meta(cereal::ModelDataV2::MetaData::Builder out, const ModelOutputs& outputs, const MessageExtras& extras) {
  const MetaOutputs& meta = outputs.meta;
  out.setEngagedProb(meta.engaged);
  put([&](unsigned n) { return out.initDesireState(n); }, outputs.desire_state);
  put([&](unsigned n) { return out.initDesirePrediction(n); }, outputs.desire_pred);
  out.setLaneChangeState(static_cast<cereal::LaneChangeState>(extras.lane_change_state));
  out.setLaneChangeDirection(static_cast<cereal::LaneChangeDirection>(extras.lane_change_direction));
  auto p = out.initDisengagePredictions();
  put([&](unsigned n) { return p.initT(n); }, kMetaTimeOffsets);
  put([&](unsigned n) { return p.initBrakeDisengageProbs(n); }, meta.brake_disengage);
  put([&](unsigned n) { return p.initGasDisengageProbs(n); }, meta.gas_disengage);
  put([&](unsigned n) { return p.initSteerOverrideProbs(n); }, meta.steer_override);
  put([&](unsigned n) { return p.initBrake3MetersPerSecondSquaredProbs(n); }, meta.hard_brake_3);
  put([&](unsigned n) { return p.initBrake4MetersPerSecondSquaredProbs(n); }, meta.hard_brake_4);
  put([&](unsigned n) { return p.initBrake5MetersPerSecondSquaredProbs(n); }, meta.hard_brake_5);
  put([&](unsigned n) { return p.initGasPressProbs(n); }, meta.gas_press);
  put([&](unsigned n) { return p.initBrakePressProbs(n); }, meta.brake_press);
}

// The network's own pose if it has one, else the plan's first velocity and turn rate.
void put_temporal_pose(cereal::ModelDataV2::Pose::Builder out, const ModelOutputs& outputs) {
  const auto plan = [&](const auto& from, int column) {
    return std::span<const float>(from).subspan(static_cast<size_t>(column), 3);
  };
  const auto sim = [&](const auto& from, size_t first) { return std::span<const float>(from).subspan(first, 3); };
  const bool own = outputs.sim_pose.has_value();
  put([&](unsigned n) { return out.initTrans(n); },
      own ? sim(outputs.sim_pose->mean, 0) : plan(outputs.plan.mean, kVelocity));
  put([&](unsigned n) { return out.initTransStd(n); },
      own ? sim(outputs.sim_pose->std, 0) : plan(outputs.plan.std, kVelocity));
  put([&](unsigned n) { return out.initRot(n); },
      own ? sim(outputs.sim_pose->mean, 3) : plan(outputs.plan.mean, kOrientationRate));
  put([&](unsigned n) { return out.initRotStd(n); },
      own ? sim(outputs.sim_pose->std, 3) : plan(outputs.plan.std, kOrientationRate));
}

}  // namespace

std::array<float, kPoints> line_times(const ModelOutputs& outputs) {
  const auto plan_x = [&](int i) {
    return static_cast<double>(outputs.plan.mean[static_cast<size_t>(i) * kPlanWidth]);
  };
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  std::array<float, kPoints> times{};
  times.fill(kNone);
  times[0] = 0;
  for (int line = 1; line < kPoints; ++line) {
    int i = 0;
    while (i < kPoints - 1 && plan_x(i + 1) < line_distance(line)) ++i;
    if (i == kPoints - 1) {
      times[static_cast<size_t>(line)] = static_cast<float>(plan_time(kPoints - 1));
      break;
    }
    const double step = plan_x(i + 1) - plan_x(i);
    const double share = std::fabs(step) > 1e-9 ? (line_distance(line) - plan_x(i)) / step : kNone;
    times[static_cast<size_t>(line)] = static_cast<float>(share * plan_time(i + 1) + (1 - share) * plan_time(i));
  }
  return times;
}

bool ModelPublisher::hard_brake(const MetaOutputs& meta) {
  const auto shift = [](auto& last, float value) {
    std::rotate(last.begin(), last.begin() + 1, last.end());
    last.back() = value;
  };
  shift(brake_5_, meta.hard_brake_5[0]);
  shift(brake_3_, meta.hard_brake_3[0]);
  const auto above = [](const auto& values, const auto& limits) {
    return std::equal(values.begin(), values.end(), limits.begin(),
                      [](float value, float limit) { return value > limit; });
  };
  return above(brake_5_, kBrake5) && above(brake_3_, kBrake3);
}

cereal::ModelDataV2::ConfidenceClass ModelPublisher::confidence(const MetaOutputs& meta, uint32_t frame_id) {
  constexpr size_t kTimes = kMetaTimes;
  if (frame_id % kFramesALook == 0) {
    std::rotate(disengage_.begin(), disengage_.begin() + kTimes, disengage_.end());
    float before = 0;
    for (size_t i = 0; i < kTimes; ++i) {
      const float any = 1 - (1 - meta.brake_disengage[i]) * (1 - meta.gas_disengage[i]) * (1 - meta.steer_override[i]);
      // The probability of a takeover in this slice of 2 s, given none before it.
      disengage_[disengage_.size() - kTimes + i] = i == 0 ? any : (any - before) / (1 - before);
      before = any;
    }
  }
  double score = 0;  // for the present moment, as predicted 10, 8, 6, 4 and 2 s ago
  for (size_t i = 0; i < kTimes; ++i) score += static_cast<double>(disengage_[i * kTimes + kTimes - 1 - i]) / kTimes;
  using Class = cereal::ModelDataV2::ConfidenceClass;
  return score < kGreen ? Class::GREEN : score < kYellow ? Class::YELLOW : Class::RED;
}

void ModelPublisher::fill_model(cereal::Event::Builder event, const ModelOutputs& outputs, const Action& action,
                                const FrameMark& mark, const MessageExtras& extras) {
  event.setValid(mark.model_valid);
  auto model = event.initModelV2();
  model.setFrameId(mark.frame_id);
  model.setFrameIdExtra(mark.frame_id_extra);
  model.setFrameDropPerc(static_cast<float>(extras.frame_drop_percent));
  model.setTimestampEof(mark.timestamp_eof);
  model.setModelExecutionTime(static_cast<float>(extras.execution_seconds));
  put_plan(model.initPosition(), outputs, kPosition, true);
  put_plan(model.initVelocity(), outputs, kVelocity, false);
  put_plan(model.initAcceleration(), outputs, kAcceleration, false);
  put_plan(model.initOrientation(), outputs, kOrientation, false);
  put_plan(model.initOrientationRate(), outputs, kOrientationRate, false);
  put_lines(model, outputs);
  put_leads(model, outputs);
  auto meta = model.initMeta();
  put_meta(meta, outputs, extras);
  meta.setHardBrakePredicted(hard_brake(outputs.meta));
  put_temporal_pose(model.initTemporalPose(), outputs);
  model.setConfidence(confidence(outputs.meta, mark.frame_id));
  auto wanted = model.initAction();
  wanted.setDesiredCurvature(action.curvature);
  wanted.setDesiredAcceleration(action.acceleration);
  wanted.setShouldStop(action.should_stop);
  if (!extras.raw.empty()) {
    auto bytes = model.initRawPredictions(static_cast<unsigned>(extras.raw.size_bytes()));
    std::memcpy(bytes.begin(), extras.raw.data(), extras.raw.size_bytes());
  }
}

void fill_odometry(cereal::Event::Builder event, const ModelOutputs& outputs, const FrameMark& mark) {
  event.setValid(mark.odometry_valid);
  auto odometry = event.initCameraOdometry();
  odometry.setFrameId(mark.frame_id);
  odometry.setTimestampEof(mark.timestamp_eof);
  const auto three = [](const auto& from, size_t first) { return std::span<const float>(from).subspan(first, 3); };
  put([&](unsigned n) { return odometry.initTrans(n); }, three(outputs.pose.mean, 0));
  put([&](unsigned n) { return odometry.initRot(n); }, three(outputs.pose.mean, 3));
  put([&](unsigned n) { return odometry.initTransStd(n); }, three(outputs.pose.std, 0));
  put([&](unsigned n) { return odometry.initRotStd(n); }, three(outputs.pose.std, 3));
  put([&](unsigned n) { return odometry.initWideFromDeviceEuler(n); }, three(outputs.wide_from_device_euler.mean, 0));
  put([&](unsigned n) { return odometry.initWideFromDeviceEulerStd(n); }, three(outputs.wide_from_device_euler.std, 0));
  put([&](unsigned n) { return odometry.initRoadTransformTrans(n); }, three(outputs.road_transform.mean, 0));
  put([&](unsigned n) { return odometry.initRoadTransformTransStd(n); }, three(outputs.road_transform.std, 0));
}

}  // namespace sparkpilot::drive
