// The zoo: stand-ins for openpilot's driving models, made from a seed.
//
// Each has exactly the contract of the real network of its era (inputs, output, slices, metadata) and nearly its size,
// work and mix of operators, written the way PyTorch exports them, in fp16. Their weights are random: they are for
// speed and plumbing, and their outputs mean nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "ir/graph.h"

namespace sparkpilot {

struct ZooEntry {
  std::string_view name;      // "driving_vision"
  std::string_view doc;       // one line
  std::string_view contract;  // whose inputs and outputs it has: "openpilot v0.10.1 to early 2026"
  int64_t parameters = 0;     // weights and biases, two bytes each
  int64_t macs = 0;           // multiply-adds of one run in convolutions and matrix products
  bool big = false;           // only built when asked for by name
};

// All stand-ins, full size ones first.
std::span<const ZooEntry> zoo();

// The entry of that name, or null.
const ZooEntry* find_zoo_entry(std::string_view name);

// The same name and seed give the same bytes on every machine and for any number of threads. Fails (user) on an unknown
// name, listing the known ones. Memory: the weights.
Graph build_zoo_model(std::string_view name, uint64_t seed = 1);

// Whether the file begins like a stand-in that save_onnx() wrote.
bool is_stand_in(const std::filesystem::path& file);
// Says in the metadata of a stand-in that its weights were trained: no longer a stand-in. Others stay as they are.
void mark_as_trained(Graph& graph);

}  // namespace sparkpilot
