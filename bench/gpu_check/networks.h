// The networks that gpu_check runs: stand-ins, built on the spot, and files of a folder.
#pragma once

#include <optional>

#include "part.h"
#include "sparkpilot/session.h"

namespace sparkpilot::gpu_check {

struct Network {
  std::string name;
  std::filesystem::path file;  // empty: a stand-in
  Graph load() const;
};

// Tiny ones first and the largest last; none if the filter takes none. `full_size_only`: for times.
std::vector<Network> networks(const Options& options, bool full_size_only = false);
std::vector<std::string> names_of(std::span<const Network> networks);

// A session on "cpu" or a GPU whose shapes are bound and whose inputs are filled from a seed. `load_ms`: until it is
// compiled.
struct Ready {
  Session session;
  double load_ms = 0;
};
struct Timed {
  // Kernels are chosen by times, as the program does it, once in a call of gpu_check; else by rules.
  bool tuned = false;
  bool profile = false, gpu_times = false;  // as in SessionOptions
};
Ready ready(const Graph& graph, const std::string& device, Precision precision, const Timed& timed = {});
void fill(Session& session, uint64_t seed);

// How many nodes a profile has, the time of each op's and of the slowest ones.
void put_nodes(Json& out, Profile profile);

// Copies of all outputs.
std::vector<Tensor> outputs_of(const Session& session);
bool same_bits(std::span<const Tensor> a, std::span<const Tensor> b);

}  // namespace sparkpilot::gpu_check
