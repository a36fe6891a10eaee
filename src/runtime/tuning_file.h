// The results of timing (threads and kernels), kept from one process to the next:
//
//   {"sparkpilot": "0.1.0", "cpu": "AMD EPYC",
//    "threads": {"3f09c2a1d47be650": 2, ...},
//    "kernels": {"avx2 avx512: sparkpilot::Gemm f32[1,512] ... threads=2": "onednn",
//                "NVIDIA GB10, 12.1, CUDA 13.0, 0.1.0, 9a3c...: sparkpilot::Conv ...": "tiles 64x64 in 4 parts", ...},
//    "checks": {"NVIDIA GB10, 12.1, CUDA 13.0, 0.1.0, 9a3c..., 71f0...": "passed", ...}}
//
// A key of `threads` identifies a graph and all options that it was compiled with; a key of `kernels` identifies a kind
// of node (ir/problem_key.h) and the instruction sets, or the GPU with its driver and the program's GPU code
// (runtime/gpu_key.h); a key of `checks` the latter and a model with its weights (runtime/device_choice.h). A file
// written by another version or for another processor is ignored and overwritten. Losing the file only costs about a
// second at the next compilation, so no function here fails.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

class TuningFile {
 public:
  static constexpr size_t kMax = 512;                                // entries of `threads`; the oldest are dropped
  static constexpr size_t kMaxChecks = 128;                          // of `checks`
  static constexpr size_t kMaxKernels = 2048;                        // of `kernels`
  using Kernels = std::vector<std::pair<std::string, std::string>>;  // key, name

  // Reads `path`; with an empty path nothing is kept. `cpu` is the processor's name.
  TuningFile(std::filesystem::path path, std::string cpu);

  // Why the file at the path is not used; empty if it is used or does not exist.
  const std::string& ignored() const { return ignored_; }
  std::optional<int> threads(const std::string& key) const;
  // In the order in which they were found. A name need not be the name of an existing kernel.
  const Kernels& kernels() const { return kernels_; }
  // Merges with what other processes have written meanwhile, and replaces the file atomically; false if that fails.
  bool keep_threads(const std::string& key, int threads);
  // What a self-check on a GPU found, by content_key() and the GPU: kPassed, or why the CPU is taken. Empty: not known.
  static constexpr const char* kPassed = "passed";
  std::string check(const std::string& key) const;
  bool keep_check(const std::string& key, const std::string& found);
  bool keep_kernels(const Kernels& found);
  // Whether results could be kept; found by writing the present contents again.
  bool is_writable();

 private:
  void read();
  bool write();

  std::filesystem::path path_;
  std::string cpu_, ignored_;
  std::vector<std::pair<std::string, int>> threads_;  // oldest first, as in `kernels_`
  Kernels kernels_;
  std::vector<std::pair<std::string, std::string>> checks_;
};

// Identifies the graph (without names; large constants by their shapes) with the shapes of its inputs, the options of
// the passes, and the processor's instruction sets and count.
std::string tuning_key(const Graph& graph, const PassOptions& passes);
// The same with the contents of all constants and without the processor, with `also`.
std::string content_key(const Graph& graph, const PassOptions& passes, std::string_view also);

}  // namespace sparkpilot
