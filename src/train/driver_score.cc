#include "train/driver_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "route/contract/driver_outputs.h"
#include "train/trainer.h"

namespace sparkpilot::train {
namespace {

using drive::DriverSide;

constexpr std::pair<const char*, float DriverSide::*> kProbabilities[] = {{"face", &DriverSide::face},
                                                                          {"left eye", &DriverSide::left_eye},
                                                                          {"right eye", &DriverSide::right_eye},
                                                                          {"left blink", &DriverSide::left_blink},
                                                                          {"right blink", &DriverSide::right_blink},
                                                                          {"sunglasses", &DriverSide::sunglasses},
                                                                          {"phone", &DriverSide::phone}};

template <size_t N>
double mean_difference(const std::array<float, N>& a, const std::array<float, N>& b) {
  double sum = 0;
  for (size_t i = 0; i < N; ++i) sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return sum / static_cast<double>(N);
}

void add(DriverErrors& errors, const DriverSide& model, const DriverSide& teacher) {
  for (size_t i = 0; i < std::size(kProbabilities); ++i) {
    const auto member = kProbabilities[i].second;
    errors.probabilities[i].second += static_cast<double>(std::abs(model.*member - teacher.*member));
  }
  if (!(teacher.face > 0.5F)) return;
  ++errors.faces;
  errors.orientation += mean_difference(model.orientation, teacher.orientation) * 180 / std::numbers::pi;
  errors.position += mean_difference(model.position, teacher.position);
}

void divide(DriverErrors& errors, int64_t samples) {
  const auto faces = static_cast<double>(std::max<int64_t>(1, errors.faces));
  errors.orientation /= faces;
  errors.position /= faces;
  for (auto& [name, error] : errors.probabilities) error /= static_cast<double>(samples);
}

}  // namespace

DriverScore score_driver(TrainingProgram& program, const Student& student, const Dataset& data) {
  const Student::Output output = student.outputs().at(0);
  const size_t target = place_of(data.fields(), output.target);
  DriverScore out;
  for (const auto& [name, member] : kProbabilities) {
    out.left.probabilities.emplace_back(name, 0);
    out.right.probabilities.emplace_back(name, 0);
  }
  std::vector<int64_t> all(static_cast<size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0);
  evaluate_samples(program, data, all, false, [&](size_t place, int64_t entry) {
    const std::vector<Tensor> sample = sample_of(data, all[place]);
    const auto model = drive::parse_driver(output.slices, output_of(program, output.role, entry, false), output.role);
    const auto teacher = drive::parse_driver(output.slices, sample[target].data<float>(), output.role);
    add(out.left, model.left, teacher.left);
    add(out.right, model.right, teacher.right);
    out.wheel_on_right += static_cast<double>(std::abs(model.wheel_on_right - teacher.wheel_on_right));
  });
  out.samples = data.size();
  divide(out.left, out.samples);
  divide(out.right, out.samples);
  out.wheel_on_right /= static_cast<double>(out.samples);
  return out;
}

}  // namespace sparkpilot::train
