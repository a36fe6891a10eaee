#include "train/driving_losses.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/formula.h"
#include "route/contract/outputs.h"
#include "train/losses.h"

namespace sparkpilot::train {
namespace {

using namespace drive;  // NOLINT(google-build-using-namespace): openpilot's sizes

class Heads {
 public:
  Heads(Builder& b, const OutputSlices& slices, ValueId raw, ValueId teacher, FeatureLoss features)
      : b_(b), slices_(slices), raw_(raw), teacher_(teacher), features_(features) {
    const Shape& shape = b.shape(raw);
    if (shape.rank() != 2 || !(b.shape(teacher) == shape)) {
      fail("the student's output is {}, the teacher's {}, expected two equal shapes [N, width]", shape.str(),
           b.shape(teacher).str());
    }
    batch_ = shape[0];
    width_ = shape[1];
    OutputParser(slices, width_, "the output slices");  // checks every head's width
    driver_ = std::ranges::any_of(slices, [](const auto& item) { return item.first == "face_descs_lhd"; });
  }

  std::vector<HeadLoss> run() {
    std::vector<HeadLoss> out;
    for (const auto& [head, slice] : slices_) {
      const auto [begin, end] = slice.resolve(width_);
      if (begin >= end) continue;
      const ValueId raw = part(raw_, begin, end), teacher = part(teacher_, begin, end);
      const ValueId loss =
          driver_ ? driver_loss_of(head, raw, teacher, end - begin) : loss_of(head, raw, teacher, end - begin);
      if (loss.present()) out.push_back({head, loss});
      else if (driver_) out.push_back({head, mean_squared_error(b_, raw, teacher), false});
    }
    return out;
  }

 private:
  ValueId part(ValueId of, int64_t begin, int64_t end) {
    return b_.add("Slice", {of, b_.ints({begin}), b_.ints({end}), b_.ints({1})});
  }

  // The teacher's probabilities of a head, each repeated for `times` values; absent if there is no such head. `every`
  // takes the last of that many neighbours.
  ValueId probabilities(std::string_view head, int64_t every, int64_t times) {
    const auto found = std::ranges::find(slices_, head, [](const auto& item) { return std::string_view(item.first); });
    if (found == slices_.end()) return {};
    const auto [begin, end] = found->second.resolve(width_);
    const ValueId logits =
        b_.add("Slice", {teacher_, b_.ints({begin + every - 1}), b_.ints({end}), b_.ints({1}), b_.ints({every})});
    const ValueId exists = b_.add("Sigmoid", {logits});
    if (times == 1) return exists;
    const int64_t count = (end - begin) / every;
    const ValueId wide =
        b_.add("Expand", {b_.add("Unsqueeze", {exists, b_.ints({2})}), b_.ints({batch_, count, times})});
    return b_.add("Reshape", {wide, b_.ints({batch_, count * times})});
  }

  ValueId single(ValueId raw, ValueId teacher, int64_t width, ValueId weight = {}) {
    return laplacian_nll(b_, raw, part(teacher, 0, width / 2), weight);
  }
  ValueId best(ValueId raw, ValueId teacher, int64_t hypotheses, int64_t selections, ValueId weight = {}) {
    return laplacian_nll_of_best(b_, raw, most_probable_means(b_, teacher, hypotheses, selections), hypotheses,
                                 selections, weight);
  }
  // In groups of the desires.
  ValueId of_desires(ValueId raw, ValueId teacher, int64_t width) {
    const ValueId shape = b_.ints({batch_ * (width / kDesires), kDesires});
    return cross_entropy(b_, b_.add("Reshape", {raw, shape}),
                         b_.add("Softmax", {b_.add("Reshape", {teacher, shape})}, {{"axis", int64_t{-1}}}));
  }

  ValueId loss_of(std::string_view head, ValueId raw, ValueId teacher, int64_t width) {
    constexpr int64_t kPlanHead = 2 * kPoints * kPlanWidth, kLeadValues = kLeadTimes * kLeadWidth;
    if (head == "plan") {
      return width == kPlanHead ? single(raw, teacher, width) : best(raw, teacher, kPlanHypotheses, 1);
    }
    if (head == "lead") {
      if (width == 2 * kLeads * kLeadValues) {
        return single(raw, teacher, width, probabilities("lead_prob", 1, kLeadValues));
      }
      return best(raw, teacher, kLeadHypotheses, kLeads, probabilities("lead_prob", 1, 1));
    }
    if (head == "lane_lines") return single(raw, teacher, width, probabilities("lane_lines_prob", 2, 2 * kPoints));
    for (const std::string_view each :
         {"road_edges", "pose", "road_transform", "sim_pose", "wide_from_device_euler", "desired_curvature"}) {
      if (head == each) return single(raw, teacher, width);
    }
    if (head == "action") return width == 2 ? mean_squared_error(b_, raw, teacher) : single(raw, teacher, width);
    if (head == "lane_lines_prob" || head == "lead_prob" || head == "meta") {
      return binary_cross_entropy(b_, raw, b_.add("Sigmoid", {teacher}));
    }
    if (head == "desire_state" || head == "desire_pred") return of_desires(raw, teacher, width);
    return head == "hidden_state" ? of_features(raw, teacher) : ValueId{};
  }

  ValueId driver_loss_of(std::string_view head, ValueId raw, ValueId teacher, int64_t width) {
    if (head == "face_descs_lhd" || head == "face_descs_rhd") {
      constexpr int64_t kValues = 6, kKnown = 5;  // means, then log scales; the last of each is not used
      if (width != 2 * kValues) fail("head \"{}\" has {} values, expected {}", head, width, 2 * kValues);
      const auto known = [&](ValueId of) {
        return b_.add("Concat", {part(of, 0, kKnown), part(of, kValues, kValues + kKnown)}, {{"axis", int64_t{1}}});
      };
      return gaussian_divergence(b_, known(raw), known(teacher));
    }
    if (head == "wheel_on_right" || head.ends_with("_prob_lhd") || head.ends_with("_prob_rhd")) {
      return binary_cross_entropy(b_, raw, b_.add("Sigmoid", {teacher}));
    }
    return head == "features" ? of_features(raw, teacher) : ValueId{};
  }

  ValueId of_features(ValueId raw, ValueId teacher) {
    if (features_ == FeatureLoss::cosine) return cosine_distance(b_, raw, teacher);
    if (features_ == FeatureLoss::l2) return mean_squared_error(b_, raw, teacher);
    constexpr double kTemperature = 4;
    return kl_divergence(b_, raw, teacher, kTemperature);
  }

  Builder& b_;
  const OutputSlices& slices_;
  ValueId raw_, teacher_;
  FeatureLoss features_;
  int64_t batch_ = 0, width_ = 0;
  bool driver_ = false;  // monitoring
};

}  // namespace

std::vector<HeadLoss> head_losses(Builder& b, const OutputSlices& slices, ValueId raw, ValueId teacher,
                                  FeatureLoss features) {
  return Heads(b, slices, raw, teacher, features).run();
}

ValueId weighted_sum(Builder& b, const std::vector<HeadLoss>& losses, const std::map<std::string, double>& weights) {
  std::vector<std::string> heads;
  for (const HeadLoss& each : losses) heads.push_back(each.head);
  for (const auto& [head, weight] : weights) {
    if (std::ranges::find(heads, head) == heads.end()) {
      fail("there is no head \"{}\" to weight, the model has {}", head, fmt::join(heads, ", "));
    }
  }
  ValueId sum;
  for (const auto& [head, loss, known] : losses) {
    const auto found = weights.find(head);
    const double weight = found == weights.end() ? 1 : found->second;
    if (weight == 0) continue;
    const ValueId weighted = weight == 1 ? loss : ValueId(weight * Term(b, loss));
    sum = sum.present() ? b.add("Add", {sum, weighted}) : weighted;
  }
  if (!sum.present()) fail("no head has a loss with a weight above 0; the model has {}", fmt::join(heads, ", "));
  return sum;
}

}  // namespace sparkpilot::train
