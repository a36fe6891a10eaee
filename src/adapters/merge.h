// Adapters folded into the weights of their base, and taken out again.
#pragma once

#include <string>
#include <vector>

#include "adapters/adapter.h"

namespace sparkpilot {

// The weights W' of one layer with its adapter (adapters/adapter.h), computed in double and returned as f32 with the
// shape of `weights`. With `by` other than 1 the change is scaled: W + by (W' - W).
Tensor merged_weights(const Tensor& weights, const Layer& layer, const Adapter& adapter, const AdapterLayer& mine,
                      double by = 1);

// |W + s B A| by rows, f32 [out].
Tensor norm_of(const Tensor& weights, const Layer& layer, const Adapter& adapter, const AdapterLayer& mine);

// Changes the weights of the layers; each keeps its type. Several adapters add their changes to the base's weights.
// Fails (user) as match_layers() does, and if a merged weight is not finite in the layer's type.
struct ScaledAdapter {
  const Adapter* adapter = nullptr;
  double by = 1;
};
// The graph's metadata then says what was merged, as far as unmerge_adapter() needs it; of a base that was itself
// merged it keeps what it said before.
void merge_adapters(Graph& base, const std::vector<ScaledAdapter>& adapters);

// Takes the adapter that was merged last out of a graph, where merge_adapters() merged it alone and with `by` 1: the
// base's weights, but for what their type has rounded away. Fails (user) if the graph's metadata names no such merge,
// or another adapter.
void unmerge_adapter(Graph& merged, const Adapter& adapter);
// For weights that are no longer those of a merge.
void forget_merges(Graph& graph);

// How far two adapters of one base are apart, by layer.
struct LayerDifference {
  std::string path;
  int64_t rank_a = 0, rank_b = 0;  // 0: the adapter does not change the layer
  // |dW_a|, |dW_b| and |dW_a - dW_b| where dW are the changes of the weights, divided by |W|.
  double change_a = 0, change_b = 0, difference = 0;
};
std::vector<LayerDifference> compare_adapters(const Graph& base, const Adapter& a, const Adapter& b);

}  // namespace sparkpilot
