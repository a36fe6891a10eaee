// Inference, axis map and cost that LSTM, GRU and RNN share.
#pragma once

#include "ops/cpu/recurrent/recurrent.h"

namespace sparkpilot {

void infer_recurrent(InferContext& c, const RecurrentKind& kind);
AxisSource axes_of_recurrent(const Problem& p, int output, int axis, size_t input);
double recurrent_cost(const Problem& p, int64_t gates);

}  // namespace sparkpilot
