#include "route/contract/outputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "route/contract/squash.h"

namespace sparkpilot::drive {
namespace {

constexpr int64_t kPlanValues = int64_t{kPoints} * kPlanWidth, kLeadValues = int64_t{kLeadTimes} * kLeadWidth;
constexpr int64_t kOlderMeta = 48, kMeta = 55;

void softmax(std::span<const float> in, std::span<float> out) {
  const float top = *std::max_element(in.begin(), in.end());
  float sum = 0;
  for (size_t i = 0; i < in.size(); ++i) sum += out[i] = std::exp(in[i] - top);
  for (float& value : out) value /= sum;
}

// [mean..., log deviation...], each as long as `mean`.
void gaussian(std::span<const float> raw, std::span<float> mean, std::span<float> std) {
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = raw[i];
    std[i] = exponential(raw[mean.size() + i]);
  }
}

template <size_t N>
void gaussian(std::span<const float> raw, Gaussian<N>& out) {
  gaussian(raw, out.mean, out.std);
}

// `count` hypotheses of [mean, log deviation, one weight per selection]; each selection takes the hypothesis with its
// largest weight. Among equal ones openpilot's sorting picks the first for a plan and the last for a lead.
void hypotheses(std::span<const float> raw, int64_t count, int64_t values, int64_t selections, std::span<float> mean,
                std::span<float> std) {
  const int64_t stride = 2 * values + selections;
  for (int64_t s = 0; s < selections; ++s) {
    int64_t best = 0;
    const auto weight = [&](int64_t h) { return raw[static_cast<size_t>(h * stride + 2 * values + s)]; };
    for (int64_t h = 1; h < count; ++h) {
      if (selections == 1 ? weight(h) > weight(best) : !(weight(h) < weight(best))) best = h;
    }
    gaussian(raw.subspan(static_cast<size_t>(best * stride), static_cast<size_t>(2 * values)),
             mean.subspan(static_cast<size_t>(s * values), static_cast<size_t>(values)),
             std.subspan(static_cast<size_t>(s * values), static_cast<size_t>(values)));
  }
}

template <size_t N>
std::array<float, N> every(std::span<const float> probs, size_t first, size_t stride) {
  std::array<float, N> out{};
  for (size_t i = 0; i < N; ++i) out[i] = probs[first + i * stride];
  return out;
}

std::vector<float> press(std::span<const float> probs, size_t first, size_t stride, size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = probs[first + i * stride];
  return out;
}

// Source: openpilot, selfdrive/modeld/constants.py, class Meta, of each era.
void parse_meta(std::span<const float> raw, MetaOutputs& out) {
  std::vector<float> probs(raw.size());
  std::transform(raw.begin(), raw.end(), probs.begin(), sigmoid);
  const bool older = static_cast<int64_t>(raw.size()) == kOlderMeta;
  const size_t stride = older ? 7 : 6;
  out.engaged = probs[0];
  out.gas_disengage = every<kMetaTimes>(probs, 1, stride);
  out.brake_disengage = every<kMetaTimes>(probs, 2, stride);
  out.steer_override = every<kMetaTimes>(probs, 3, stride);
  out.hard_brake_3 = every<kMetaTimes>(probs, 4, stride);
  out.hard_brake_4 = every<kMetaTimes>(probs, 5, stride);
  out.hard_brake_5 = every<kMetaTimes>(probs, 6, stride);
  out.gas_press = older ? press(probs, 7, 7, kMetaTimes) : press(probs, 31, 4, kPressTimes);
  out.brake_press = older ? std::vector<float>{} : press(probs, 32, 4, kPressTimes);
}

}  // namespace

OutputParser::OutputParser(const OutputSlices& slices, int64_t width, std::string model)
    : width_(width), model_(std::move(model)) {
  for (const auto& [head, slice] : slices) {
    const auto [begin, end] = slice.resolve(width);
    const bool outside = slice.stop && *slice.stop > width;
    if (outside || (begin >= end && head != "pad")) {
      fail("{}: head \"{}\" is not inside the output of {} values", model_, head, width);
    }
    slices_.emplace_back(head, Slice{begin, end - begin});
    heads_.insert(head);
  }
  check("plan", {2 * kPlanValues, kPlanHypotheses * (2 * kPlanValues + 1)});
  check("lead", {2 * kLeadValues * kLeads, kLeadHypotheses * (2 * kLeadValues + kLeads)});
  check("lane_lines", {int64_t{kLaneLines} * kPoints * 4});
  check("road_edges", {int64_t{kRoadEdges} * kPoints * 4});
  check("lane_lines_prob", {int64_t{2} * kLaneLines});
  check("lead_prob", {kLeads});
  check("desire_state", {kDesires});
  check("desire_pred", {int64_t{kDesireTimes} * kDesires});
  check("meta", {kMeta, kOlderMeta});
  for (const char* head : {"pose", "road_transform", "sim_pose"}) check(head, {12});
  check("wide_from_device_euler", {6});
  check("desired_curvature", {2});
  check("action", {2, 4});
  check("hidden_state", {kFeatures});
}

const OutputParser::Slice* OutputParser::find(const std::string& head) const {
  const auto found = std::find_if(slices_.begin(), slices_.end(), [&](const auto& item) { return item.first == head; });
  return found == slices_.end() ? nullptr : &found->second;
}

void OutputParser::check(const std::string& head, std::initializer_list<int64_t> widths) const {
  const Slice* slice = find(head);
  if (slice == nullptr || std::find(widths.begin(), widths.end(), slice->width) != widths.end()) return;
  fail("{}: head \"{}\" has {} values, expected {}", model_, head, slice->width, fmt::join(widths, " or "));
}

void OutputParser::parse(std::span<const float> raw, ModelOutputs& out) const {
  if (static_cast<int64_t>(raw.size()) != width_)
    fail_internal("{}: {} values, expected {}", model_, raw.size(), width_);
  const auto head = [&](const char* name, auto&& take) {
    if (const Slice* slice = find(name))
      take(raw.subspan(static_cast<size_t>(slice->begin), static_cast<size_t>(slice->width)));
  };
  head("plan", [&](auto part) {
    if (part.size() == 2 * kPlanValues) gaussian(part, out.plan);
    else hypotheses(part, kPlanHypotheses, kPlanValues, 1, out.plan.mean, out.plan.std);
  });
  head("lead", [&](auto part) {
    if (part.size() == 2 * kLeadValues * kLeads) gaussian(part, out.leads);
    else hypotheses(part, kLeadHypotheses, kLeadValues, kLeads, out.leads.mean, out.leads.std);
  });
  head("lane_lines", [&](auto part) { gaussian(part, out.lane_lines); });
  head("road_edges", [&](auto part) { gaussian(part, out.road_edges); });
  head("pose", [&](auto part) { gaussian(part, out.pose); });
  head("road_transform", [&](auto part) { gaussian(part, out.road_transform); });
  head("wide_from_device_euler", [&](auto part) { gaussian(part, out.wide_from_device_euler); });
  head("sim_pose", [&](auto part) { gaussian(part, out.sim_pose.emplace()); });
  head("desired_curvature", [&](auto part) { out.desired_curvature = part[0]; });
  head("action", [&](auto part) { out.action = {part[0], part[1]}; });
  head("lane_lines_prob", [&](auto part) {
    for (size_t i = 0; i < kLaneLines; ++i) out.lane_line_probs[i] = sigmoid(part[2 * i + 1]);
  });
  head("lead_prob", [&](auto part) { std::transform(part.begin(), part.end(), out.lead_probs.begin(), sigmoid); });
  head("meta", [&](auto part) { parse_meta(part, out.meta); });
  head("desire_state", [&](auto part) { softmax(part, out.desire_state); });
  head("desire_pred", [&](auto part) {
    for (size_t t = 0; t < kDesireTimes; ++t) {
      softmax(part.subspan(t * kDesires, kDesires), std::span(out.desire_pred).subspan(t * kDesires, kDesires));
    }
  });
  head("hidden_state", [&](auto part) { std::copy(part.begin(), part.end(), out.hidden_state.begin()); });
}

}  // namespace sparkpilot::drive
