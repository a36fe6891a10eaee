// Recognises the patterns that exporters write instead of an op, each from one node in its middle or at its end. Every
// function returns whether it replaced the pattern by one op.
#pragma once

#include "passes/edit.h"

namespace sparkpilot {

// Gelu (tanh and erf), Swish, HardSwish, HardSigmoid, Mish from a Tanh, Erf, Sigmoid, HardSigmoid or Clip.
bool recognise_activation(Edit& edit, NodeId id);
// LayerNormalization and RMSNormalization from their Div or Mul.
bool recognise_norm(Edit& edit, NodeId id);
// The scale and the shift after a LayerNormalization or RMSNormalization become its operands.
bool recognise_norm_affine(Edit& edit, NodeId id);
// sparkpilot::L2Normalize from its Div.
bool recognise_l2(Edit& edit, NodeId id);
// Queries, keys and values that are stacked and then split: replaces Reshape to [batch, rows, parts, heads, size],
// Transpose to [parts, batch, heads, rows, size], Split by a Split of the columns followed by a Transpose of each
// part's heads.
bool unstack_heads(Edit& edit, NodeId id);
// Attention from its Softmax.
bool recognise_attention(Edit& edit, NodeId id);
// An Attention between Transposes that split and join its heads becomes one Attention on [batch, rows, heads * size].
bool pack_attention(Edit& edit, NodeId id);

}  // namespace sparkpilot
