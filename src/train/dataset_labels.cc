#include "train/dataset_labels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace sparkpilot::train {
namespace {

namespace synth = drive::synth;
using drive::kLeadTimes, drive::kLeadWidth, drive::kPlanWidth, drive::kPoints;
using synth::FrameTruth;

constexpr float kSure = 10;  // logit of a hypothesis
constexpr size_t kLeadValues = size_t{kLeadTimes} * kLeadWidth;

using Plan = std::array<float, kPlanValues>;
using Flat = std::span<float>;

float logit(double probability) { return static_cast<float>(std::log(probability / (1 - probability))); }

Plan plan_of(const FrameTruth& truth) {
  Plan plan{};
  for (size_t i = 0; i < kPoints; ++i) {
    const synth::PlanPoint& point = truth.plan[i];
    const drive::Vector3* const parts[] = {&point.position, &point.velocity, &point.acceleration, &point.orientation,
                                           &point.rate};
    for (size_t part = 0; part < std::size(parts); ++part) {
      for (size_t k = 0; k < 3; ++k) plan[i * kPlanWidth + 3 * part + k] = static_cast<float>((*parts[part])[k]);
    }
  }
  return plan;
}

void put_plan(const FrameTruth& truth, Flat out) {
  const Plan plan = plan_of(truth);
  std::copy(plan.begin(), plan.end(), out.begin());
  if (out.size() > 2 * plan.size()) out[2 * plan.size()] = kSure;
}

// y and z of each point of each line.
template <size_t N>
void put_lines(const std::array<synth::Polyline, N>& lines, Flat out) {
  size_t at = 0;
  for (const synth::Polyline& line : lines) {
    for (const drive::Vector3& point : line) {
      out[at++] = static_cast<float>(point[1]);
      out[at++] = static_cast<float>(point[2]);
    }
  }
}

void put_lead(const synth::LeadTruth& lead, Flat out) {
  for (size_t i = 0; i < kLeadTimes; ++i) {
    const double values[] = {lead.x[i], lead.y[i], lead.v[i], lead.a[i]};
    for (size_t k = 0; k < kLeadWidth; ++k) out[i * kLeadWidth + k] = static_cast<float>(values[k]);
  }
}

void put_leads(const FrameTruth& truth, Flat out) {
  if (out.size() == 2 * kLeadValues * drive::kLeads) {
    for (size_t i = 0; i < drive::kLeads; ++i) put_lead(truth.leads[i], out.subspan(i * kLeadValues));
    return;
  }
  const size_t stride = 2 * kLeadValues + drive::kLeads;
  for (size_t h = 0; h < 2; ++h) {
    const Flat one = out.subspan(h * stride, stride);
    put_lead(truth.leads[h], one);
    for (size_t s = 0; s < drive::kLeads; ++s) one[2 * kLeadValues + s] = std::min<size_t>(s, 1) == h ? kSure : -kSure;
  }
}

// The desire of a lane change that has begun, as openpilot's desire_state.
void put_desires(const FrameTruth& truth, Flat out) {
  const bool moving = truth.change == synth::ChangeState::starting || truth.change == synth::ChangeState::finishing;
  const size_t desire = moving ? (truth.change_direction < 0 ? 3 : 4) : 0;
  for (size_t i = 0; i < out.size(); ++i) out[i] = i % drive::kDesires == desire ? std::log(0.993F) : std::log(0.001F);
}

void put_pose(const FrameTruth& truth, Flat out) {
  for (size_t k = 0; k < 3; ++k) {
    out[k] = static_cast<float>(truth.plan[0].velocity[k]);
    out[3 + k] = static_cast<float>(truth.plan[0].rate[k]);
  }
}

void put_action(const FrameTruth& truth, Flat out) {
  const double speed = std::max(1.0, truth.pose.speed);
  out[0] = static_cast<float>(truth.desired_curvature * speed * speed);
  out[1] = static_cast<float>(truth.desired_acceleration);
}

using Put = void (*)(const FrameTruth&, Flat);
constexpr std::pair<const char*, Put> kHeads[] = {
    {"plan", put_plan},
    {"lane_lines", [](const FrameTruth& t, Flat out) { put_lines(t.lane_lines, out); }},
    {"road_edges", [](const FrameTruth& t, Flat out) { put_lines(t.road_edges, out); }},
    {"lane_lines_prob",
     [](const FrameTruth& t, Flat out) {
       for (size_t i = 0; i < t.lane_line_probs.size(); ++i) {
         out[2 * i + 1] = logit(t.lane_line_probs[i]);
         out[2 * i] = -out[2 * i + 1];
       }
     }},
    {"lead", put_leads},
    {"lead_prob",
     [](const FrameTruth& t, Flat out) {
       for (size_t i = 0; i < out.size(); ++i) out[i] = logit(t.leads[i].prob);
     }},
    {"desire_state", put_desires},
    {"desire_pred", put_desires},
    // Engaged, and nothing that ends it within 10 s.
    {"meta",
     [](const FrameTruth&, Flat out) {
       std::fill(out.begin(), out.end(), logit(0.01));
       out[0] = logit(0.99);
     }},
    {"pose", put_pose},
    {"sim_pose", put_pose},
    {"road_transform", [](const FrameTruth&, Flat out) { out[2] = static_cast<float>(synth::kDeviceHeight); }},
    {"wide_from_device_euler", [](const FrameTruth&, Flat) {}},  // mounted as designed
    {"desired_curvature", [](const FrameTruth& t, Flat out) { out[0] = static_cast<float>(t.desired_curvature); }},
    {"action", put_action},
};

}  // namespace

bool is_labelled(const std::string& head) {
  return std::any_of(std::begin(kHeads), std::end(kHeads), [&](const auto& known) { return known.first == head; });
}

std::vector<float> label_output(const DatasetNetwork& network, const FrameTruth& truth) {
  std::vector<float> out(static_cast<size_t>(network.width));
  for (const auto& [name, put] : kHeads) {
    const DatasetHead* const head = network.head(name);
    if (head)
      put(truth, Flat(out).subspan(static_cast<size_t>(head->begin), static_cast<size_t>(head->end - head->begin)));
  }
  return out;
}

void take_driven(const FrameTruth& truth, Targets& out) {
  out.plan = plan_of(truth);
  out.valid.fill(1);
}

void take_driven(const drive::DrivenPath& path, uint64_t time, Targets& out) {
  constexpr double kHalf = 0.1;  // s on both sides of an acceleration
  out.plan = {}, out.valid = {};
  const auto after = [&](double seconds) { return time + static_cast<uint64_t>(std::llround(seconds * 1e9)); };
  for (int i = 0; i < kPoints; ++i) {
    const double ahead = drive::plan_time(i);
    const auto point = path.ahead(time, ahead);
    const auto motion = path.motion(after(ahead));
    const auto before = path.motion(after(std::max(0.0, ahead - kHalf))), behind = path.motion(after(ahead + kHalf));
    if (!point || !motion) break;
    const double seconds = ahead < kHalf ? ahead + kHalf : 2 * kHalf;
    const double rise = before && behind ? (behind->speed - before->speed) / seconds : 0;
    const double values[kPlanWidth] = {point->position[0],
                                       point->position[1],
                                       point->position[2],
                                       motion->speed,
                                       0,
                                       0,
                                       rise,
                                       motion->speed * motion->yaw_rate,
                                       0,
                                       point->orientation[0],
                                       point->orientation[1],
                                       point->orientation[2],
                                       0,
                                       0,
                                       motion->yaw_rate};
    for (size_t k = 0; k < kPlanWidth; ++k)
      out.plan[static_cast<size_t>(i) * kPlanWidth + k] = static_cast<float>(values[k]);
    out.valid[static_cast<size_t>(i)] = 1;
  }
}

}  // namespace sparkpilot::train
