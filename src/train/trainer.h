// The loop of training: batches, updates, evaluation, checkpoints, and why it ended.
//
//   const TrainingSummary summary = train(program, samples, &validation, {.out = "run", .steps = 1000});
//
// Files in `out` (docs/training.md): checkpoints/, metrics.jsonl, events.out.tfevents.*, summary.json, and not_finite/
// where training met NaN or infinity.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "train/checkpoint.h"
#include "train/program.h"
#include "train/samples.h"

namespace sparkpilot::train {

// The learning rate by the number of updates before: linear from 0 to `rate` over the warm-up, then constant, or half a
// cosine down to `last` of it at the last update.
struct Schedule {
  enum Form : uint8_t { constant, cosine } form = cosine;
  double rate = 1e-4;
  int64_t warmup = 0;  // updates
  double last = 0;     // a part of `rate`
};
// `updates`: of the whole run, for a cosine.
double rate_at(const Schedule& schedule, int64_t update, int64_t updates);

// What one update did.
struct TrainingStep {
  int64_t update = 0;                                   // from 1
  std::optional<int64_t> updates;                       // of the whole run, if it is limited by these or epochs
  double epoch = 0;                                     // of the training samples, with its fraction
  double loss = 0, rate = 0, norm = 0;                  // the mean over micro-batches; the gradient's before clipping
  std::vector<std::pair<std::string, double>> reports;  // means of those of one element
  double seconds = 0;                                   // of training so far, earlier runs included
  double samples_per_second = 0;                        // since the run began or was resumed
  double waited = 0;                                    // the part of the time that it waited for samples
  std::optional<double> seconds_left = {};
  std::optional<double> evaluation_loss = {};  // if this update was followed by an evaluation
};

enum class Ended : uint8_t {
  updates,      // the limit by updates or epochs
  minutes,      // the limit by time
  early,        // the evaluation did not improve any more
  interrupted,  // TrainerOptions::interrupt
  not_finite,   // the loss, a gradient or what is trained is NaN or infinite
};
// "updates", "minutes", "early stop", "interrupted", "not finite".
std::string_view name(Ended ended);

struct TrainerOptions {
  std::filesystem::path out;
  Schedule schedule = {};
  // Limits; 0: none. One of them must be given, and for a cosine the first or the second.
  int64_t updates = 0;
  double epochs = 0;
  double minutes = 0;
  double clip = 1;                 // of the gradient's norm; 0: none
  uint64_t seed = 0;               // of the samples' order
  std::string base = "fp32";       // precision of the student's frozen weights, for RunIdentity
  std::string norms = "factored";  // form of DoRA's norms, for RunIdentity
  int64_t evaluate_every = 0;      // updates; 0: once an epoch
  bool evaluate_average = false;   // the moving average instead of the parameters
  int patience = 0;                // evaluations without a better one until it ends; 0: it does not
  double min_improvement = 0;      // by which an evaluation's loss must be less to be better
  int64_t checkpoint_every = 0;    // updates; 0: at evaluations and at the end only
  int keep = 2;                    // checkpoints, besides the best; at least 1
  // For RunIdentity. A run that goes on with another `base` or another one of the first four here forgets its
  // evaluations, and so the best one; with another model it does not go on.
  std::string dataset = {};     // the fingerprint of the data
  std::string validation = {};  // and of the validation samples
  std::string target = {};      // what is learned
  std::string teachers = {};    // and of whom, by hashes of their files
  std::string model = {};       // whose weights are trained
  std::string samples = {};     // how they are taken of the data
  // Goes on from the newest checkpoint in `out`; without one it begins. Else `out` must not have any.
  bool resume = false;
  // The processes that train together, each with the same program, samples and options; null: this one alone. Of an
  // update process r takes the r-th batch of every `size`, and the gradients' mean is that of all, so the result is
  // that of one process with a batch `size` times as large, but for rounding. The first writes the files; the others
  // must be able to read `out` to resume. On GPUs NCCL exchanges the gradients, or MPI where it cannot, which is said.
  Comm* comm = nullptr;
  // Renews samples that depend on what is trained: called in every process before the first update and at the beginning
  // of each pass over them (of as many updates as a pass takes, rounded up), with the number of updates there; a
  // resumed run calls it with the number at which its pass began. Nothing is read meanwhile, and what was read ahead is
  // read again.
  std::function<void(int64_t updates)> renew = {};
  // A second set of samples for evaluations, whose reports have "rollout_" in front; it is renewed first. Null: none.
  const Samples* rollout = nullptr;
  std::function<void(bool average)> renew_rollout = {};
  // Called in the first process once the folder is this run's: locked, without a run or with the one that goes on,
  // whose states were read. What it throws ends the run before any other file is written.
  std::function<void()> begun = {};
  const std::atomic<bool>* interrupt = nullptr;            // once true, the run ends after the update
  std::function<void(const TrainingStep&)> progress = {};  // after each update
  std::function<void(const std::string& line)> say = {};  // what the user should know, such as what differs at --resume
};

// The number of updates that a run is limited to, by updates or epochs; empty if by neither. `an_update`: the samples
// of one.
std::optional<int64_t> limit_of(const TrainerOptions& options, int64_t samples, int64_t an_update);
// Whether a run that got so far makes no further update. `updates`: limit_of().
bool is_over(const RunProgress& progress, const TrainerOptions& options, std::optional<int64_t> updates);

struct TrainingSummary {
  Ended ended = Ended::updates;
  RunProgress progress;
  std::string precision = {};                  // of products: RunIdentity::precision
  std::optional<double> loss = {};             // of the last update of this process
  std::optional<double> first_loss = {};       // of the first of this process
  std::optional<double> evaluation_loss = {};  // of the last evaluation of this process
  std::filesystem::path checkpoint, best;      // the last; that of the best evaluation, empty if there was none
  // With Ended::not_finite: what was not, and the file with the batch, empty if no batch is to blame. `checkpoint` then
  // is the last that is left, one from before the end if there was one; the program's states are those of the end.
  std::string reason = {};
  std::filesystem::path batch = {};
};

// Trains until a limit. Each input of the program is the samples' field of that name, of which the batch is the first
// axis; other fields are not used. `validation` may be null; an evaluation takes its samples in their order, and where
// too few are left for the last batch they repeat in it in turn, and it weighs as much as there are of them. A report R
// beside which there is a report R.known is a mean over so many values of the batch, and counts as many times; it is
// left out where that is 0 in all batches. A checkpoint is written at its
// time, at each best evaluation and at the end; the folder is locked meanwhile. What is trained is finite in each, and
// after Ended::not_finite the last one is removed if this call wrote it and a step with it is not finite. A run that is
// resumed with the same options on the same machine gives the bits of one that was not interrupted; the times in
// metrics.jsonl aside.
//
// Fails (user) on options and samples that do not fit, on a sample that cannot be read, and if a file cannot be
// written; the last checkpoint then stays.
TrainingSummary train(TrainingProgram& program, const Samples& samples, const Samples* validation,
                      const TrainerOptions& options);

// The median time in seconds of `steps` steps of one micro-batch each, after one more, reading included. They change
// the program's states.
double time_steps(TrainingProgram& program, const Samples& samples, int steps);

// Runs the evaluation on these samples, a batch at a time, whose other entries repeat the last sample. `take` gets a
// place in `indices` and the entry of the batch where evaluation_report() or evaluation_part() then has that sample's
// results.
void evaluate_samples(TrainingProgram& program, const Samples& samples, std::span<const int64_t> indices,
                      const Evaluation& which, const std::function<void(size_t place, int64_t entry)>& take);

// What the student's network of that role gave for an entry of the last evaluation: Student's report "output.<role>".
std::span<const float> output_of(const TrainingProgram& program, const std::string& role, int64_t entry, bool average);

// The newest checkpoint of a run's folder; empty if absent. Its choices and threads are for the program with
// which the run goes on.
std::optional<Checkpoint> newest_checkpoint(const std::filesystem::path& out);

}  // namespace sparkpilot::train
