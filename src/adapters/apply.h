// An adapter as nodes added to the frozen layers: what training changes, and a model that has not been merged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/adapter.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {

// One tensor of the adapter in a graph: a constant, which training makes a state.
struct AdapterParameter {
  std::string name;  // as in PEFT's file: "base_model.model.<path>.lora_A.weight"
  ValueId value;
  bool decay = true;  // false for magnitudes, which weight decay would pull to zero
};

// |W + s B A| by rows, which DoRA's gradient does not pass: a constant that training renews when A and B have changed.
struct AdapterNorm {
  std::string name;  // "<path>.norm"
  ValueId value;     // f32 [out]
  std::string a, b;  // names of the parameters that it depends on
  // What else it is computed from: the weights [out, in] in f32, the groups, s.
  Tensor weights;
  int64_t groups = 1;
  double scale = 1;
};

struct AppliedAdapter {
  std::vector<AdapterParameter> parameters;
  std::vector<AdapterNorm> norms;  // DoRA only
};

// How a layer's result follows from the adapter. With g = m / |V|, 1 for LoRA, and the base's bias b:
//   branches  y = g (x W + s (x A) B) + b
//   weights   y = x (g (W + s A B)) + b     the product A B once a run, in place of two products a sample
//   cheaper   of both the one that takes fewer multiply-adds in a step of training, for each layer
// Products are transposed where PyTorch's matrices are.
enum class AdapterForm : uint8_t { branches, weights, cheaper };

// Adds the adapter to a graph whose layers were named by name_layers() before any pass, and which prepare() has left in
// f32, at any batch. `layers` are those of match_layers(). Fails (user) if a layer's node is not there, because a pass
// has replaced it.
// `times`: how many times as many samples as the graph has the choice of the cheaper form is for.
AppliedAdapter apply_adapter(Graph& graph, const Adapter& adapter, const std::vector<Layer>& layers,
                             AdapterForm form = AdapterForm::branches, double times = 1);

// Replaces the weights of the layers by merged ones in such a graph, without rounding them to the base's type.
void apply_merged(Graph& graph, const Adapter& adapter, const std::vector<Layer>& layers);

// How |V|^2, V = W + s B A, is computed by rows.
enum class NormForm : uint8_t {
  factored,  // |W|^2 + 2 s <W A', B> + s^2 <B (A A'), B>, at least 0: without making V
  exact,     // from V itself, as PEFT does: where V is far smaller than W the sum above has no digits left
};

// Adds nodes that compute the norm anew from A and B: a product of the size r out in for each layer, to be run once an
// update. The exact form needs memory for V besides.
ValueId renewed_norm(Builder& b, const AdapterNorm& norm, ValueId a, ValueId b_matrix,
                     NormForm form = NormForm::factored);

}  // namespace sparkpilot
