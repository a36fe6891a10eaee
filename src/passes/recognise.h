// The patterns that exporters leave behind, each found from one node in its middle or at its end. Every function
// returns whether it put one op in the place of many.
#pragma once

#include "passes/edit.h"

namespace sparkpilot {

// Gelu (tanh and erf), Swish, HardSwish, HardSigmoid, Mish from a Tanh, Erf, Sigmoid, HardSigmoid or Clip.
bool recognise_activation(Edit& edit, NodeId id);
// LayerNormalization and RMSNormalization from their Div or Mul.
bool recognise_norm(Edit& edit, NodeId id);
// The scale and the shift behind a LayerNormalization or RMSNormalization.
bool recognise_norm_affine(Edit& edit, NodeId id);
// sparkpilot::L2Normalize from its Div.
bool recognise_l2(Edit& edit, NodeId id);
// Queries, keys and values stacked before they are split (Reshape to [batch, rows, parts, heads, size], Transpose to
// [parts, batch, heads, rows, size], Split) as a Split of the columns, and the heads of each part moved.
bool unstack_heads(Edit& edit, NodeId id);
// Attention from its Softmax.
bool recognise_attention(Edit& edit, NodeId id);
// An Attention between Transposes that split and join its heads as one on [batch, rows, heads * size].
bool pack_attention(Edit& edit, NodeId id);

}  // namespace sparkpilot
