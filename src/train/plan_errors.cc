#include "train/plan_errors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "base/error.h"
#include "route/contract/outputs.h"
#include "tensor/tensor.h"
#include "train/losses.h"

namespace sparkpilot::train {
namespace {

using namespace drive;  // NOLINT(google-build-using-namespace): openpilot's sizes

constexpr int64_t kPlanHead = 2 * int64_t{kPoints} * kPlanWidth;
constexpr int kSeconds[] = {1, 2, 4, 6};
constexpr double kLineMetres = 20;

// Row i of [rows, 33] interpolates between the points around the i-th place.
Tensor interpolation(std::span<const double> places, const std::function<double(int)>& point) {
  Tensor out = Tensor::zeros(DType::f32, {std::ssize(places), kPoints});
  for (size_t row = 0; row < places.size(); ++row) {
    int next = 1;
    while (next + 1 < kPoints && point(next) < places[row]) ++next;
    const double share = (places[row] - point(next - 1)) / (point(next) - point(next - 1));
    float* at = out.data<float>().data() + row * kPoints;
    at[next - 1] = static_cast<float>(1 - share);
    at[next] = static_cast<float>(share);
  }
  return out;
}

class Errors {
 public:
  Errors(Builder& b, const OutputSlices& slices, ValueId raw, ValueId target)
      : b_(b), slices_(slices), raw_(raw), target_(target), batch_(b.shape(raw)[0]) {}

  std::vector<std::pair<std::string, ValueId>> run(ValueId driven, ValueId valid) {
    if (const auto [begin, end] = range("plan"); begin < end) {
      const ValueId mine = positions(begin, end, raw_);
      by_time("plan", distance(mine, positions(begin, end, target_)), {});
      if (driven.present()) {
        std::vector<double> times(std::begin(kSeconds), std::end(kSeconds));
        const ValueId known = b_.add("MatMul", {b_.add("Unsqueeze", {valid, b_.ints({1})}),
                                                b_.add("Transpose", {b_.constant(interpolation(times, plan_time))},
                                                       {{"perm", std::vector<int64_t>{1, 0}}})});
        const ValueId all =
            b_.add("GreaterOrEqual", {b_.add("Reshape", {known, b_.ints({batch_, 4})}), b_.scalar(DType::f32, 0.999)});
        by_time("driven", distance(mine, at_times(part(driven, 2, 0, 3))), b_.add("Cast", {all}, kToF32));
      }
    }
    lanes();
    return std::move(out_);
  }

 private:
  inline static const Attributes kToF32{{"to", onnx_code(DType::f32)}};

  std::pair<int64_t, int64_t> range(std::string_view head) const {
    const auto found = std::ranges::find(slices_, head, [](const auto& each) { return std::string_view(each.first); });
    return found == slices_.end() ? std::pair<int64_t, int64_t>() : found->second.resolve(b_.shape(raw_)[1]);
  }
  ValueId part(ValueId of, int64_t axis, int64_t begin, int64_t end) {
    return b_.add("Slice", {of, b_.ints({begin}), b_.ints({end}), b_.ints({axis})});
  }
  ValueId sum(ValueId of, std::initializer_list<int64_t> axes) {
    return b_.add("ReduceSum", {of, b_.ints(axes)}, {{"keepdims", int64_t{0}}});
  }

  // [N, 4, 3] of [N, 33, 3].
  ValueId at_times(ValueId points) {
    const std::vector<double> times(std::begin(kSeconds), std::end(kSeconds));
    return b_.add("MatMul", {b_.constant(interpolation(times, plan_time)), points});
  }
  ValueId positions(int64_t begin, int64_t end, ValueId raw) {
    const ValueId head = part(raw, 1, begin, end);
    const ValueId means =
        end - begin == kPlanHead ? part(head, 1, 0, kPlanHead / 2) : most_probable_means(b_, head, kPlanHypotheses, 1);
    const ValueId plan = b_.add("Reshape", {means, b_.ints({batch_, kPoints, kPlanWidth})});
    return at_times(part(plan, 2, kPosition, kPosition + 3));
  }
  // [N, 4]
  ValueId distance(ValueId a, ValueId b) {
    const ValueId d = b_.add("Sub", {a, b});
    return b_.add("Sqrt", {sum(b_.add("Mul", {d, d}), {2})});
  }

  // A mean for each time; with `weight` [N, 4], 1 or 0, of those, and how many they are.
  void by_time(const char* what, ValueId distances, ValueId weight) {
    const ValueId total = sum(weight.present() ? b_.add("Mul", {distances, weight}) : distances, {0});
    const ValueId known = weight.present() ? sum(weight, {0}) : ValueId{};
    const ValueId count = known.present() ? b_.add("Max", {known, b_.scalar(DType::f32, 1)})
                                          : b_.scalar(DType::f32, static_cast<double>(batch_));
    const ValueId means = b_.add("Div", {total, count});
    for (int64_t i = 0; i < std::ssize(kSeconds); ++i) {
      const std::string name = fmt::format("{}_error_{}s", what, kSeconds[i]);
      out_.emplace_back(name, part(means, 0, i, i + 1));
      if (known.present()) out_.emplace_back(name + ".known", part(known, 0, i, i + 1));
    }
  }

  void lanes() {
    const auto [begin, end] = range("lane_lines");
    const auto [first, last] = range("lane_lines_prob");
    constexpr int64_t kMeans = int64_t{kLaneLines} * kPoints * 2;
    if (begin >= end || first >= last) return;
    const auto inner = [&, begin = begin,
                        end = end](ValueId raw) {  // y of the two inner lines at that distance, [N, 2]
      const ValueId lines =
          b_.add("Reshape", {part(part(raw, 1, begin, end), 1, 0, kMeans), b_.ints({batch_, kLaneLines, kPoints, 2})});
      const ValueId y = b_.add("Reshape", {part(part(lines, 1, 1, 3), 3, 0, 1), b_.ints({batch_, 2, kPoints})});
      const ValueId weights = b_.add("Transpose", {b_.constant(interpolation({{kLineMetres}}, line_distance))},
                                     {{"perm", std::vector<int64_t>{1, 0}}});
      return b_.add("Reshape", {b_.add("MatMul", {y, weights}), b_.ints({batch_, 2})});
    };
    // Of each line there are two logits, of which openpilot reads the second.
    const ValueId logits =
        b_.add("Slice", {target_, b_.ints({first + 3}), b_.ints({first + 6}), b_.ints({1}), b_.ints({2})});
    const ValueId there = b_.add("Cast", {b_.add("Greater", {logits, b_.scalar(DType::f32, 0)})}, kToF32);
    const ValueId apart = b_.add("Abs", {b_.add("Sub", {inner(raw_), inner(target_)})});
    const ValueId total = sum(b_.add("Mul", {apart, there}), {0, 1});
    const ValueId known = sum(there, {0, 1});
    out_.emplace_back("lane_error_20m", b_.add("Div", {total, b_.add("Max", {known, b_.scalar(DType::f32, 1)})}));
    out_.emplace_back("lane_error_20m.known", known);
  }

  Builder& b_;
  const OutputSlices& slices_;
  ValueId raw_, target_;
  int64_t batch_;
  std::vector<std::pair<std::string, ValueId>> out_;
};

}  // namespace

std::vector<std::pair<std::string, ValueId>> driving_errors(Builder& b, const OutputSlices& slices, ValueId raw,
                                                            ValueId target, ValueId driven, ValueId valid) {
  return Errors(b, slices, raw, target).run(driven, valid);
}

}  // namespace sparkpilot::train
