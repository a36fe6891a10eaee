// sparkpilot train: adapters or whole models distilled on a data set.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "adapters/load_model.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/batch_memory.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/processes.h"
#include "cli/terminal.h"
#include "cli/train_flags.h"
#include "hw/memory.h"
#include "train/dataset.h"
#include "train/first_samples.h"
#include "train/first_weights.h"
#include "train/key_frames.h"
#include "train/own_features.h"
#include "train/run_page.h"
#include "train/student.h"
#include "train/trainer.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kPageFile = "report.html";
constexpr const char* kSummaryFile = "summary.json";
constexpr int64_t kKeyFrames = 6;

// Whether the data's teacher is the student as it begins.
bool is_own_teacher(const TrainFlags& flags, const train::StudentOptions& student, const train::DatasetInfo& info) {
  if (flags.labels != "teacher" || !flags.init.empty()) return false;
  if (flags.warp_degrees > 0 || flags.brightness > 0 || flags.base_precision != "fp32") return false;
  return std::ranges::all_of(student.networks, [&](const train::StudentNetwork& network) {
    const train::DatasetNetwork* teacher = info.network(network.role);
    return teacher != nullptr && teacher->hash == fmt::format("{:016x}", model_hash(network.file));
  });
}

// What the loss depends on besides the data.
std::string target_text(const train::StudentOptions& student) {
  const bool labels = student.target == train::Target::labels;
  std::string text = labels ? "labels" : "teacher";
  for (const auto& [head, weight] : student.weights) text += fmt::format(", {}={}", head, weight);
  if (!labels && student.features != train::FeatureLoss::kl) {
    text += student.features == train::FeatureLoss::l2 ? ", features l2" : ", features cosine";
  }
  if (student.least_scale > 0) text += fmt::format(", least scale {}", student.least_scale);
  const bool matched =
      std::ranges::any_of(student.networks, [](const train::StudentNetwork& each) { return !each.teacher.empty(); });
  if (matched) text += ", layers of teachers";
  if (matched && student.matched != ".*") text += " that match " + student.matched;
  return text;
}

// The teachers' files, by what is in them.
std::string teachers_text(const train::StudentOptions& student) {
  std::string text;
  for (const train::StudentNetwork& each : student.networks) {
    if (!each.teacher.empty()) text += fmt::format("{}{:016x}", text.empty() ? "" : ", ", model_hash(each.teacher));
  }
  return text;
}

// How samples are taken of the data, besides their order.
std::string samples_text(const TrainFlags& flags) {
  std::string text = flags.overfit > 0 ? fmt::format("the first {}", flags.overfit) : "all";
  if (flags.warp_degrees > 0) text += fmt::format(", warp {}", flags.warp_degrees);
  if (flags.brightness > 0) text += fmt::format(", brightness {}", flags.brightness);
  if (flags.own_features) text += ", own features";
  return text;
}

// What matters most first: a narrow terminal shows the beginning.
std::string step_text(const train::TrainingStep& step) {
  std::string out = fmt::format("update {}, loss {:.4g}", step.update, step.loss);
  if (step.evaluation_loss) out += fmt::format(", evaluation {:.4g}", *step.evaluation_loss);
  if (step.seconds_left) out += ", left " + human_time(*step.seconds_left);
  if (const std::optional<int64_t> memory = peak_memory_bytes()) out += ", " + human_bytes(*memory);
  out += fmt::format(", {:.0f} samples/s", step.samples_per_second);
  if (step.waited > 0.05) out += fmt::format(", {:.0f} % waiting for data", 100 * step.waited);
  return out + fmt::format(", rate {:.2g}", step.rate);
}

// What is saved of a run that met what is not finite; `refused`: why it could not be.
std::string saved_text(const train::TrainingSummary& summary, const std::string& refused) {
  if (!refused.empty()) return "nothing is saved: " + refused;
  const fs::path& from = summary.best.empty() ? summary.checkpoint : summary.best;
  if (from.empty()) return "nothing is saved: there is no checkpoint from before";
  return fmt::format("what is saved is from {}", from.string());
}

void report_text(const Program& program, const train::TrainingSummary& summary, const std::vector<fs::path>& written,
                 const std::string& refused, const fs::path& out) {
  const std::string page = (out / kPageFile).string();
  Json files = Json::array();
  for (const fs::path& path : written) files.push_back(path.string());
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  if (program.json) {
    print_json({{"ended", train::name(summary.ended)},
                {"reason", summary.reason.empty() ? Json() : Json(summary.reason)},
                {"updates", summary.progress.updates},
                {"seconds", summary.progress.seconds},
                {"first_loss", number(summary.first_loss)},
                {"loss", number(summary.loss)},
                {"evaluation_loss", number(summary.evaluation_loss)},
                {"best_evaluation_loss", number(summary.progress.best)},
                {"checkpoint", summary.checkpoint.empty() ? Json() : Json(summary.checkpoint.string())},
                {"written", files},
                {"report_html", page}});
  } else {
    const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{:.4g}", *value) : "-"; };
    print(fmt::format("{} after {}, {}: loss {} to {}", train::name(summary.ended),
                      count_of(summary.progress.updates, "update"), human_time(summary.progress.seconds),
                      text(summary.first_loss), text(summary.loss)));
    if (summary.progress.best) {
      print(fmt::format(", best evaluation {:.4g} after {}", *summary.progress.best, summary.progress.best_updates));
    }
    print("\n");
    for (const fs::path& path : written) print(path.string() + "\n");
    print("report: " + page + "\n");
  }
  if (summary.ended != train::Ended::not_finite) {
    if (!refused.empty()) note(saved_text(summary, refused));
    if (summary.ended == train::Ended::interrupted && !program.quiet) {
      note(fmt::format("sparkpilot train --resume {} goes on with it", shell_word(out.string())));
    }
    return;
  }
  note(fmt::format("{}{}; {}", summary.reason,
                   summary.batch.empty() ? "" : "; the batch is in " + summary.batch.string(),
                   saved_text(summary, refused)));
}

// One run, in each of its processes.
class TrainRun {
 public:
  TrainRun(const Program& program, const TrainFlags& asked, Comm& comm)
      : program_(program), flags_(asked), comm_(comm) {}

  void prepare();
  void begin_features();
  bool rolls_out() const;  // whether evaluations do
  std::vector<train::Evaluation> evaluations() const;
  void renew_features(int64_t updates);
  void begin_key_frames();
  // Fails in all processes if one would train something else. All must call it.
  void expect_same_run() const;
  void train(const std::atomic<bool>& interrupt);
  int report() const;
  int try_steps();
  bool is_dry() const { return flags_.dry_run; }
  bool is_over() const { return over_; }

 private:
  BatchBytes bytes_of(train::TrainingProgram& program, int64_t batch) const;
  BatchBytes bytes_at(int64_t batch) const;
  int64_t least_activations(int64_t batch) const;
  int64_t batch_within_activations() const;
  train::TrainerOptions trainer_options() const;
  Json earlier_summary() const;
  void refuse_without_effect() const;
  bool find_over(const std::optional<train::Checkpoint>& checkpoint) const;
  void build();
  void expect_to_fit(const std::string& why) const;
  const train::Dataset& unchanged();
  bool averages() const { return flags_.ema > 0; }
  const char* target_name() const { return flags_.labels == "labels" ? "what is true" : "teacher"; }
  // Work on the page that may fail without harm to the run.
  void for_page(const std::function<void()>& work);
  void save();
  void write_page();
  bool is_first() const { return comm_.rank() == 0; }
  bool tells() const { return is_first() && !program_.quiet; }

  const Program& program_;
  TrainFlags flags_;
  Comm& comm_;
  bool resume_ = false, over_ = false;
  std::string device_;                                          // as it was asked for: of all processes
  std::optional<train::Dataset> all_, validation_, unchanged_;  // unchanged_: as all_, without augmentation
  std::optional<train::FirstSamples> samples_;
  train::StudentOptions student_options_;
  std::string teachers_;
  train::ProgramOptions program_options_;
  std::optional<train::Student> student_;
  std::optional<train::TrainingProgram> steps_;
  std::optional<train::OwnFeatures> own_, rollout_;  // of training and of validation
  std::optional<train::ChosenSamples> rolled_out_;   // of rollout_, those that know their past
  bool began_features_ = false;
  std::optional<train::KeyFrames> key_frames_;
  std::vector<std::string> page_notes_;
  train::TrainingSummary summary_;
  std::vector<fs::path> written_;
  std::string refused_;  // why nothing was, where what is trained is not finite
};

// Beside flags of an earlier run, too, whose file holds every flag.
void TrainRun::refuse_without_effect() const {
  if (flags_.mode == "full") {
    for (const char* flag : {"--kind", "--dtype"}) {
      refuse_given(program_, flag, "adapters: it has no effect with --mode full");
    }
  }
  if (flags_.schedule == "constant") refuse_given(program_, "--last-rate", "--schedule cosine: a constant rate stays");
  if (flags_.labels == "labels") refuse_given(program_, "--features", "--against teacher: labels have no features");
}

void TrainRun::prepare() {
  std::optional<int> threads = chosen_threads(program_);
  std::string device = program_.settings["device"].value;
  resume_ = !flags_.resume.empty();
  if (resume_ && !flags_.from.empty()) fail("--resume goes on with a run, --from begins another: give one of them");
  if (resume_ && !flags_.out.empty()) fail("--resume {} writes there: it takes no --out", flags_.resume);
  if (resume_ || !flags_.from.empty()) {
    const fs::path earlier = resume_ ? fs::path(flags_.resume) / kTrainCommandFile : fs::path(flags_.from);
    const TrainPlace before = read_train_command(earlier, given_flags(*program_.at), flags_);
    if (!threads) threads = before.threads;
    if (device == "auto") device = before.device;
  }
  if (resume_) flags_.out = flags_.resume;
  check_train_flags(flags_);
  refuse_without_effect();
  settle_paths(program_, flags_);
  if (!resume_ && fs::exists(fs::path(flags_.out) / train::kDatasetFile)) {
    fail("--out {}: is the folder of a data set, expected one for a run", flags_.out);
  }
  all_.emplace(flags_.data, train::DatasetOptions{.split = train::Split::train,
                                                  .augment = {.warp_degrees = flags_.warp_degrees,
                                                              .brightness = flags_.brightness,
                                                              .seed = flags_.seed}});
  validation_.emplace(flags_.data, train::DatasetOptions{.split = train::Split::validation, .may_be_empty = true});
  if (validation_->size() == 0) {
    validation_.reset();
    if (flags_.patience > 0) {
      fail("--patience {}: {} has no samples for validation, and so no evaluations", flags_.patience, flags_.data);
    }
    if (tells()) note(flags_.data + ": no samples for validation: no evaluations");
  }
  if (flags_.overfit > all_->size()) {
    fail("--overfit {}: {} has {} for training", flags_.overfit, flags_.data, count_of(all_->size(), "sample"));
  }
  samples_.emplace(*all_, flags_.overfit > 0 ? flags_.overfit : all_->size());
  if (tells() && flags_.batch > samples_->size()) {
    note(fmt::format("--batch {}: a step repeats samples, as there are only {}", flags_.batch, samples_->size()));
  }
  train::StudentOptions& options = student_options_;
  options = student_options(flags_, all_->info());
  if (options.mode == train::TrainMode::full || flags_.least_scale > 0) {
    for (const train::StudentNetwork& network : options.networks) {
      const std::string field = flags_.labels + "." + network.role;
      options.units[network.role] = train::output_units(*samples_, field, output_slices(load_model(network.file)));
    }
  }
  teachers_ = teachers_text(options);
  options.least_scale = flags_.least_scale;
  options.fresh = flags_.fresh;
  if (flags_.fresh) options.first = train::spread_batch(*samples_, options.batch);
  train::ProgramOptions& settings = program_options_;
  settings = {.optimizer = flags_.optimizer == "sgd" ? train::Optimizer::sgd : train::Optimizer::adamw,
              .weight_decay = static_cast<float>(flags_.decay),
              .ema = static_cast<float>(flags_.ema),
              .micro_batches = static_cast<int>(flags_.accumulate)};
  if (!flags_.max_activations.empty()) {
    settings.max_activations = parse_bytes(flags_.max_activations, "--max-activations");
  }
  settings.session.threads = threads.value_or(0) > 0 ? *threads : threads_of_each(comm_, tells());
  settings.session.tune = Tune::off;
  settings.session.passes.precision = flags_.precision == "bf16" ? Precision::bf16 : Precision::fp32;
  device_ = device == "auto" ? "cpu" : device;  // a GPU must be asked for
  settings.session.device = device_of_each(device_, comm_);
  settings.session.memory_reserve = memory_reserve(program_);
  if (tells()) tell_about_device(program_, settings.session.device);
  if (resume_) {
    const auto checkpoint = train::newest_checkpoint(flags_.out);
    if (checkpoint) settings.choices = checkpoint->choices;
    if (over_ = find_over(checkpoint); over_) return;
  }
  build();
  if (tells()) {
    for (const std::string& text : student_->notes()) note(text);
#if defined(__aarch64__)
    if (settings.session.passes.precision == Precision::bf16)
      note("on Arm products by weights that are trained, or computed from them, are in fp32 (docs/training.md)");
#endif
    if (is_own_teacher(flags_, options, all_->info())) {
      note("the teacher is this very model: there is nothing to learn");
    }
  }
  begin_features();
  if (flags_.dry_run || !is_first()) return;
  for_page([&] { begin_key_frames(); });
}

void TrainRun::begin_features() {
  const auto tell = [&](std::string text) {
    if (tells()) note(text);
    page_notes_.push_back(std::move(text));
  };
  if (flags_.own_features) {
    const std::string why_not = train::OwnFeatures::refusal(all_->info(), *student_);
    if (!why_not.empty()) fail("--own-features: {}", why_not);
    own_.emplace(unchanged(), *samples_, *student_);
    if (const std::string text = own_->missing(); !text.empty()) tell(text + "; there the teacher's features stay");
  }
  if (!rolls_out()) return;
  rollout_.emplace(*validation_, *validation_, *student_);
  if (const std::string text = rollout_->missing(); !text.empty()) {
    tell(fmt::format("validation: {}; {}", text,
                     rollout_->complete().empty() ? "evaluations have no rollout" : "rollouts are without these"));
  }
  if (rollout_->complete().empty()) rollout_.reset();
  else rolled_out_.emplace(*rollout_, rollout_->complete());
}

bool TrainRun::rolls_out() const {
  return validation_ && !flags_.no_rollout && train::OwnFeatures::refusal(all_->info(), *student_).empty();
}

// All that a run compiles.
std::vector<train::Evaluation> TrainRun::evaluations() const {
  std::vector<train::Evaluation> out{averages()};
  if (flags_.own_features) out.emplace_back(false, student_->features_part());
  if (rolls_out() && (averages() || !flags_.own_features)) out.emplace_back(averages(), student_->features_part());
  return out;
}

const train::Dataset& TrainRun::unchanged() {
  if (!unchanged_) unchanged_.emplace(flags_.data, train::DatasetOptions{.split = train::Split::train});
  return *unchanged_;
}

// Features are kept in a file until a checkpoint of a later pass is there, so that a resumed run has the same ones.
void TrainRun::renew_features(int64_t updates) {
  const int64_t an_update = flags_.batch * flags_.accumulate * comm_.size();
  const int64_t a_pass = (samples_->size() + an_update - 1) / an_update;
  if (updates / a_pass < flags_.teacher_features) return;
  const fs::path folder = flags_.out, file = train::own_features_file(folder, updates);
  const bool begins = !std::exchange(began_features_, true);
  bool there = false;
  comm_.together([&] {
    // A killed run may have got further; what it left is not of this one.
    if (begins && is_first()) {
      train::drop_own_features(folder, [&](int64_t of) { return !resume_ || of > steps_->updates(); });
    }
  });
  comm_.together([&] {
    there = begins && fs::exists(file);
    if (there) own_->load(file, all_->fingerprint());
  });
  if (comm_.max(there ? 0 : 1) == 0) return;
  if (steps_->updates() != updates && tells()) {
    note(fmt::format("{} is not there: the run goes on with features of the past of update {}", file.string(),
                     steps_->updates()));
  }
  own_->renew(*steps_, false, comm_);
  comm_.together([&] {
    if (!is_first()) return;
    own_->save(file, all_->fingerprint());
    const auto checkpoint = train::newest_checkpoint(folder);
    const int64_t saved = checkpoint ? checkpoint->progress.updates : 0;
    std::optional<int64_t> needed;  // with the newest checkpoint
    train::drop_own_features(folder, [&](int64_t of) {
      if (of <= saved) needed = std::max(needed.value_or(of), of);
      return false;
    });
    train::drop_own_features(folder, [&](int64_t of) { return needed && of < *needed; });
  });
}

// What a run takes that grows with its batch: the plans', and the batches that are read ahead, for steps and
// evaluations.
BatchBytes TrainRun::bytes_of(train::TrainingProgram& program, int64_t batch) const {
  constexpr int64_t kBatchesRead = 6;
  int64_t sample = 0;
  for (const train::Field& field : samples_->fields()) sample += storage_bytes(field.dtype, field.shape.elements());
  // Compiled with the others.
  for (const train::Evaluation& each : evaluations()) program.evaluation_input(program.inputs()[0].name, each);
  const int64_t activations = program.activations().bytes;
  return {batch, activations, program.arena_bytes() - activations + kBatchesRead * batch * sample};
}

// Without a limit on the activations.
BatchBytes TrainRun::bytes_at(int64_t batch) const {
  train::StudentOptions options = student_options_;
  options.batch = batch;
  train::ProgramOptions settings = program_options_;
  settings.max_activations = 0;
  train::TrainingProgram program = train::Student(options, samples_->fields()).program(settings);
  return bytes_of(program, batch);
}

int64_t TrainRun::least_activations(int64_t batch) const {
  train::StudentOptions options = student_options_;
  options.batch = batch;
  train::ProgramOptions settings = program_options_;
  settings.max_activations = 1;
  try {
    return train::Student(options, samples_->fields()).program(settings).activations().bytes;
  } catch (const train::TooFewBytes& error) {
    return error.least();
  }
}

// The largest batch whose activations can be brought below --max-activations.
int64_t TrainRun::batch_within_activations() const {
  const int64_t a = std::max<int64_t>(1, flags_.batch / 2), b = 2 * a;
  return largest_on_line(a, least_activations(a), b, least_activations(b), program_options_.max_activations);
}

// Before a step is run: the system would end a process that takes more than there is, without a word.
void TrainRun::build() {
  const std::optional<int64_t> room = available_memory_bytes();
  try {
    student_.emplace(student_options_, samples_->fields());
    if (!flags_.dry_run) student_->check_save(flags_.out, flags_.merged);
    steps_.emplace(student_->program(program_options_));
    const BatchBytes wanted = bytes_of(*steps_, flags_.batch);
    if (!room || wanted.activations + wanted.rest <= *room) return;
  } catch (const train::TooFewBytes& error) {
    fail("--max-activations {}: {}; with these {}", flags_.max_activations, error.what(),
         fits_text(batch_within_activations()));
  } catch (const std::exception& error) {
    steps_.reset();
    expect_to_fit(error.what());
    throw;
  }
  steps_.reset();
  expect_to_fit({});
  fail("--batch {}: out of memory", flags_.batch);
}

// Fails if this batch cannot fit, by two that are smaller; `why`: what was met. Returns if it can, or if smaller ones
// meet the same.
void TrainRun::expect_to_fit(const std::string& why) const {
  const std::optional<int64_t> room = available_memory_bytes();
  if (!room || flags_.batch < 4) return;
  std::optional<BatchMemory> memory;
  try {
    memory.emplace(bytes_at(2), bytes_at(4), program_options_.max_activations);
  } catch (const std::exception&) {
    return;
  }
  const int64_t wanted = memory->bytes(flags_.batch);
  if (wanted <= *room) return;
  fail("--batch {}: out of memory: it takes about {}, {} are there; {}{}", flags_.batch, human_bytes(wanted),
       human_bytes(*room), fits_text(memory->fitting(*room)), why.empty() ? "" : " (" + why + ")");
}

void TrainRun::for_page(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    page_notes_.push_back(fmt::format("no key frames: {}", error.what()));
    key_frames_.reset();
  }
}

// The program has the student as it was before training, in a run that is resumed, too.
void TrainRun::begin_key_frames() {
  key_frames_.emplace(validation_ ? *validation_ : unchanged(), *student_, kKeyFrames);
  key_frames_->draw(*steps_, averages(), "before training", target_name());
}

void TrainRun::write_page() {
  if (written_.empty()) key_frames_.reset();  // a note says that nothing is saved
  if (key_frames_) {
    for_page([&] {
      key_frames_->draw(*steps_, averages(), fmt::format("after {}", count_of(steps_->updates(), "update")),
                        target_name());
    });
  }
  train::RunPage page{.out = flags_.out, .summary = summary_, .notes = page_notes_};
  if (key_frames_) {
    page.key_frames = key_frames_->pictures();
    page.key_frames_text =
        fmt::format("Samples of {}. Filled, blue: the model; outlined, orange: {}.",
                    validation_ ? "validation" : "training, as none are for validation", target_name());
  }
  for (const std::string& text : student_->notes()) page.facts.push_back({"trained", text});
  page.facts.push_back({"samples", std::to_string(samples_->size())});
  page.facts.push_back({"threads", std::to_string(steps_->options().session.threads)});
  page.facts.push_back({"processes", std::to_string(comm_.size())});
  each_flag(flags_, [&](const char* name, const auto& value) {
    const Json json = value;
    const bool given = json.is_string() ? !json.get<std::string>().empty() : json != Json::array();
    if (given) page.facts.push_back({name, json.is_string() ? json.get<std::string>() : json_text(json)});
  });
  AtomicFile file(fs::path(flags_.out) / kPageFile);
  file.write(train::run_page(page));
  file.commit();
}

train::TrainerOptions TrainRun::trainer_options() const {
  train::TrainerOptions trainer{.out = flags_.out};
  trainer.schedule = {.form = flags_.schedule == "constant" ? train::Schedule::constant : train::Schedule::cosine,
                      .rate = flags_.rate,
                      .warmup = flags_.warmup,
                      .last = flags_.last_rate};
  trainer.updates = flags_.updates;
  trainer.epochs = flags_.epochs;
  trainer.minutes = flags_.minutes;
  trainer.clip = flags_.clip;
  trainer.seed = flags_.seed;
  trainer.base = flags_.base_precision;
  trainer.norms = flags_.dora_norm;
  trainer.evaluate_every = flags_.evaluate_every;
  trainer.evaluate_average = flags_.ema > 0;
  trainer.patience = static_cast<int>(flags_.patience);
  trainer.checkpoint_every = flags_.checkpoint_every;
  trainer.keep = static_cast<int>(flags_.keep);
  trainer.dataset = all_->fingerprint();
  if (validation_) trainer.validation = validation_->fingerprint();
  trainer.target = target_text(student_options_);
  trainer.teachers = teachers_;
  if (student_) trainer.model = student_->trained();
  trainer.samples = samples_text(flags_);
  trainer.resume = resume_;
  return trainer;
}

// What an ended run has in its folder; empty if absent, or no such file.
Json TrainRun::earlier_summary() const {
  const fs::path file = fs::path(flags_.out) / kSummaryFile;
  if (!fs::exists(file)) return {};
  const Json json = parse_json_or_discard(read_file(file));
  return json.is_object() && json.contains("ended") && json["ended"].is_string() ? json : Json();
}

// Whether a run that is resumed has ended and has nothing left to do: its files stay as they are. Fails if its
// checkpoints are gone, as it would begin again.
bool TrainRun::find_over(const std::optional<train::Checkpoint>& checkpoint) const {
  const Json summary = earlier_summary();
  if (flags_.dry_run || summary.is_null()) return false;
  if (!checkpoint) {
    fail("{}: a run that has ended, without a checkpoint to go on from; --from {} begins it again, in another folder",
         flags_.out, (fs::path(flags_.out) / kTrainCommandFile).string());
  }
  if (summary["ended"] == train::name(train::Ended::interrupted)) return false;
  const train::TrainerOptions trainer = trainer_options();
  const int64_t an_update = flags_.batch * flags_.accumulate * comm_.size();
  train::RunProgress progress = checkpoint->progress;
  const train::RunIdentity now{.base = trainer.base,
                               .dataset = trainer.dataset,
                               .validation = trainer.validation,
                               .target = trainer.target,
                               .teachers = trainer.teachers};
  if (!train::same_losses(now, checkpoint->identity)) progress.forget_evaluations();
  return train::is_over(progress, trainer, train::limit_of(trainer, samples_->size(), an_update));
}

void TrainRun::expect_same_run() const {
  if (comm_.size() == 1) return;
  comm_.expect_alike("option", train_flags_text(flags_));  // those that --resume and --from read as well
  comm_.expect_alike("data set", all_->fingerprint());
  comm_.expect_alike("teacher", teachers_);
  comm_.expect_alike("checkpoint", over_ ? "of a run that is over" : "");
  if (over_) return;
  comm_.expect_alike("kind of device", steps_->device() == "cpu" ? "cpu" : "gpu");
  Fnv hash;
  for (const train::Parameter& each : steps_->parameters()) {
    const Tensor& first = steps_->state(each.name);
    hash.bytes(first.raw(), static_cast<size_t>(first.bytes()));
  }
  comm_.expect_alike("model or adapter", fmt::format("{} {:016x}", student_->trained(), hash.value()));
}

void TrainRun::train(const std::atomic<bool>& interrupt) {
  train::TrainerOptions trainer = trainer_options();
  if (own_) trainer.renew = [&](int64_t updates) { renew_features(updates); };
  if (rolled_out_) {
    trainer.rollout = &*rolled_out_;
    trainer.renew_rollout = [&](bool average) { rollout_->renew(*steps_, average, comm_); };
  }
  trainer.begun = [&] { write_train_command(flags_, {program_options_.session.threads, device_}); };
  trainer.comm = &comm_;
  trainer.interrupt = &interrupt;
  if (tells()) trainer.say = [](const std::string& text) { note(text); };
  {
    Progress bar(tells() && !program_.json, "training");
    trainer.progress = [&](const train::TrainingStep& step) {
      bar.what(step_text(step));
      bar.at(step.updates ? static_cast<double>(step.update) / static_cast<double>(*step.updates)
                          : step.seconds / (60 * flags_.minutes));
    };
    const train::Samples& samples = own_ ? static_cast<const train::Samples&>(*own_) : *samples_;
    summary_ = train::train(*steps_, samples, validation_ ? &*validation_ : nullptr, trainer);
  }
  comm_.together([&] {
    if (!is_first()) return;
    save();
    write_page();
  });
}

// Of the best evaluation, else of the end; where that is not finite, of the last checkpoint, which is.
void TrainRun::save() {
  const bool failed = summary_.ended == train::Ended::not_finite;
  const fs::path& from = summary_.best.empty() ? summary_.checkpoint : summary_.best;
  try {
    if (!from.empty() && (failed || from != summary_.checkpoint)) train::load_states(from, *steps_);
    if (!from.empty()) written_ = student_->save(*steps_, flags_.out, averages(), flags_.merged);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    refused_ = error.what();
  }
  if (failed || !refused_.empty()) page_notes_.push_back(saved_text(summary_, refused_));
}

// A few steps and an evaluation of what was asked for, and what they take. How much more a larger batch takes is told
// by the plans for another one, which is not run.
int TrainRun::try_steps() {
  const double seconds = train::time_steps(*steps_, *samples_, 3);
  for (const train::Evaluation& each : evaluations()) {
    train::evaluate_samples(*steps_, *samples_, std::array<int64_t, 1>{0}, each, [](size_t, int64_t) {});
  }
  const int64_t memory = peak_memory_bytes().value_or(0), bytes = student_->adapter_bytes();
  const std::optional<int64_t> left = available_memory_bytes(), held = resident_memory_bytes();
  const int64_t batch = flags_.batch, other = batch > 2 ? batch / 2 : 2 * batch;
  const int64_t limit = program_options_.max_activations;
  const train::TrainingProgram::Activations activations = steps_->activations();
  // With a limit by the two smallest, as this one may not fit without it.
  const BatchMemory grows = limit > 0 ? BatchMemory(bytes_at(1), bytes_at(2), limit)
                                      : BatchMemory(bytes_of(*steps_, batch), bytes_at(other), 0);
  const int64_t a_sample = grows.bytes(batch + 1) - grows.bytes(batch);
  std::optional<int64_t> fits;
  if (left && held) {
    // What was measured, without what the plans told of it, does not grow.
    fits = grows.fitting(*left + *held, memory - grows.bytes(batch));
    if (limit > 0) fits = std::min(*fits, batch_within_activations());
  }
  const int threads = steps_->options().session.threads;
  const double rate = static_cast<double>(batch) / seconds;
  if (program_.json) {
    print_json({{"parameters", student_->parameters()},
                {"adapter_bytes", bytes},
                {"samples", samples_->size()},
                {"batch", batch},
                {"threads", threads},
                {"step_ms", seconds * 1e3},
                {"samples_per_second", rate},
                {"peak_memory_bytes", memory},
                {"machine_memory_bytes", physical_memory()},
                {"activation_bytes", activations.bytes},
                {"nodes_computed_again", activations.nodes_again},
                {"work_computed_again", activations.share_again},
                {"bytes_a_sample", a_sample},
                {"batch_that_fits", fits ? Json(*fits) : Json()}});
    return kDone;
  }
  print(fmt::format(
      "{} parameters{}, {}\n{} ms a step of {} on {}: {:.0f} samples a second\n"
      "{} of {} memory at most, {} for each further sample of a batch{}\n"
      "{} for the activations of a step{}\n",
      human_count(static_cast<double>(student_->parameters())), bytes > 0 ? ", adapter " + human_bytes(bytes) : "",
      count_of(samples_->size(), "sample"), human_ms(seconds * 1e3), count_of(batch, "sample"),
      count_of(threads, "thread"), rate, human_bytes(memory), human_bytes(physical_memory()), human_bytes(a_sample),
      fits ? ": " + fits_text(*fits) : "", human_bytes(activations.bytes),
      activations.nodes_again > 0 ? fmt::format(": {} nodes are computed again, about {:.0f} % more work",
                                                activations.nodes_again, 100 * activations.share_again)
                                  : ""));
  return kDone;
}

int TrainRun::report() const {
  if (over_) {
    if (!is_first()) return kDone;
    const Json summary = earlier_summary();
    if (program_.json) print_json(summary);
    else
      print(fmt::format("{}: nothing is left to do: {} after {}. --updates, --epochs or --minutes let it go on.\n",
                        flags_.out, summary["ended"].get<std::string>(),
                        summary.contains("updates") && summary["updates"].is_number_integer()
                            ? count_of(summary["updates"].get<int64_t>(), "update")
                            : "? updates"));
    return kDone;
  }
  if (is_first()) report_text(program_, summary_, written_, refused_, flags_.out);
  if (summary_.ended == train::Ended::not_finite || !refused_.empty()) return kCheckFailed;
  return summary_.ended == train::Ended::interrupted ? kInterrupted : kDone;
}

int run(Program& program, const TrainFlags& flags) {
  program.comm = std::make_unique<Comm>();
  Comm& comm = *program.comm;
  const StopOnInterrupt stop(comm.rank() == 0 && !program.quiet);
  comm.expect_alike("option", train_flags_text(flags));  // before anything that all must do alike
  TrainRun run(program, flags, comm);
  comm.together([&] { run.prepare(); });
  run.expect_same_run();
  if (run.is_dry()) return comm.rank() == 0 ? run.try_steps() : kDone;
  if (!run.is_over()) run.train(stop.requested());
  return run.report();
}

}  // namespace

void add_train(Program& program, Command app) {
  const auto flags = std::make_shared<TrainFlags>();
  const Command command = add_command(
      program, app, "train", "distil a teacher into an adapter, or train a whole model",
      "  sparkpilot train --models models --data data --out out/run --epochs 3\n"
      "  sparkpilot train --models models --network policy --data data --out out/run --epochs 3 --rank 16\n"
      "  sparkpilot train --supercombo driving_supercombo.onnx --data data --out out/run --minutes 30 "
      "--schedule constant --mode full --against labels\n"
      "  sparkpilot train --model dmonitoring_model.onnx --data driver --out out/run --epochs 3 --batch 8\n"
      "  sparkpilot train --resume out/run\n"
      "  sparkpilot train --from out/run/train.json --out out/again --seed 2\n"
      "  mpirun -np 2 sparkpilot train --models models --data data --out out/run --epochs 3\n"
      "Ctrl-C ends with a checkpoint; --resume goes on from the newest one. --resume and --from take the flags of "
      "the earlier run; flags that are given as well replace them.",
      [&program, flags] { return run(program, *flags); });
  add_train_flags(program, command, *flags);
  add_setting(program, command, "device", "cpu, cuda or cuda:N; auto is the CPU");
  add_setting(program, command, "memory-reserve");
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
