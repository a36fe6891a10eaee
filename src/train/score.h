// How far a driving model's path and lane lines are from what is known of a data set, compared with two paths that
// take no picture.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "train/dataset.h"
#include "train/program.h"
#include "train/student.h"

namespace sparkpilot::train {

inline constexpr std::array<int, 4> kScoreSeconds{1, 2, 4, 6};
inline constexpr std::array<int, 4> kScoreMetres{20, 40, 60, 80};

// Mean distances in metres from the path that the car drove; 0 where no sample's path is known so far.
struct PathScore {
  std::array<double, 4> distance{}, aside{};  // at kScoreSeconds: of the positions; of them, |y|
  // kScoreMetres ahead: |y| between the paths, whenever they come there. The speed does not matter for it: it is how
  // far the path lies to the side of the driven one where they are drawn.
  std::array<double, 4> beside{};
};

struct Score {
  int64_t samples = 0;
  std::array<int64_t, 4> known{};    // samples whose path is known for kScoreSeconds
  std::array<int64_t, 4> reached{};  // and for kScoreMetres
  PathScore model;
  PathScore keep;      // the car's speed and curvature at the moment, kept: an arc
  PathScore straight;  // the car's speed, straight on
  // Of the model from the path that the student's target has, such as its teacher's, over all samples; `beside` is 0.
  PathScore from_target;
  // |y| between the two inner lane lines and the target's, 20 m ahead, over those that the target says are there.
  double lanes = 0;
  int64_t lane_lines = 0;  // how many
};

// Of each clip in its order, and of all samples last, with an empty name.
struct NamedScore {
  std::string clip;
  Score score;
};

// Runs the student as the program has it over `samples`, those of `data` or the same with other contents. The path is
// the data set's driven one; lane lines are held against the student's target.
std::vector<NamedScore> score(TrainingProgram& program, const Student& student, const Dataset& data,
                              const Samples& samples);

}  // namespace sparkpilot::train
