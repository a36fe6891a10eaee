// What was found by trying, kept from one process to the next:
//
//   {"sparkpilot": "0.1.0", "cpu": "AMD EPYC",
//    "threads": {"3f09c2a1d47be650": 2, ...},
//    "kernels": {"avx2 avx512: sparkpilot::Gemm f32[1,512] ... threads=2": "onednn", ...}}
//
// A key of `threads` stands for a graph and all that it was compiled with, one of `kernels` for a kind of node
// (ir/problem_key.h) and the instruction sets. What another version wrote, or another processor, is of no use and is
// written over. Losing the file costs a second at the next compilation, so nothing here fails.
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
  static constexpr size_t kMost = 512;                               // entries of `threads`; the oldest go
  static constexpr size_t kMostKernels = 2048;                       // of `kernels`
  using Kernels = std::vector<std::pair<std::string, std::string>>;  // key, name

  // Reads `path`; an empty one keeps nothing. `cpu` is the processor's name.
  TuningFile(std::filesystem::path path, std::string cpu);

  // Why what stands at the path is not used; empty where it is, or where nothing is there.
  const std::string& ignored() const { return ignored_; }
  std::optional<int> threads(const std::string& key) const;
  // In the order in which they were found. The names may be of no kernel.
  const Kernels& kernels() const { return kernels_; }
  // Written beside and renamed, with what other processes have added meanwhile; false where that cannot be done.
  bool keep_threads(const std::string& key, int threads);
  bool keep_kernels(const Kernels& found);
  // Whether something could be kept, found by writing what is there again.
  bool is_writable();

 private:
  void read();
  bool write();

  std::filesystem::path path_;
  std::string cpu_, ignored_;
  std::vector<std::pair<std::string, int>> threads_;  // the oldest first, as in `kernels_`
  Kernels kernels_;
};

// Stands for the graph (names apart, large constants by their shapes) with its inputs' shapes, for what passes are to
// do with it, and for the processor's instruction sets and count.
std::string tuning_key(const Graph& graph, const PassOptions& passes);

}  // namespace sparkpilot
