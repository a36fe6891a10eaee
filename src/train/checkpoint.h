// A training run on disk, so that it can go on after anything (docs/training.md).
//
// A checkpoint is a folder update_NNNNNNNN of `states.safetensors` (all states of the programs) and `checkpoint.json`
// (the rest). It is written next to its place and renamed, so one of that name is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/program.h"

namespace sparkpilot::train {

// What a run has done.
struct RunProgress {
  int64_t updates = 0;
  int64_t samples = 0;              // the sampler's position
  double seconds = 0;               // of training, without breaks
  int64_t evaluated = -1;           // the number of updates at the last evaluation; -1: none
  std::optional<double> best = {};  // the least loss of an evaluation
  int64_t best_updates = 0;         // and the number of updates there
  int64_t evaluations_since = 0;    // without a better one
  bool operator==(const RunProgress&) const = default;
  // As if there had been no evaluation.
  void forget_evaluations() {
    evaluated = -1;
    best.reset();
    best_updates = evaluations_since = 0;
  }
};

// What a run depends on. With all of it the same, a resumed run gives the bits of one that was never interrupted.
struct RunIdentity {
  uint64_t seed = 0;
  int64_t batch = 0;
  int micro_batches = 1;
  int threads = 0;                  // of each process
  int processes = 1;                // that trained together
  std::string precision = "fp32";   // of products (ProgramOptions::session)
  std::string base = "fp32";        // of frozen weights (StudentOptions::base)
  std::string norms = "factored";   // of DoRA (StudentOptions::norms)
  std::string optimizer, schedule;  // with their numbers
  std::string dataset;              // its fingerprint
  std::string validation = {};      // that of the evaluations' samples
  std::string target = {};          // what is learned, as a text; this and the one above are empty if not known
  std::string teachers = {};        // whose layers are learned, by hashes of their files
  std::string model = {};           // whose weights are trained and which of them: a run goes on with no other
  std::string samples = {};         // how they are taken of the data: augmentation, the first ones alone
  std::string processor, program;   // instruction sets, or the GPU; version
  bool operator==(const RunIdentity&) const = default;
};
// A line for each difference: "number of threads: 2, was 1".
std::vector<std::string> differences(const RunIdentity& now, const RunIdentity& then);
// Whether losses of the evaluations of both may be compared: those of one model.
bool same_losses(const RunIdentity& now, const RunIdentity& then);

struct Checkpoint {
  RunProgress progress;
  RunIdentity identity;
  std::map<std::string, std::vector<KernelDecision>> choices = {};  // ProgramOptions::choices
};

// Writes FOLDER/update_NNNNNNNN, or replaces it, and returns its path. Fails (user) with the system's reason; what was
// there before stays.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                                      const TrainingProgram& program);

// The checkpoints of a folder by their number of updates; empty if there are none or no folder.
std::map<int64_t, std::filesystem::path> find_checkpoints(const std::filesystem::path& folder);

// Reads `checkpoint.json`. Fails (user) naming the file that is damaged.
Checkpoint load_checkpoint(const std::filesystem::path& checkpoint);
// Reads the states into the program. Fails (user), naming the file and the state, if the program has other states than
// the checkpoint, or the file's bytes are not those that were written.
void load_states(const std::filesystem::path& checkpoint, TrainingProgram& program);

// Removes one checkpoint, as far as it can be.
void remove_checkpoint(const std::filesystem::path& checkpoint);

// Removes all but the `keep` newest checkpoints and the one at `best`, and what killed runs have left. One process at a
// time may write into the folder.
void drop_checkpoints(const std::filesystem::path& folder, int keep, int64_t best);

}  // namespace sparkpilot::train
