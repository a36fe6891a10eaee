// The losses of a driving model's heads (docs/architecture.md: openpilot's outputs by its own slices).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sparkpilot/builder.h"
#include "sparkpilot/onnx.h"

namespace sparkpilot::train {

// How a student's features (`hidden_state`) are compared with the teacher's.
enum class FeatureLoss {
  kl,      // kl_divergence at temperature 4
  cosine,  // cosine_distance
  l2,      // mean_squared_error
};

struct HeadLoss {
  std::string head;   // as in the slices
  ValueId loss;       // a scalar
  bool known = true;  // false: only its values are compared, as what they mean is not known
};

// A loss for each head that the slices name. `raw` [N, width] is the student's output, `teacher` another of the same
// layout: that of a network, or labels in its form (logits for probabilities; scales are not read). In train/losses.h:
//   plan, lead                    laplacian_nll, or laplacian_nll_of_best where the head has several hypotheses
//   lane_lines, road_edges, pose, road_transform, sim_pose, wide_from_device_euler, desired_curvature
//                                 laplacian_nll; the teacher's means are the target
//   action                        laplacian_nll, or mean_squared_error where it has no scales
//   lane_lines_prob, lead_prob, meta   binary_cross_entropy with the teacher's probabilities
//   desire_state, desire_pred     cross_entropy with the teacher's probabilities, in groups of 8
//   hidden_state                  as `features` says
// and of a driver monitoring model, which is one with a head face_descs_lhd:
//   face_descs_lhd, face_descs_rhd    gaussian_divergence of three angles and two positions; two values mean nothing
//   wheel_on_right, *_prob_lhd, *_prob_rhd   binary_cross_entropy with the teacher's probabilities
//   features                      as `features` says
//   others                        mean_squared_error
// The losses of lane lines and leads are multiplied by the teacher's probability that the line or lead exists, if it
// has that head. Fails (user) on a slice that does not fit and on a head of an unknown width; a driving model's unknown
// heads have no loss.
std::vector<HeadLoss> head_losses(Builder& b, const OutputSlices& slices, ValueId raw, ValueId teacher,
                                  FeatureLoss features = FeatureLoss::kl);

// The sum of the losses, each multiplied by its head's weight; 1 where none is given, and left out where it is 0. Fails
// (user) on a weight for a head that is not there, listing those that are, and if nothing is left.
ValueId weighted_sum(Builder& b, const std::vector<HeadLoss>& losses, const std::map<std::string, double>& weights);

}  // namespace sparkpilot::train
