#include "route/synth/truth.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive::synth {

Vector3 seen_from(const Pose& pose, const Vector3& ned) {
  return multiply(transpose(pose.ned_from_calib), ned - pose.position);
}

Polyline line_from(const World& world, const Pose& pose, double offset) {
  Polyline line{};
  double s = pose.s;
  for (int i = 0; i < kPoints; ++i) {
    const double wanted = line_x(i);
    Vector3 at{}, best{};
    double miss = 1e9;
    for (int round = 0; round < 12 && miss > 1e-6; ++round) {
      at = seen_from(pose, world.road().place(s, offset));
      if (std::fabs(at[0] - wanted) < miss) miss = std::fabs(at[0] - wanted), best = at;
      const double slope = seen_from(pose, world.road().place(s + 0.05, offset))[0] - at[0];
      if (slope < 0.005) break;  // the road runs sideways or back
      s += clamped((wanted - at[0]) / (slope / 0.05), -30.0, 30.0);
    }
    line[static_cast<size_t>(i)] = miss < 1 || i == 0 ? best : line[static_cast<size_t>(i) - 1];
  }
  return line;
}

namespace {

PlanPoint plan_point(const World& world, const Pose& now, double time) {
  const Pose pose = world.pose(time);
  PlanPoint point{};
  point.position = seen_from(now, pose.position);
  point.velocity = {pose.speed, 0, 0};
  point.acceleration = {pose.acceleration, pose.speed * pose.rate[2], -pose.speed * pose.rate[1]};
  point.orientation = euler(multiply(transpose(now.ned_from_calib), pose.ned_from_calib));
  point.rate = pose.rate;
  return point;
}

// The nearest car in our own path at a time, -1 if absent.
int car_ahead(const World& world, double time) {
  const Traffic& traffic = world.traffic();
  const double here = traffic.ego(time).s;
  int found = -1;
  double nearest = 140;
  for (int car = 0; car < traffic.cars(); ++car) {
    if (traffic.oncoming(car)) continue;
    const CarMotion motion = traffic.car(car, time);
    const double gap = motion.s - here;
    if (gap <= 0 || gap >= nearest || std::fabs(motion.d - traffic.lateral(motion.s).value) > 1.8) continue;
    nearest = gap, found = car;
  }
  return found;
}

LeadTruth lead_truth(const World& world, const Pose& now, double time, double ahead) {
  LeadTruth lead;
  lead.car = car_ahead(world, time + ahead);
  if (lead.car < 0) {  // a model's output without a lead: far away and improbable
    for (size_t i = 0; i < kLeadTimes; ++i)
      lead.x[i] = 140 + now.speed * lead_time(static_cast<int>(i)), lead.v[i] = now.speed;
    lead.prob = 0.01;
    return lead;
  }
  lead.prob = 0.98;
  for (size_t i = 0; i < kLeadTimes; ++i) {
    const CarMotion motion = world.traffic().car(lead.car, time + lead_time(static_cast<int>(i)));
    const Vector3 at = seen_from(now, world.road().place(motion.s, motion.d));
    lead.x[i] = at[0], lead.y[i] = at[1], lead.v[i] = motion.speed, lead.a[i] = motion.acceleration;
  }
  return lead;
}

void lane_truth(const World& world, FrameTruth& truth) {
  const Road& road = world.road();
  const int lane = world.traffic().ego_lane(truth.time);
  const bool right[4] = {false, false, true, true};
  const int step[4] = {1, 0, 0, 1};
  for (size_t i = 0; i < 4; ++i) {
    const LaneLine line = road.boundary(lane, right[i], step[i]);
    truth.lane_lines[i] = line_from(world, truth.pose, line.offset);
    truth.lane_line_probs[i] = line.paint == Paint::none ? 0.02 : (line.paint == Paint::dashed ? 0.93 : 0.98);
  }
  truth.road_edges[0] = line_from(world, truth.pose, road.left_edge());
  truth.road_edges[1] = line_from(world, truth.pose, road.right_edge());
}

void change_truth(const World& world, FrameTruth& truth) {
  for (const LaneChange& change : world.traffic().lane_changes()) {
    if (truth.time < change.decided || truth.time >= change.ends) continue;
    const double middle = change.begins + 0.6 * (change.ends - change.begins);
    truth.change = truth.time < change.begins ? ChangeState::preparing
                                              : (truth.time < middle ? ChangeState::starting : ChangeState::finishing);
    truth.change_direction = (change.to > change.from) == (world.road().side() > 0) ? 1 : -1;
  }
}

}  // namespace

FrameTruth frame_truth(const World& world, double time, double lateral_delay, double longitudinal_delay) {
  FrameTruth truth;
  truth.time = time;
  truth.pose = world.pose(time);
  for (int i = 0; i < kPoints; ++i)
    truth.plan[static_cast<size_t>(i)] = plan_point(world, truth.pose, time + plan_time(i));
  lane_truth(world, truth);
  for (size_t i = 0; i < 3; ++i) truth.leads[i] = lead_truth(world, truth.pose, time, 2.0 * static_cast<double>(i));
  change_truth(world, truth);
  truth.desired_curvature = world.pose(time + lateral_delay).curvature;
  const Pose soon = world.pose(time + longitudinal_delay);
  truth.desired_acceleration = soon.acceleration;
  truth.should_stop = soon.speed < 0.05 && world.pose(time + longitudinal_delay + 1).speed < 0.05;
  return truth;
}

}  // namespace sparkpilot::drive::synth
