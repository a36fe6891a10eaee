// What was found by trying, kept from one process to the next:
//
//   {"sparkpilot": "0.1.0", "cpu": "AMD EPYC", "threads": {"3f09c2a1d47be650": 2, ...}}
//
// A key stands for a graph and all that it was compiled with. What another version wrote, or another processor, is of
// no use and is written over. Losing the file costs a fraction of a second at the next compilation, so nothing here
// fails.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

class TuningFile {
 public:
  static constexpr size_t kMost = 512;  // entries; the oldest go

  // Reads `path`; an empty one keeps nothing. `cpu` is the processor's name.
  TuningFile(std::filesystem::path path, std::string cpu);

  // Why what stands at the path is not used; empty where it is, or where nothing is there.
  const std::string& ignored() const { return ignored_; }
  std::optional<int> threads(const std::string& key) const;
  // Written beside and renamed, with what other processes have added meanwhile; false where that cannot be done.
  bool keep_threads(const std::string& key, int threads);

 private:
  void read();

  std::filesystem::path path_;
  std::string cpu_, ignored_;
  std::vector<std::pair<std::string, int>> entries_;  // the oldest first
};

// Stands for the graph (names apart, large constants by their shapes) with its inputs' shapes, for what passes are to
// do with it, and for the processor's instruction sets and count.
std::string tuning_key(const Graph& graph, const PassOptions& passes);

}  // namespace sparkpilot
