// Models on the same inputs: one in several precisions, or several models. Outputs, and the values inside, are compared
// with the first one's; all are timed in turns.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/interleaved.h"
#include "bench/peer.h"
#include "bench/samples.h"
#include "compare/variant.h"
#include "tensor/difference.h"

namespace sparkpilot::compare {

struct ModelsOptions {
  Samples given = {};                                                 // of the first variant's inputs; or none:
  std::vector<std::pair<std::string, std::string>> inputs = {};       // samples: input's name (or empty), path
  uint64_t seed = 1;                                                  // of inputs without samples
  size_t random = 1;                                                  // samples if no input has any
  std::vector<std::pair<std::string, std::string>> calibration = {};  // samples for int8; empty: the inputs
  bool time = true;                                                   // false: the outputs only
  bool layers = true;                                                 // compare the values inside, too
  InterleavedOptions turns = {};
  PeerOptions peers = {};  // of the variants that peers run
  std::function<void(std::string_view what, double done)> progress = {};
};

struct OutputDifference {
  std::string name, of;   // here and in the first model; different only if they were matched by position
  Difference difference;  // over all samples
};

// A value inside, by the file's name.
struct LayerDifference {
  std::string value, node;  // node: of the compiled graph
  Difference difference;    // on the first sample
};

struct VariantResult {
  Variant variant;
  std::string engine;   // a peer's, with its version
  std::string device;   // a peer's: "CPU"
  std::string not_run;  // why a peer has no results, or no times; empty if it has all
  std::string precision;
  int threads = 0;                           // 0: not known
  Statistics ms;                             // of one run; no samples if not timed
  Ratio ratio;                               // of its time to the first one's; no rounds if not timed
  double load_ms = 0;                        // without the self-check
  std::optional<double> self_check_ms = {};  // Session::self_check_ms()
  std::optional<int64_t> peak_memory_bytes;  // of the process while loading and running once, minus what it had before
  int64_t arena_bytes = 0;                   // activations, outputs and scratch
  std::vector<OutputDifference> outputs;     // that the first one has as well, in its order; none of the first
  std::vector<std::string> not_compared;     // outputs that only one of the two has, or of another shape, and why
  std::vector<LayerDifference> layers;       // in the order in which they are computed
};

struct ModelsComparison {
  size_t samples = 0;
  std::vector<VariantResult> variants;
  std::vector<std::string> notes;  // assumptions
};

// The first of `variants`, which must be one of ours, is what the others are compared with. Fails (user) naming the
// file if one cannot be run, or has other inputs than the first; a peer that fails has `not_run` instead.
ModelsComparison compare_models(const std::vector<Variant>& variants, const ModelsOptions& options = {});

// The layers where the difference grows: each differs at least twice as much as every one before it.
std::vector<LayerDifference> growing(const std::vector<LayerDifference>& layers);

}  // namespace sparkpilot::compare
