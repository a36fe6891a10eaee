// How far a driver monitoring model is from its teacher.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "train/dataset.h"
#include "train/program.h"
#include "train/student.h"

namespace sparkpilot::train {

// Of the driver as if on one side: means of absolute differences.
struct DriverErrors {
  int64_t faces = 0;  // samples in which the teacher sees a face (probability above 0.5); the next two are of these
  double orientation = 0;                                     // degrees, over the three angles
  double position = 0;                                        // shares of the picture, over both axes
  std::vector<std::pair<std::string, double>> probabilities;  // by name, such as "left eye"; of all samples
};

struct DriverScore {
  int64_t samples = 0;
  DriverErrors left, right;
  double wheel_on_right = 0;  // probability
};

// Runs the student as the program has it over a data set of driver monitoring.
DriverScore score_driver(TrainingProgram& program, const Student& student, const Dataset& data);

}  // namespace sparkpilot::train
