// Folds scales and shifts by channel into the weights and the bias of the layer before or after them.
#include <algorithm>
#include <cmath>

#include "passes/affine.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

bool all_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

// Folds layer(x) * scale + shift. If folded, `id` becomes the new layer.
bool fold_behind(Edit& edit, NodeId& id) {
  auto linear = linear_of(edit, id);
  if (!linear) return false;
  const ValueId y = edit.node(id).outputs[0];
  const NodeId next = edit.only_reader(y);
  if (!next.present() || edit.readers(y).size() != 1) return false;
  const auto affine = affine_of(edit, next, linear->out_axis);
  if (!affine || affine->x != y || static_cast<int64_t>(affine->scale.size()) != linear->out_channels) return false;
  const bool only_shift = std::all_of(affine->scale.begin(), affine->scale.end(), [](double s) { return s == 1; });
  if (only_shift && linear->kind == Linear::matmul) return false;  // it is already an Add of a constant
  if (!only_shift) {
    linear->weights = linear->weights.clone();
    linear->for_weights([&](float& w, int64_t, int64_t out) {
      w = static_cast<float>(static_cast<double>(w) * affine->scale[static_cast<size_t>(out)]);
    });
  }
  linear->bias.resize(affine->scale.size(), 0.0);
  for (size_t c = 0; c < linear->bias.size(); ++c) {
    linear->bias[c] = linear->bias[c] * affine->scale[c] + affine->shift[c];
  }
  id = rewrite(edit, *linear, edit.node(id).inputs[0], edit.node(next).outputs[0]);
  return true;
}

// Folds layer(x * scale + shift) in the same way.
bool fold_before(Edit& edit, NodeId& id) {
  auto linear = linear_of(edit, id);
  if (!linear || linear->in_axis < 0) return false;
  const ValueId x = edit.node(id).inputs[0], y = edit.node(id).outputs[0];
  const NodeId before = edit.maker(x);
  if (!before.present() || edit.only_reader(x) != id || edit.readers(x).size() != 1) return false;
  const auto affine = affine_of(edit, before, linear->in_axis);
  if (!affine || edit.dtype(affine->x) != DType::f32) return false;
  if (static_cast<int64_t>(affine->scale.size()) != linear->in_channels) return false;
  const bool shifted = !all_zero(affine->shift);
  if (shifted && (linear->padded || linear->kind == Linear::matmul)) return false;
  linear->weights = linear->weights.clone();
  linear->bias.resize(static_cast<size_t>(linear->out_channels), 0.0);
  linear->for_weights([&](float& w, int64_t in, int64_t out) {
    const auto i = static_cast<size_t>(in);
    linear->bias[static_cast<size_t>(out)] += linear->alpha * static_cast<double>(w) * affine->shift[i];
    w = static_cast<float>(static_cast<double>(w) * affine->scale[i]);
  });
  id = rewrite(edit, *linear, affine->x, y);
  return true;
}

}  // namespace

int fold_batch_norm(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (int before = -1; before != changes;) {
    before = changes;
    for (NodeId id : graph.order()) {
      // A layer takes all adjacent scales and shifts at once; else a long chain would need a pass over the graph for
      // each.
      while (id.present() && !graph.erased(id) && (fold_behind(edit, id) || fold_before(edit, id))) ++changes;
    }
  }
  graph.compact();
  return changes;
}

}  // namespace sparkpilot
