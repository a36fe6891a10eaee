// A few samples as pictures, with what a model says of them and its target: before training and after.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "route/draw/page.h"
#include "train/dataset.h"
#include "train/student.h"

namespace sparkpilot::train {

class KeyFrames {
 public:
  // `count` samples, or all if there are fewer, spread evenly over `data`, which must outlive it. Fails (user) if the
  // student has a head that no era has.
  KeyFrames(const Dataset& data, const Student& student, int64_t count);

  // Draws the student as the program has it now. `when`: "before training". `target`: what the other colour shows. Of
  // the program's states nothing changes.
  void draw(TrainingProgram& program, bool average, const std::string& when, const std::string& target);

  // Sample by sample, each in the order of draw().
  std::vector<drive::PagePicture> pictures() const;

 private:
  drive::YuvImage picture_of(const std::vector<Tensor>& sample) const;

  const Dataset& data_;
  std::vector<Student::Output> outputs_;
  std::vector<drive::OutputParser> parsers_;  // of each of them
  std::vector<int64_t> chosen_;
  std::vector<std::vector<drive::PagePicture>> drawn_;  // of each of them
};

}  // namespace sparkpilot::train
