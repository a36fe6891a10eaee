// Which networks are plants of TinyPhysics' kind, and how a session runs one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sparkpilot/session.h"

namespace sparkpilot::sim {

inline constexpr int64_t kPlantFeatures = 4;  // of a row of states
inline constexpr const char* kProbabilities = "sparkpilot_probabilities";

// A network of the kind: two inputs by whatever names, f32 [b, context, 4] (states) and i64 or i32 [b, context]
// (tokens), and one output, the logits of bins, f32 [b, bins] or [b, positions, bins], of which the last position
// counts. b is open or fixed, context 1 to 100 (20 if it is open), bins 2 to 32768.
struct PlantNetwork {
  std::string states, tokens;  // the inputs' names
  bool narrow = false;         // tokens are i32
  int64_t context = 0, bins = 0;
  // Routes that the file takes: 0: any number; 1: a session multiplies it; more: that many.
  int64_t routes = 0;
  int64_t batch = 0;            // routes that a session runs at once; choose_batch() sets it
  SessionOptions session = {};  // whose only output is kProbabilities [batch, bins], softmax(logits / temperature)
};

// Looks at the graph, whose output becomes kProbabilities. Fails (user) if it is not of the kind, in one sentence with
// what was expected, what it has, and the difference.
PlantNetwork plant_network(Graph& graph, const std::string& name, double temperature);

// `batch`: empty: the network's own, or `usual` if that is any. Fails (user) on another than its own.
void choose_batch(PlantNetwork& plant, const std::string& name, std::optional<int64_t> batch, int64_t usual);

}  // namespace sparkpilot::sim
