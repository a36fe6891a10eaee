// Losses as nodes of a graph.
//
// Values are f32 or f64, both operands of one type; N is the batch. A result is a scalar of that type, averaged over
// the batch; what is summed within an entry is said at each function. Nothing flows to a teacher or target that is an
// input or a constant; differentiate() with respect to the student's values.
//
// A Gaussian or Laplacian head has the layout of openpilot's outputs: n means, then the n natural logarithms of their
// scales. All functions fail (user) if the shapes do not fit each other.
#pragma once

#include <cstdint>

#include "sparkpilot/builder.h"

namespace sparkpilot::train {

// The negative log-likelihood of a Laplacian without its constant, as openpilot's models are distilled: with the error
// e = mean - target and the log scale s,
//   l = |e| exp(-max(s, ln(1e-6 + |e| / 1000))) + max(s, ln 1e-3),
// whose first limit bounds the loss of an outlier and whose second limits the gain of certainty. `raw` is [N, 2n],
// `target` [N, n]; the sum over n. `weight`, if given, broadcasts to [N, n] and multiplies each value's loss.
ValueId laplacian_nll(Builder& b, ValueId raw, ValueId target, ValueId weight = {});

// The same of a Gaussian: (e exp(-max(s, ln 1e-3)))^2 / 2 + max(s, ln 1e-3).
ValueId gaussian_nll(Builder& b, ValueId raw, ValueId target, ValueId weight = {});

// What a Gaussian of the student's loses against the teacher's, KL(teacher || student), so that scales are learned,
// too; both [N, 2n], log scales s limited below at ln 1e-3. The sum over n of
//   s - s_t + (exp(2 (s_t - s)) + ((mean - mean_t) exp(-s))^2 - 1) / 2.
ValueId gaussian_divergence(Builder& b, ValueId student, ValueId teacher);

// Winner takes all over K hypotheses. `raw` is [N, K (2n + S)]: for each hypothesis n means, n log scales and the
// logits of S selections. `target` is [N, S n]. For each selection, with l_k the Laplacian loss of hypothesis k summed
// over n and `best` the hypothesis with the least:
//   l_best + 1e-6 (the sum of the other l_k) + cross-entropy(the selection's K logits, best).
// The sum over selections, each multiplied by `weight` [N, S] if given. openpilot's plan has K = 5, n = 33 x 15 and
// S = 1, its leads of the older eras K = 2, n = 6 x 4 and S = 3.
ValueId laplacian_nll_of_best(Builder& b, ValueId raw, ValueId target, int64_t hypotheses, int64_t selections,
                              ValueId weight = {});
// The means [N, S n] of each selection's most probable hypothesis: what a teacher's output gives as a target.
ValueId most_probable_means(Builder& b, ValueId raw, int64_t hypotheses, int64_t selections);
// The logits [N, S, K] in it.
ValueId hypothesis_logits(Builder& b, ValueId raw, int64_t hypotheses, int64_t selections);

// Binary cross-entropy of logits with probabilities of the same shape; the mean over all elements, of which each is
// multiplied by `weight`, if given (broadcast).
ValueId binary_cross_entropy(Builder& b, ValueId logits, ValueId probabilities, ValueId weight = {});

// Cross-entropy along the last axis of logits with probabilities of the same shape; the mean over all other axes.
ValueId cross_entropy(Builder& b, ValueId logits, ValueId probabilities);

// KL(softmax(teacher / T) || softmax(student / T)) T^2 along the last axis, T the temperature: Hinton et al., 2015,
// "Distilling the knowledge in a neural network". The mean over all other axes. For features, and with T = 1 for the
// probabilities of hypotheses.
ValueId kl_divergence(Builder& b, ValueId student, ValueId teacher, double temperature = 1);

// 1 - cosine of the angle between the last axes; the mean over all others. A norm below 1e-8 counts as 1e-8.
ValueId cosine_distance(Builder& b, ValueId student, ValueId teacher);

// The mean of the squared differences.
ValueId mean_squared_error(Builder& b, ValueId student, ValueId teacher);

// 2 |student - teacher|^2 / (|student|^2 + |teacher|^2 + 1e-12) with the sums of squares of all elements: where the two
// are close, the squared difference in units of the teacher's; at most 4, so that a teacher's zeros cost no more.
ValueId relative_squared_error(Builder& b, ValueId student, ValueId teacher);

}  // namespace sparkpilot::train
