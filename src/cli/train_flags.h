// The flags of sparkpilot train, and the file that keeps them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/driving_models.h"
#include "train/dataset_format.h"
#include "train/student.h"

namespace sparkpilot::cli {

struct TrainFlags {
  std::string data, out, resume, from;
  DrivingModelFlags model;
  std::string one;      // --model
  std::string teacher;  // --teacher
  std::vector<std::string> init, weights;
  std::string network, mode = "adapter", kind = "dora", target, max_size, matched, stored = "auto", labels = "teacher",
                       max_activations, precision = "fp32", base_precision = "fp32", features = "kl",
                       schedule = "cosine", optimizer = "adamw", dora_norm = "factored";
  int64_t rank = 0, batch = 32, accumulate = 1, updates = 0, warmup = 0, evaluate_every = 0, patience = 0,
          checkpoint_every = 0, keep = 2, overfit = 0, teacher_features = 0;
  double alpha = 0, epochs = 0, minutes = 0, rate = 1e-3, last_rate = 0, decay = 0.01, clip = 1, ema = 0,
         warp_degrees = 0, brightness = 0, least_scale = 0;
  bool merged = false, dry_run = false, fresh = false, own_features = false, no_rollout = false;
  uint64_t seed = 1;
};

void add_train_flags(Program& program, Command command, TrainFlags& flags);

// Every flag that shapes a run, for train.json: what --resume and --from read again. A name is its flag's, with `_` for
// `-`; the model is kept as files.
template <typename Visit>
void each_flag(TrainFlags& f, const Visit& visit) {
  visit("data", f.data);
  visit("model", f.one);
  visit("vision", f.model.vision);
  visit("policy", f.model.policy);
  visit("supercombo", f.model.supercombo);
  visit("teacher", f.teacher);
  visit("match", f.matched);
  visit("init_adapter", f.init);
  visit("loss", f.weights);
  visit("network", f.network);
  visit("mode", f.mode);
  visit("kind", f.kind);
  visit("target", f.target);
  visit("max_size", f.max_size);
  visit("dtype", f.stored);
  visit("against", f.labels);
  visit("features", f.features);
  visit("schedule", f.schedule);
  visit("optimizer", f.optimizer);
  visit("rank", f.rank);
  visit("batch", f.batch);
  visit("accumulate", f.accumulate);
  visit("max_activations", f.max_activations);
  visit("precision", f.precision);
  visit("base_precision", f.base_precision);
  visit("dora_norm", f.dora_norm);
  visit("updates", f.updates);
  visit("warmup", f.warmup);
  visit("evaluate_every", f.evaluate_every);
  visit("patience", f.patience);
  visit("checkpoint_every", f.checkpoint_every);
  visit("keep", f.keep);
  visit("overfit", f.overfit);
  visit("alpha", f.alpha);
  visit("epochs", f.epochs);
  visit("minutes", f.minutes);
  visit("rate", f.rate);
  visit("last_rate", f.last_rate);
  visit("weight_decay", f.decay);
  visit("clip", f.clip);
  visit("ema", f.ema);
  visit("warp", f.warp_degrees);
  visit("brightness", f.brightness);
  visit("merged", f.merged);
  visit("fresh", f.fresh);
  visit("own_features", f.own_features);
  visit("teacher_features", f.teacher_features);
  visit("no_rollout", f.no_rollout);
  visit("least_scale", f.least_scale);
  visit("seed", f.seed);
}

// The file of a run that holds its flags, as JSON: written at its beginning, read by --resume and --from.
inline constexpr const char* kTrainCommandFile = "train.json";
// What a run computes on.
struct TrainPlace {
  int threads = 0;
  std::string device = "cpu";
};
void write_train_command(TrainFlags flags, const TrainPlace& place);
// Takes what an earlier run was given, but for the flags in `given` ("--rank"). Fails (user) naming the file if it is
// no such file, or has a name that is no flag.
TrainPlace read_train_command(const std::filesystem::path& path, const std::vector<std::string>& given,
                              TrainFlags& flags);

// The flags that all processes of a run need alike, as a text: without paths, which may differ from machine to machine.
std::string train_flags_text(TrainFlags flags);

// Takes the model's files as they are in the settings or on the command line; all paths become absolute.
void settle_paths(const Program& program, TrainFlags& flags);

// Fails (user) naming the flag that is missing, out of range or without effect.
void check_train_flags(const TrainFlags& flags);

train::StudentOptions student_options(const TrainFlags& flags, const train::DatasetInfo& info);

}  // namespace sparkpilot::cli
