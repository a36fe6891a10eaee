// What is true of a frame, in the form in which a driving model says it.
#pragma once

#include <cstdint>
#include <vector>

#include "route/log/driven_path.h"
#include "route/synth/truth.h"
#include "train/dataset_clip.h"

namespace sparkpilot::train {

// The flat output of a network that knows: each head as its parser reads it (route/contract/outputs.h), with logits for
// probabilities; log scales are 0, and so are heads that nothing is known of (is_labelled()). The truth's delays must
// be those of the model's action_t. A plan or lead of several hypotheses has the truth in the first and a logit of 10
// there; two hypotheses cannot hold three leads, the third selection then is the second one's.
std::vector<float> label_output(const DatasetNetwork& network, const drive::synth::FrameTruth& truth);
// Whether label_output() knows the head.
bool is_labelled(const std::string& head);

// Fills plan and valid with the path from here.
void take_driven(const drive::synth::FrameTruth& truth, Targets& out);
// The same from a log's poses. `time`: the end of the frame, ns. Velocities and accelerations are along the car's own
// axes; nothing is known of vertical motion.
void take_driven(const drive::DrivenPath& path, uint64_t time, Targets& out);

}  // namespace sparkpilot::train
