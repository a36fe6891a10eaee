// New adapters: which layers, which ranks, and what their matrices begin with.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "adapters/adapter.h"
#include "adapters/matrices.h"
#include "base/error.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

// Ranks that a size allows, at most: beyond, singular values of random matrices tell little.
constexpr int64_t kMostByBytes = 16;
constexpr int64_t kLargestRank = 1 << 16;

int64_t magnitudes(const Layer& layer, AdapterKind kind) { return kind == AdapterKind::dora ? layer.out() : 0; }

// Elements that one more step of rank takes: a row of A for each group, and a column of B.
int64_t step_elements(const Layer& layer) { return layer.groups * layer.in() + layer.out(); }

// One layer among those that share the bytes.
struct Share {
  size_t layer;
  std::vector<double> worth;  // of each next step, for its bytes
  size_t steps = 0;
};

// The rank of each layer; `candidates` index `layers`.
std::vector<int64_t> ranks_within(const Graph& base, const std::vector<Layer>& layers,
                                  const std::vector<size_t>& candidates, const AdapterOptions& options) {
  const int64_t element = bits(options.stored) / 8;
  const auto bytes_of_step = [&](const Share& share) {
    const Layer& layer = layers[share.layer];
    return element * (step_elements(layer) + (share.steps == 0 ? magnitudes(layer, options.kind) : 0));
  };
  std::vector<Share> shares;
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const size_t i : candidates) {
    const Layer& layer = layers[i];
    Share share{i, {}, 0};
    smallest = std::min(smallest, bytes_of_step(share));
    const Tensor weights = layer_weights(base, layer);
    const int64_t most = std::min({kMostByBytes, layer.in(), layer.out() / layer.groups});
    double all = 0;
    for (const float w : weights.data<float>()) all += static_cast<double>(w) * static_cast<double>(w);
    for (const double s : largest_singular_values(weights.data<float>(), layer.out(), layer.in(), most)) {
      const double part = all > 0 ? s * s / all : 0;
      share.worth.push_back(part * static_cast<double>(layer.weight.elements()) /
                            static_cast<double>(step_elements(layer)));
    }
    shares.push_back(std::move(share));
  }
  if (smallest > options.max_bytes) {
    fail("no layer fits {} bytes at rank 1; the smallest size that works is {} bytes", options.max_bytes, smallest);
  }
  int64_t left = options.max_bytes;
  for (;;) {
    Share* best = nullptr;
    for (Share& share : shares) {
      if (share.steps >= share.worth.size() || bytes_of_step(share) > left) continue;
      if (!best || share.worth[share.steps] > best->worth[best->steps]) best = &share;
    }
    if (!best) break;
    left -= bytes_of_step(*best);
    ++best->steps;
  }
  std::vector<int64_t> out(layers.size());
  for (const Share& share : shares) {
    out[share.layer] = static_cast<int64_t>(share.steps) * layers[share.layer].groups;
  }
  return out;
}

// A rank above the layer's own is legal, as in PEFT: it only wastes bytes.
void check_rank(const Layer& layer, int64_t rank) {
  if (rank < 1 || rank > kLargestRank) fail("rank {}: expected 1 to {}", rank, kLargestRank);
  if (rank % layer.groups) {
    fail("rank {} cannot be divided among the {} groups of \"{}\"; choose a multiple, or leave it out by the target",
         rank, layer.groups, layer.path);
  }
}

AdapterLayer new_layer(const Graph& base, const Layer& layer, int64_t rank, const AdapterOptions& options,
                       Random& random) {
  Shape a = layer.weight, b = layer.weight, m{layer.out()};
  a.set(0, rank);
  b.set(1, rank / layer.groups);
  for (int axis = 2; axis < b.rank(); ++axis) b.set(axis, 1);
  if (layer.conv) {
    m = Shape{1, layer.out()};
    for (int axis = 2; axis < b.rank(); ++axis) m = m.inserted(axis, 1);
  }
  AdapterLayer out{.path = layer.path, .a = Tensor(DType::f32, a), .b = Tensor::zeros(DType::f32, b)};
  out.alpha = options.alpha.value_or(static_cast<double>(rank));
  // Kaiming's uniform numbers with a = sqrt 5: a bound of sqrt(6 / ((1 + 5) inputs)).
  const double bound = 1 / std::sqrt(static_cast<double>(layer.in()));
  for (float& x : out.a.data<float>()) x = static_cast<float>(random.uniform(-bound, bound));
  if (options.kind == AdapterKind::dora) {
    const Tensor weights = layer_weights(base, layer);
    const std::vector<double> wide(weights.data<float>().begin(), weights.data<float>().end());
    out.magnitude = Tensor(DType::f32, m);
    std::ranges::transform(row_norms(wide, layer.out()), out.magnitude.data<float>().begin(),
                           [](double norm) { return static_cast<float>(norm); });
  }
  return out;
}

}  // namespace

Adapter create_adapter(const Graph& base, const AdapterOptions& options, AdapterPlan* plan) {
  const std::vector<Layer> layers = find_layers(base);
  const std::vector<bool> meant = matching_layers(layers, options.target.empty() ? ".*" : options.target);
  AdapterPlan rows;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < layers.size(); ++i) {
    rows.rows.push_back({layers[i].path, layers[i].weight, 0, meant[i] ? layers[i].cannot : "not a target"});
    if (meant[i] && layers[i].cannot.empty()) candidates.push_back(i);
  }
  if (layers.empty()) fail("the model has no convolution or product with constant weights");
  if (std::ranges::find(meant, true) == meant.end()) {
    fail("no layer's path matches \"{}\"; the first is \"{}\"", options.target, layers[0].path);
  }
  if (candidates.empty()) {
    const auto& first = rows.rows[static_cast<size_t>(std::ranges::find(meant, true) - meant.begin())];
    fail("no layer can be adapted; \"{}\": {}", first.path, first.why_not);
  }
  std::vector<int64_t> ranks(layers.size());
  if (options.rank) {
    for (const size_t i : candidates) {
      check_rank(layers[i], *options.rank);
      ranks[i] = *options.rank;
    }
  } else {
    ranks = ranks_within(base, layers, candidates, options);
  }
  Adapter out{.kind = options.kind,
              .layers = {},
              .stored = options.stored,
              .base_name = base.name,
              .base_fingerprint = base_fingerprint(base),
              .tags = {}};
  Random random(options.seed);
  for (const size_t i : candidates) {
    rows.rows[i].rank = ranks[i];
    if (ranks[i] == 0) rows.rows[i].why_not = "no bytes left";
    else out.layers.push_back(new_layer(base, layers[i], ranks[i], options, random));
  }
  if (plan) *plan = std::move(rows);
  return out;
}

}  // namespace sparkpilot
