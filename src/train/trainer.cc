#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

#include "base/clock.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/version.h"
#include "comm/nccl.h"
#include "hw/cpu.h"
#include "passes/precision.h"
#include "tensor/finite.h"
#include "train/loader.h"
#include "train/own_features.h"
#include "train/run_files.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;

fs::path checkpoints_of(const fs::path& out) { return out / "checkpoints"; }

double seconds_of(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// NaN has no sign that says anything.
std::string value_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

// The samples' field for each input of the program.
class Feed {
 public:
  Feed(const TrainingProgram& program, const Samples& samples, std::string_view what) {
    for (const TensorInfo& input : program.inputs()) {
      const auto fields = samples.fields();
      const auto found = std::ranges::find(fields, input.name, &Field::name);
      if (found == fields.end()) fail("the {} samples have no field \"{}\", which the model reads", what, input.name);
      const Shape& shape = *input.shape;
      if (shape.rank() == 0 || (batch_ != 0 && shape[0] != batch_)) {
        fail("input \"{}\" is {}, its first axis is not the batch of {}", input.name, shape.str(), batch_);
      }
      batch_ = shape[0];
      if (found->dtype != input.dtype || !(found->shape.inserted(0, batch_) == shape)) {
        fail("field \"{}\" of the {} samples is {}{}, the model expects {}{} of each", input.name, what,
             sparkpilot::name(found->dtype), found->shape.str(), sparkpilot::name(input.dtype), shape.removed(0).str());
      }
      of_.emplace_back(input.name, static_cast<size_t>(found - fields.begin()));
    }
    if (of_.empty()) fail("the model has no inputs");
  }

  int64_t batch() const { return batch_; }
  // Copies a batch to where `input` says.
  template <typename Input>
  void give(std::span<const Tensor> batch, const Input& input) const {
    constexpr int64_t kGrain = 1 << 20;
    for (const auto& [name, field] : of_) {
      auto* const to = static_cast<std::byte*>(input(name).data);
      const auto* const from = static_cast<const std::byte*>(batch[field].raw());
      parallel_for(batch[field].bytes(), kGrain, [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
      });
    }
  }
  // Where `input` has each field of a batch; null for fields that are no inputs.
  template <typename Input>
  std::vector<std::byte*> places(size_t fields, const Input& input) const {
    std::vector<std::byte*> out(fields, nullptr);
    for (const auto& [name, field] : of_) out[field] = static_cast<std::byte*>(input(name).data);
    return out;
  }

 private:
  std::vector<std::pair<std::string, size_t>> of_;
  int64_t batch_ = 0;
};

// Means of losses and of the reports of one element, which weigh as much as they have values (trainer.h).
class Means {
 public:
  explicit Means(const TrainingProgram& program) : names_(program.report_names()), sums_(names_.size()) {
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto known = std::ranges::find(names_, names_[i] + std::string(kKnown));
      if (known != names_.end()) sums_[i].known = static_cast<size_t>(known - names_.begin());
    }
  }

  // `share`: of the batch that counts.
  template <typename Report>
  void add(double loss, const Report& report, double share = 1) {
    const auto number = [&](size_t i) {
      const ConstView view = report(i);
      return load_element(view.dtype, view.data, 0);
    };
    loss_.add(loss, share);
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].ends_with(kKnown) || report(i).elements() != 1) continue;
      const double weight = share * (sums_[i].known ? number(*sums_[i].known) : 1);
      if (weight != 0) sums_[i].add(number(i), weight);
    }
  }
  // Of all processes: each adds its own.
  void exchange(Comm& comm) {
    std::vector<float> all{static_cast<float>(loss_.sum), static_cast<float>(loss_.weight)};
    for (const Sum& sum : sums_) {
      all.push_back(static_cast<float>(sum.sum));
      all.push_back(static_cast<float>(sum.weight));
    }
    comm.sum(all);
    const auto take = [&](Sum& sum, size_t at) {
      sum.sum = static_cast<double>(all[at]), sum.weight = static_cast<double>(all[at + 1]);
    };
    take(loss_, 0);
    for (size_t i = 0; i < sums_.size(); ++i) take(sums_[i], 2 * (i + 1));
  }
  double loss() const { return loss_.mean(); }
  std::vector<std::pair<std::string, double>> reports() const {
    std::vector<std::pair<std::string, double>> out;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (sums_[i].weight > 0) out.emplace_back(names_[i], sums_[i].mean());
    }
    return out;
  }

 private:
  static constexpr std::string_view kKnown = ".known";
  struct Sum {
    double sum = 0, weight = 0;
    std::optional<size_t> known = {};  // the report that tells of how many values it is the mean
    void add(double value, double by) { sum += by * value, weight += by; }
    double mean() const { return sum / weight; }
  };

  const std::vector<std::string>& names_;
  std::vector<Sum> sums_;
  Sum loss_;
};

bool is_out_of_time(const RunProgress& progress, const TrainerOptions& options) {
  return options.minutes > 0 && progress.seconds >= 60 * options.minutes;
}

bool is_out_of_patience(const RunProgress& progress, const TrainerOptions& options) {
  return options.patience > 0 && progress.evaluations_since >= options.patience;
}

class TrainingRun {
 public:
  TrainingRun(TrainingProgram& program, const Samples& samples, const Samples* validation,
              const TrainerOptions& options);
  TrainingSummary run();

 private:
  void check() const;
  void resume();
  std::optional<TrainingStep> update();
  bool evaluate();
  std::optional<Means> evaluation_of(const Samples& samples, const Feed& feed);
  void begin_pass();
  std::optional<Ended> settle(TrainingStep* step);
  bool is_first() const { return rank_ == 0; }
  bool any(bool here) const { return options_.comm ? options_.comm->max(here ? 1 : 0) > 0 : here; }
  // Communicates with nobody, in every process; what one of them throws ends all.
  void together(const std::function<void()>& work) const {
    if (options_.comm) options_.comm->together(work);
    else work();
  }
  void join_gpus();
  void exchange_gradients();
  bool limited() const { return updates_ && progress_.updates >= *updates_; }
  bool interrupted() const { return options_.interrupt != nullptr && options_.interrupt->load(); }
  bool evaluation_due(bool at_end) const;
  std::string not_finite_parameter() const;
  bool is_sound();
  bool save();
  void drop_old();
  void drop_unsound();
  void count_time();
  void stop_not_finite(const std::string& what, const Loader& loader, bool keep);
  std::string optimizer_text() const;
  std::string schedule_text() const;

  TrainingProgram& program_;
  const Samples& samples_;
  const Samples* validation_;
  const TrainerOptions& options_;
  int rank_ = 0, size_ = 1;         // of the processes that train together
  std::unique_ptr<NcclComm> nccl_;  // null: one process, the CPU, or NCCL cannot be used
  Feed feed_;
  std::optional<Feed> validation_feed_, rollout_feed_;
  int64_t a_update_ = 0, an_epoch_ = 0;  // samples of an update; updates of an epoch, rounded up
  std::optional<int64_t> updates_;       // of the whole run
  RunIdentity identity_;
  RunProgress progress_, saved_;
  bool saved_once_ = false;        // or resumed
  bool unproven_ = false;          // nothing was done with what was saved last
  int64_t first_ = 0;              // updates at the beginning, and at a resume
  int64_t evaluated_before_ = -1;  // updates of the last evaluation that stays in metrics.jsonl
  TrainingSummary summary_;
  std::optional<Loader> loader_;
  std::optional<MetricsFiles> metrics_;
  int64_t counted_ns_ = 0;  // until when progress_.seconds counts
  int64_t start_ns_ = 0, start_samples_ = 0, waited_ns_ = 0;
};

TrainingRun::TrainingRun(TrainingProgram& program, const Samples& samples, const Samples* validation,
                         const TrainerOptions& options)
    : program_(program),
      samples_(samples),
      validation_(validation),
      options_(options),
      rank_(options.comm ? options.comm->rank() : 0),
      size_(options.comm ? options.comm->size() : 1),
      feed_(program, samples, "training") {
  if (validation != nullptr) validation_feed_.emplace(program, *validation, "validation");
  if (options.rollout != nullptr) rollout_feed_.emplace(program, *options.rollout, "rollout");
  if (samples.size() < 1) fail("there are no training samples");
  if (validation != nullptr && validation->size() < 1) fail("there are no validation samples");
  const int micro_batches = program.options().micro_batches;
  a_update_ = feed_.batch() * micro_batches * size_;
  an_epoch_ = (samples.size() + a_update_ - 1) / a_update_;
  updates_ = limit_of(options, samples.size(), a_update_);
  check();
  identity_ = {.seed = options.seed,
               .batch = feed_.batch(),
               .micro_batches = micro_batches,
               .threads = program.options().session.threads,
               .processes = size_,
               .precision = std::string(name(program.options().session.passes.precision)),
               .base = options.base,
               .norms = options.norms,
               .optimizer = optimizer_text(),
               .schedule = schedule_text(),
               .dataset = options.dataset,
               .validation = options.validation,
               .target = options.target,
               .teachers = options.teachers,
               .model = options.model,
               .samples = options.samples,
               .processor = program_.device() == "cpu" ? cpu_features().isa() : program_.device(),
               .program = std::string(program_version())};
}

void TrainingRun::check() const {
  const TrainerOptions& o = options_;
  if (o.out.empty()) fail("no folder to write into was given");
  for (const auto& [what, value] : {std::pair("updates", static_cast<double>(o.updates)),
                                    {"epochs", o.epochs},
                                    {"minutes", o.minutes},
                                    {"clip", o.clip},
                                    {"evaluate_every", static_cast<double>(o.evaluate_every)},
                                    {"patience", static_cast<double>(o.patience)},
                                    {"min_improvement", o.min_improvement},
                                    {"checkpoint_every", static_cast<double>(o.checkpoint_every)},
                                    {"warmup", static_cast<double>(o.schedule.warmup)},
                                    {"rate", o.schedule.rate},
                                    {"last", o.schedule.last}}) {
    if (!(value >= 0) || std::isinf(value)) fail("{} is {}, expected 0 or more", what, value);
  }
  if (o.keep < 1) fail("{} checkpoints are to be kept, expected at least 1", o.keep);
  if (!updates_ && o.minutes == 0) fail("training needs a limit: updates, epochs or minutes");
  if (o.schedule.form == Schedule::cosine && !updates_) {
    fail("a cosine needs the number of updates: limit them, or the epochs, or take a constant rate");
  }
  if (o.patience > 0 && validation_ == nullptr) fail("an early stop needs validation samples");
  if (o.evaluate_average && program_.options().ema == 0) fail("there is no moving average to evaluate");
}

std::string TrainingRun::optimizer_text() const {
  const ProgramOptions& p = program_.options();
  std::string text = p.optimizer == Optimizer::adamw
                         ? fmt::format("adamw beta1 {} beta2 {} epsilon {}", p.beta1, p.beta2, p.epsilon)
                         : fmt::format("sgd momentum {}", p.momentum);
  return text + fmt::format(" decay {} ema {} clip {}", p.weight_decay, p.ema, options_.clip);
}

std::string TrainingRun::schedule_text() const {
  const Schedule& s = options_.schedule;
  const std::string warmup = fmt::format("rate {} warm-up {}", s.rate, s.warmup);
  if (s.form == Schedule::constant) return "constant " + warmup;
  return fmt::format("cosine {} to {} in {}", warmup, s.last, *updates_);
}

// From the newest checkpoint, if there is one.
void TrainingRun::resume() {
  const auto found = find_checkpoints(checkpoints_of(options_.out));
  if (found.empty()) return;
  const fs::path path = found.rbegin()->second;
  if (!options_.resume) {
    fail("{} holds a run of {}: go on with it, or choose another folder", options_.out.string(),
         count_of(found.rbegin()->first, "update"));
  }
  const Checkpoint checkpoint = load_checkpoint(path);
  if (const std::string& then = checkpoint.identity.model; !then.empty() && then != identity_.model) {
    fail("{}: a run that trains {}, not {}: begin another one", options_.out.string(), then, identity_.model);
  }
  load_states(path, program_);
  if (program_.updates() != checkpoint.progress.updates) {
    fail("{}: its states are those after {} updates, its progress says {}", path.string(), program_.updates(),
         checkpoint.progress.updates);
  }
  progress_ = saved_ = checkpoint.progress;
  evaluated_before_ = progress_.evaluated;
  summary_.checkpoint = path;
  saved_once_ = true;
  const bool forgets = progress_.evaluated >= 0 && !same_losses(identity_, checkpoint.identity);
  if (forgets) {
    progress_.forget_evaluations();
    evaluated_before_ = std::min(evaluated_before_, progress_.updates - 1);  // the one there is done again
  }
  if (!options_.say) return;
  for (const std::string& line : differences(identity_, checkpoint.identity)) {
    options_.say("the run goes on with another " + line);
  }
  if (forgets) options_.say("so its evaluations so far do not count: the best one is one from now on");
  const auto now = program_.choices();
  for (const auto& [name, then] : checkpoint.choices) {
    const auto same = now.find(name);
    if (same == now.end()) continue;
    const bool equal = std::ranges::equal(
        same->second, then, [](const auto& a, const auto& b) { return a.node == b.node && a.kernel == b.kernel; });
    if (!equal) options_.say(fmt::format("the run goes on with other kernels of the program \"{}\"", name));
  }
}

void TrainingRun::count_time() {
  const int64_t now = now_ns();
  progress_.seconds += seconds_of(now - counted_ns_);
  counted_ns_ = now;
}

void TrainingRun::stop_not_finite(const std::string& what, const Loader& loader, bool keep) {
  summary_.reason = fmt::format("{} of update {} is not finite", what, progress_.updates + 1);
  if (keep)
    summary_.batch = write_batch(options_.out, samples_.fields(), loader.current(), loader.indices(),
                                 progress_.updates + 1, summary_.reason);
  program_.discard();
}

void TrainingRun::join_gpus() {
  if (size_ == 1 || !program_.gpu()) return;
  std::string why_not;
  nccl_ = NcclComm::join(*options_.comm, program_.gpu(), why_not);
  if (!options_.say) return;
  if (nccl_) options_.say(fmt::format("NCCL {} adds up the gradients", nccl_->version()));
  else options_.say(fmt::format("{}; MPI adds up the gradients, in the processor's memory", why_not));
}

// The mean over all processes.
void TrainingRun::exchange_gradients() {
  if (size_ == 1) return;
  if (nccl_) return together([&] { nccl_->mean(program_.gradient_sums_on_gpu()); });
  const std::span<float> sums = program_.gradient_sums();
  options_.comm->sum(sums);
  const float share = 1 / static_cast<float>(size_);
  for (float& each : sums) each *= share;
}

// Empty if the loss or the gradient was not finite.
std::optional<TrainingStep> TrainingRun::update() {
  Means means(program_);
  std::string wrong;
  together([&] {
    for (int i = 0; i < identity_.micro_batches && wrong.empty(); ++i) {
      feed_.give(loader_->next(), [&](const std::string& name) { return program_.input(name); });
      program_.run_gradients();
      if (!std::isfinite(program_.loss())) wrong = fmt::format("the loss ({})", value_text(program_.loss()));
      means.add(program_.loss(), [&](size_t report) { return program_.report(report); });
    }
  });
  if (any(!wrong.empty())) {
    // The first process that met it keeps its batch.
    const int first = size_ == 1 ? 0 : size_ - options_.comm->max(wrong.empty() ? 0 : size_ - rank_);
    if (wrong.empty()) wrong = fmt::format("the loss of process {}", first);
    stop_not_finite(wrong, *loader_, rank_ == first);
    return std::nullopt;
  }
  exchange_gradients();
  if (size_ > 1) means.exchange(*options_.comm);
  TrainingStep step;
  step.norm = program_.gradient_norm();
  if (!std::isfinite(step.norm)) {
    stop_not_finite(fmt::format("the gradient ({})", value_text(step.norm)), *loader_, is_first());
    return std::nullopt;
  }
  step.rate = rate_at(options_.schedule, progress_.updates, updates_.value_or(0));
  program_.update(step.rate, options_.clip);
  progress_.samples += a_update_;
  step.update = ++progress_.updates;
  step.updates = updates_;
  step.epoch = static_cast<double>(progress_.samples) / static_cast<double>(samples_.size());
  step.loss = means.loss();
  step.reports = means.reports();
  count_time();
  step.seconds = progress_.seconds;
  const double here = seconds_of(now_ns() - start_ns_);
  step.samples_per_second = static_cast<double>(progress_.samples - start_samples_) / here;
  step.waited = seconds_of(waited_ns_ + loader_->waited_ns()) / here;
  const double an_update = progress_.seconds / static_cast<double>(progress_.updates);
  if (updates_) step.seconds_left = an_update * static_cast<double>(*updates_ - progress_.updates);
  if (options_.minutes > 0) {
    const double left = std::max(60 * options_.minutes - progress_.seconds, 0.0);
    step.seconds_left = std::min(step.seconds_left.value_or(left), left);
  }
  return step;
}

// Empty if it was interrupted.
std::optional<Means> TrainingRun::evaluation_of(const Samples& samples, const Feed& feed) {
  const int64_t batch = feed.batch(), size = samples.size(), batches = (size + batch - 1) / batch;
  const int64_t last = (batches - 1) * batch;  // the first sample of the last batch
  const bool average = options_.evaluate_average;
  std::vector<int64_t> order(static_cast<size_t>(batches * batch));
  for (int64_t i = 0; i < std::ssize(order); ++i) {
    order[static_cast<size_t>(i)] = i < size ? i : last + (i - last) % (size - last);
  }
  const ChosenSamples whole(samples, std::move(order));
  Loader loader(whole, Sampler(whole.size(), 0, false), batch, rank_ * batch, 2, (size_ - 1) * batch);
  Means means(program_);
  for (int64_t at = rank_; at < batches; at += size_) {
    if (size_ == 1 && interrupted()) return std::nullopt;
    feed.give(loader.next(), [&](const std::string& name) { return program_.evaluation_input(name, average); });
    program_.run_evaluation(average);
    const int64_t count = std::min(batch, size - at * batch);
    means.add(
        program_.evaluation_loss(average), [&](size_t i) { return program_.evaluation_report(i, average); },
        static_cast<double>(count) / static_cast<double>(batch));
  }
  if (size_ > 1) means.exchange(*options_.comm);
  return means;
}

// False if it was interrupted, and then has no result.
bool TrainingRun::evaluate() {
  const std::optional<Means> means = evaluation_of(*validation_, *validation_feed_);
  if (!means) return false;
  std::vector<std::pair<std::string, double>> reports = means->reports();
  if (options_.rollout != nullptr) {
    if (options_.renew_rollout) options_.renew_rollout(options_.evaluate_average);
    const std::optional<Means> rollout = evaluation_of(*options_.rollout, *rollout_feed_);
    if (!rollout) return false;
    for (const auto& [name, value] : rollout->reports()) reports.emplace_back("rollout_" + name, value);
  }
  const double loss = means->loss();
  summary_.evaluation_loss = loss;
  progress_.evaluated = progress_.updates;
  if (std::isfinite(loss) && (!progress_.best || loss < *progress_.best - options_.min_improvement)) {
    progress_.best = loss;
    progress_.best_updates = progress_.updates;
    progress_.evaluations_since = 0;
  } else {
    ++progress_.evaluations_since;
  }
  count_time();
  together([&] {
    if (metrics_) metrics_->add_evaluation(progress_.updates, loss, reports, progress_.seconds);
  });
  return true;
}

bool TrainingRun::evaluation_due(bool at_end) const {
  if (validation_ == nullptr || progress_.updates == 0 || progress_.evaluated == progress_.updates) return false;
  return at_end || progress_.updates % (options_.evaluate_every > 0 ? options_.evaluate_every : an_epoch_) == 0;
}

// What is due at this number of updates: an evaluation, the end, a checkpoint. A resumed run begins with it, too, so
// that an interruption between these changes nothing.
std::optional<Ended> TrainingRun::settle(TrainingStep* step) {
  const bool out_of_time = any(is_out_of_time(progress_, options_));
  bool evaluated = false;
  if (evaluation_due(limited() || out_of_time)) {
    evaluated = evaluate();
    if (evaluated && step != nullptr) step->evaluation_loss = summary_.evaluation_loss;
  }
  if (step != nullptr && options_.progress) options_.progress(*step);
  if (any(interrupted())) return Ended::interrupted;
  if (is_out_of_patience(progress_, options_)) return Ended::early;
  if (limited()) return Ended::updates;
  if (out_of_time) return Ended::minutes;
  const bool best = evaluated && progress_.best && progress_.best_updates == progress_.updates;
  const int64_t every = options_.checkpoint_every;
  const bool due = best || (every == 0 ? evaluated : progress_.updates > 0 && progress_.updates % every == 0);
  if (due && !save()) return Ended::not_finite;
  return std::nullopt;
}

// What is trained and not finite, averages included; empty if all of it is finite.
std::string TrainingRun::not_finite_parameter() const {
  for (const Parameter& each : program_.parameters()) {
    if (!all_finite(program_.state(each.name).view())) return each.name;
    if (const std::string average = each.name + "/ema"; program_.options().ema > 0) {
      if (!all_finite(program_.state(average).view())) return average;
    }
  }
  return {};
}

// Whether a step can be made with these parameters: what was not finite may be the fault of its batch.
bool TrainingRun::is_sound() {
  if (any(!not_finite_parameter().empty())) return false;
  if (progress_.best && progress_.best_updates == progress_.updates) return true;
  bool finite = false;
  together([&] {
    try {
      feed_.give(loader_->next(), [&](const std::string& name) { return program_.input(name); });
      program_.run_gradients();
      finite = std::isfinite(program_.loss()) && std::isfinite(program_.gradient_norm());
      program_.discard();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user) throw;
      finite = true;  // a sample that cannot be read says nothing of the parameters
    }
  });
  return !any(!finite);
}

// False, with the reason, if what is trained is not finite.
bool TrainingRun::save() {
  count_time();
  RunProgress before = saved_;
  before.seconds = progress_.seconds;
  if (saved_once_ && before == progress_) return true;  // nothing has happened since
  const std::string wrong = not_finite_parameter();
  if (any(!wrong.empty())) {
    summary_.reason = fmt::format("\"{}\" is not finite after {}", wrong, count_of(progress_.updates, "update"));
    return false;
  }
  saved_once_ = true;
  const fs::path folder = checkpoints_of(options_.out);
  together([&] {
    if (!is_first()) return;
    summary_.checkpoint = save_checkpoint(folder, {progress_, identity_, program_.choices()}, program_);
  });
  saved_ = progress_;
  unproven_ = true;
  return true;
}

// Leaves as many checkpoints as are to be kept, once the last one's states have made a finite step or the run has ended
// with them: until then the one before may be needed.
void TrainingRun::drop_old() {
  unproven_ = false;
  together([&] {
    if (is_first()) {
      drop_checkpoints(checkpoints_of(options_.out), options_.keep, progress_.best ? progress_.best_updates : -1);
    }
  });
}

// A run that goes on with a checkpoint of these states would stop again at once. One that it was resumed with stays.
void TrainingRun::drop_unsound() {
  together([&] {
    if (!is_first()) return;
    std::map<int64_t, fs::path> found = find_checkpoints(checkpoints_of(options_.out));
    if (const auto last = found.find(progress_.updates); last != found.end() && progress_.updates > first_) {
      remove_checkpoint(last->second);
      found.erase(last);
    }
    summary_.checkpoint = found.empty() ? fs::path() : found.rbegin()->second;
  });
}

void TrainingRun::begin_pass() {
  if (loader_) waited_ns_ += loader_->waited_ns();
  loader_.reset();
  if (options_.renew) options_.renew(progress_.updates - progress_.updates % an_epoch_);
  loader_.emplace(samples_, Sampler(samples_.size(), options_.seed), feed_.batch(),
                  progress_.samples + rank_ * feed_.batch(), 2, (size_ - 1) * feed_.batch());
}

TrainingSummary TrainingRun::run() {
  std::optional<FolderLock> lock;
  together([&] {
    if (is_first()) lock.emplace(options_.out);
    resume();
  });
  // Now that every process goes on.
  together([&] {
    if (is_first() && options_.begun) options_.begun();
    std::error_code ignored;
    if (is_first()) fs::remove(options_.out / "summary.json", ignored);  // it is there only where a run has ended
    if (is_first()) metrics_.emplace(options_.out, progress_.updates, evaluated_before_);
  });
  join_gpus();
  begin_pass();
  start_ns_ = counted_ns_ = now_ns();
  start_samples_ = progress_.samples;
  first_ = progress_.updates;
  std::optional<Ended> ended = settle(nullptr);
  while (!ended) {
    if (options_.renew && progress_.updates > first_ && progress_.updates % an_epoch_ == 0) begin_pass();
    std::optional<TrainingStep> step = update();
    if (!step) {
      ended = Ended::not_finite;
      break;
    }
    if (unproven_) drop_old();
    summary_.loss = step->loss;
    if (!summary_.first_loss) summary_.first_loss = step->loss;
    together([&] {
      if (metrics_) metrics_->add(*step);
    });
    ended = settle(&*step);
  }
  if ((*ended == Ended::not_finite && !is_sound()) || !save()) {
    ended = Ended::not_finite;
    drop_unsound();
  }
  if (unproven_) drop_old();
  summary_.ended = *ended;
  summary_.progress = progress_;
  summary_.precision = identity_.precision;
  if (progress_.best && is_first())
    summary_.best = find_checkpoints(checkpoints_of(options_.out))[progress_.best_updates];
  together([&] {
    if (is_first()) write_summary(options_.out, summary_);
  });
  return summary_;
}

}  // namespace

std::optional<int64_t> limit_of(const TrainerOptions& options, int64_t samples, int64_t an_update) {
  std::optional<int64_t> updates;
  if (options.updates > 0) updates = options.updates;
  if (options.epochs > 0) {
    const double whole = options.epochs * static_cast<double>(samples) / static_cast<double>(an_update);
    const auto by_epochs = static_cast<int64_t>(std::min(std::ceil(whole), 1e15));
    updates = updates ? std::min(*updates, by_epochs) : by_epochs;
  }
  return updates;
}

bool is_over(const RunProgress& progress, const TrainerOptions& options, std::optional<int64_t> updates) {
  return (updates && progress.updates >= *updates) || is_out_of_time(progress, options) ||
         is_out_of_patience(progress, options);
}

double rate_at(const Schedule& s, int64_t update, int64_t updates) {
  if (update < s.warmup) return s.rate * static_cast<double>(update + 1) / static_cast<double>(s.warmup);
  if (s.form == Schedule::constant) return s.rate;
  const auto steps = static_cast<double>(std::max<int64_t>(updates - 1 - s.warmup, 1));
  const double at = std::min(static_cast<double>(update - s.warmup) / steps, 1.0);
  return s.rate * (s.last + (1 - s.last) * 0.5 * (1 + std::cos(std::numbers::pi * at)));
}

std::string_view name(Ended ended) {
  switch (ended) {
    case Ended::updates: return "updates";
    case Ended::minutes: return "minutes";
    case Ended::early: return "early stop";
    case Ended::interrupted: return "interrupted";
    case Ended::not_finite: return "not finite";
  }
  return "";
}

TrainingSummary train(TrainingProgram& program, const Samples& samples, const Samples* validation,
                      const TrainerOptions& options) {
  return TrainingRun(program, samples, validation, options).run();
}

std::optional<Checkpoint> newest_checkpoint(const fs::path& out) {
  const auto found = find_checkpoints(checkpoints_of(out));
  if (found.empty()) return std::nullopt;
  return load_checkpoint(found.rbegin()->second);
}

void evaluate_samples(TrainingProgram& program, const Samples& samples, std::span<const int64_t> indices,
                      const Evaluation& which, const std::function<void(size_t place, int64_t entry)>& take) {
  const Feed feed(program, samples, "chosen");
  const ThreadScope threads(program.options().session.threads);
  const auto fields = samples.fields();
  std::vector<int64_t> bytes;  // of a sample's fields
  for (const Field& field : fields) bytes.push_back(storage_bytes(field.dtype, field.shape.elements()));
  for (size_t first = 0; first < indices.size(); first += static_cast<size_t>(feed.batch())) {
    const auto count = std::min(feed.batch(), std::ssize(indices) - static_cast<int64_t>(first));
    const std::vector<std::byte*> inputs =
        feed.places(fields.size(), [&](const std::string& name) { return program.evaluation_input(name, which); });
    parallel_for(feed.batch(), 1, [&](int64_t begin, int64_t end) {
      std::vector<Tensor> unread;  // where fields that are no inputs go
      std::vector<std::byte*> to(fields.size());
      for (size_t i = 0; i < fields.size(); ++i)
        unread.push_back(inputs[i] ? Tensor() : Tensor(fields[i].dtype, fields[i].shape));
      for (int64_t entry = begin; entry < end; ++entry) {
        for (size_t i = 0; i < fields.size(); ++i)
          to[i] = inputs[i] ? inputs[i] + entry * bytes[i] : static_cast<std::byte*>(unread[i].raw());
        samples.read(indices[first + static_cast<size_t>(std::min(entry, count - 1))], to);
      }
    });
    program.run_evaluation(which);
    for (int64_t entry = 0; entry < count; ++entry) take(first + static_cast<size_t>(entry), entry);
  }
}

std::span<const float> output_of(const TrainingProgram& program, const std::string& role, int64_t entry, bool average) {
  const auto& names = program.report_names();
  const auto report = std::ranges::find(names, "output." + role) - names.begin();
  const ConstView all = program.evaluation_report(static_cast<size_t>(report), average);
  const auto width = static_cast<size_t>(all.shape[1]);
  return {all.as<float>() + static_cast<size_t>(entry) * width, width};
}

double time_steps(TrainingProgram& program, const Samples& samples, int steps) {
  const Feed feed(program, samples, "training");
  Loader loader(samples, Sampler(samples.size(), 0), feed.batch());
  std::vector<double> seconds;
  for (int i = 0; i <= steps; ++i) {
    const int64_t start = now_ns();
    feed.give(loader.next(), [&](const std::string& name) { return program.input(name); });
    program.run_gradients();
    if (std::isfinite(program.gradient_norm())) program.update(0);
    else program.discard();
    if (i > 0) seconds.push_back(seconds_of(now_ns() - start));
  }
  std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
  return seconds[seconds.size() / 2];
}

}  // namespace sparkpilot::train
