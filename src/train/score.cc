#include "train/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "route/contract/outputs.h"
#include "train/trainer.h"

namespace sparkpilot::train {
namespace {

using namespace drive;  // NOLINT(google-build-using-namespace): openpilot's sizes

constexpr double kLineMetres = 20;
using Point = std::array<double, 3>;
using Position = double (*)(int);

// Linear between the points around a place.
double between(double place, Position position, const std::function<double(int)>& value) {
  int next = 1;
  while (next + 1 < kPoints && position(next) < place) ++next;
  const double share = (place - position(next - 1)) / (position(next) - position(next - 1));
  return value(next - 1) + share * (value(next) - value(next - 1));
}

Point point_of(std::span<const float> plan, double seconds) {
  Point out{};
  for (size_t k = 0; k < out.size(); ++k) {
    out[k] = between(seconds, plan_time, [&](int i) {
      return static_cast<double>(plan[static_cast<size_t>(i) * kPlanWidth + kPosition + k]);
    });
  }
  return out;
}

Point arc(double speed, double yaw_rate, double seconds) {
  const double way = speed * seconds, angle = yaw_rate * seconds;
  if (std::abs(angle) < 1e-9) return {way, 0, 0};
  return {way * std::sin(angle) / angle, way * (1 - std::cos(angle)) / angle, 0};
}

using Path = std::array<Point, kPoints>;

Path path_of(std::span<const float> plan) {
  Path out{};
  for (size_t i = 0; i < out.size(); ++i) {
    std::copy_n(plan.begin() + static_cast<std::ptrdiff_t>(i * kPlanWidth + kPosition), 3, out[i].begin());
  }
  return out;
}

Path arc_path(double speed, double yaw_rate) {
  Path out{};
  for (int i = 0; i < kPoints; ++i) out[static_cast<size_t>(i)] = arc(speed, yaw_rate, plan_time(i));
  return out;
}

// y where a path is first so far ahead, its last one's if it never is.
double y_ahead(const Path& path, double metres) {
  for (size_t i = 1; i < path.size(); ++i) {
    const Point &before = path[i - 1], &next = path[i];
    if (next[0] < metres) continue;
    const double share = next[0] > before[0] ? std::clamp((metres - before[0]) / (next[0] - before[0]), 0.0, 1.0) : 1;
    return before[1] + share * (next[1] - before[1]);
  }
  return path.back()[1];
}

// Sums first, then means.
struct Sums {
  Score score;

  void add(PathScore& to, size_t at, const Point& path, const Point& driven) {
    to.distance[at] += std::hypot(path[0] - driven[0], path[1] - driven[1], path[2] - driven[2]);
    to.aside[at] += std::abs(path[1] - driven[1]);
  }
  void add(const Sums& other) {
    const auto add_path = [](PathScore& to, const PathScore& from) {
      for (size_t i = 0; i < kScoreSeconds.size(); ++i) {
        to.distance[i] += from.distance[i], to.aside[i] += from.aside[i], to.beside[i] += from.beside[i];
      }
    };
    score.samples += other.score.samples;
    for (size_t i = 0; i < kScoreSeconds.size(); ++i) {
      score.known[i] += other.score.known[i], score.reached[i] += other.score.reached[i];
    }
    add_path(score.model, other.score.model);
    add_path(score.keep, other.score.keep);
    add_path(score.straight, other.score.straight);
    add_path(score.from_target, other.score.from_target);
    score.lanes += other.score.lanes;
    score.lane_lines += other.score.lane_lines;
  }
  Score means() const {
    Score out = score;
    for (size_t i = 0; i < kScoreSeconds.size(); ++i) {
      const auto count = static_cast<double>(std::max<int64_t>(1, out.known[i]));
      const auto reached = static_cast<double>(std::max<int64_t>(1, out.reached[i]));
      for (PathScore* path : {&out.model, &out.keep, &out.straight}) {
        path->distance[i] /= count, path->aside[i] /= count, path->beside[i] /= reached;
      }
      const auto samples = static_cast<double>(std::max<int64_t>(1, out.samples));
      out.from_target.distance[i] /= samples, out.from_target.aside[i] /= samples;
    }
    out.lanes /= static_cast<double>(std::max<int64_t>(1, out.lane_lines));
    return out;
  }
};

double line_y(const ModelOutputs& outputs, size_t line) {
  return between(kLineMetres, line_distance, [&](int i) {
    return static_cast<double>(outputs.lane_lines.mean[(line * kPoints + static_cast<size_t>(i)) * 2]);
  });
}

void add_beside(Score& score, const Path& path, const Path& keep, const Path& straight, const Path& truth,
                std::span<const float> valid) {
  for (size_t i = 0; i < kScoreMetres.size(); ++i) {
    const double metres = kScoreMetres[i];
    // The first point there must be known, and so are those before it.
    const auto there = std::ranges::find_if(truth, [&](const Point& point) { return point[0] >= metres; });
    if (there == truth.end() || !(valid[static_cast<size_t>(there - truth.begin())] > 0.999F)) continue;
    ++score.reached[i];
    const double y = y_ahead(truth, metres);
    score.model.beside[i] += std::abs(y_ahead(path, metres) - y);
    score.keep.beside[i] += std::abs(y_ahead(keep, metres) - y);
    score.straight.beside[i] += std::abs(y_ahead(straight, metres) - y);
  }
}

void add_sample(Sums& sums, const ModelOutputs& model, const ModelOutputs& target, bool has_plan, bool has_lanes,
                std::span<const float> driven, std::span<const float> valid) {
  ++sums.score.samples;
  const double speed = static_cast<double>(driven[kVelocity]), rate = static_cast<double>(driven[kOrientationRate + 2]);
  for (size_t i = 0; has_plan && i < kScoreSeconds.size(); ++i) {
    const double seconds = kScoreSeconds[i];
    const Point path = point_of(model.plan.mean, seconds);
    sums.add(sums.score.from_target, i, path, point_of(target.plan.mean, seconds));
    if (between(seconds, plan_time, [&](int k) { return static_cast<double>(valid[static_cast<size_t>(k)]); }) <
        0.999) {
      continue;
    }
    ++sums.score.known[i];
    const Point truth = point_of(driven, seconds);
    sums.add(sums.score.model, i, path, truth);
    sums.add(sums.score.keep, i, arc(speed, rate, seconds), truth);
    sums.add(sums.score.straight, i, arc(speed, 0, seconds), truth);
  }
  if (has_plan) {
    add_beside(sums.score, path_of(model.plan.mean), arc_path(speed, rate), arc_path(speed, 0), path_of(driven), valid);
  }
  for (const size_t line : {1u, 2u}) {
    if (!has_lanes || !(target.lane_line_probs[line] > 0.5F)) continue;
    ++sums.score.lane_lines;
    sums.score.lanes += std::abs(line_y(model, line) - line_y(target, line));
  }
}

}  // namespace

std::vector<NamedScore> score(TrainingProgram& program, const Student& student, const Dataset& data,
                              const Samples& samples) {
  const std::vector<Student::Output> outputs = student.outputs();
  const auto fields = data.fields();
  std::vector<OutputParser> parsers;
  std::vector<size_t> targets;
  std::set<std::string> heads;
  for (const Student::Output& output : outputs) {
    parsers.emplace_back(output.slices, output.width, output.role);
    heads.insert(parsers.back().heads().begin(), parsers.back().heads().end());
    targets.push_back(place_of(fields, output.target));
  }
  const size_t driven = place_of(fields, "driven.plan"), valid = place_of(fields, "driven.valid");
  std::vector<int64_t> all(static_cast<size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Sums> clips(data.clips().size());
  evaluate_samples(program, samples, all, false, [&](size_t place, int64_t entry) {
    const std::vector<Tensor> sample = sample_of(data, all[place]);
    ModelOutputs model, target;
    for (size_t i = 0; i < parsers.size(); ++i) {
      parsers[i].parse(output_of(program, outputs[i].role, entry, false), model);
      parsers[i].parse(sample[targets[i]].data<float>(), target);
    }
    const auto at = &data.clip_of(all[place]) - data.clips().data();
    add_sample(clips[static_cast<size_t>(at)], model, target, heads.contains("plan"), heads.contains("lane_lines_prob"),
               sample[driven].data<float>(), sample[valid].data<float>());
  });
  std::vector<NamedScore> out;
  Sums whole;
  for (size_t i = 0; i < clips.size(); ++i) {
    whole.add(clips[i]);
    out.push_back({data.clips()[i].name, clips[i].means()});
  }
  out.push_back({"", whole.means()});
  return out;
}

}  // namespace sparkpilot::train
