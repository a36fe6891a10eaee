// How far a driving model's path and lane lines are from a target's, in metres, as values of a graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sparkpilot/builder.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::train {

// Scalars f32, means over the batch; only of heads that the slices have. `raw` and `target` are outputs [N, width] in
// the layout of the slices (train/driving_losses.h), f32. Of several hypotheses the most probable counts.
//   plan_error_1s, _2s, _4s, _6s     distance of the positions (x, y, z) at these times, linear between a plan's points
//   driven_error_1s, ...             the same from the driven path `driven` [N, 33, 15], over the entries whose points
//                                    around that time are known (`valid` [N, 33], 1 or 0). If given.
//   lane_error_20m                   |y| between the two inner lane lines and the target's, 20 m ahead, over those that
//                                    the target says are there
//   driven_error_1s.known, ..., lane_error_20m.known   of how many the error is the mean; without any it is 0
std::vector<std::pair<std::string, ValueId>> driving_errors(Builder& b, const OutputSlices& slices, ValueId raw,
                                                            ValueId target, ValueId driven = {}, ValueId valid = {});

}  // namespace sparkpilot::train
