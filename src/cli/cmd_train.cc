// sparkpilot train: adapters or whole models distilled on a data set.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "adapters/load_model.h"
#include "base/bounded_json.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/with_file.h"
#include "cli/command.h"
#include "cli/driving_models.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "hw/memory.h"
#include "train/dataset.h"
#include "train/first_samples.h"
#include "train/student.h"
#include "train/trainer.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kCommandFile = "train.json";

struct Flags {
  std::string data, out, resume;
  DrivingModelFlags model;
  std::vector<std::string> init, weights;
  std::string network, mode = "adapter", kind = "dora", target, max_size, stored = "auto", labels = "teacher",
                       features = "kl", schedule = "cosine", optimizer = "adamw";
  int64_t rank = 0, batch = 32, accumulate = 1, updates = 0, warmup = 0, evaluate_every = 0, patience = 0,
          checkpoint_every = 0, keep = 2, overfit = 0;
  double alpha = 0, epochs = 0, minutes = 0, rate = 1e-3, last_rate = 0, decay = 0.01, clip = 1, ema = 0,
         warp_degrees = 0, brightness = 0, least_scale = 0;
  bool merged = false, dry_run = false, fresh = false;
  uint64_t seed = 1;
};

// Every flag that shapes a run, for train.json: what --resume reads again.
template <typename Visit>
void each_flag(Flags& f, const Visit& visit) {
  visit("data", f.data);
  visit("vision", f.model.vision);
  visit("policy", f.model.policy);
  visit("supercombo", f.model.supercombo);
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
  visit("warp_degrees", f.warp_degrees);
  visit("brightness", f.brightness);
  visit("merged", f.merged);
  visit("fresh", f.fresh);
  visit("least_scale", f.least_scale);
  visit("seed", f.seed);
}

// The model's files as they are in the settings or on the command line, kept as absolute paths.
void settle_model(const Program& program, Flags& flags) {
  const drive::ModelFiles files = chosen_driving_model(program, flags.model);
  const auto whole = [](const fs::path& path) { return path.empty() ? std::string() : fs::absolute(path).string(); };
  flags.model = {.vision = whole(files.vision), .policy = whole(files.policy), .supercombo = whole(files.supercombo)};
  flags.data = fs::absolute(flags.data).string();
  for (std::string& folder : flags.init) folder = fs::absolute(folder).string();
}

void write_command(Flags flags, int threads, const std::string& device) {
  Json json = {{"format", "sparkpilot training command"}, {"version", 1}, {"threads", threads}, {"device", device}};
  each_flag(flags, [&](const char* name, auto& value) { json[name] = value; });
  make_folders(flags.out);
  AtomicFile file(fs::path(flags.out) / kCommandFile);
  file.write(json.dump(2) + "\n");
  file.commit();
}

// What an earlier run was given; its threads and its device.
std::pair<int, std::string> read_command(const fs::path& out, Flags& flags) {
  const fs::path path = out / kCommandFile;
  const std::string text = read_file(path, 1 << 20);
  int threads = 0;
  std::string device;
  with_file(path, [&] {
    try {
      const std::optional<Json> json = parse_bounded(text);
      if (!json || json->at("format") != "sparkpilot training command") fail("not written by sparkpilot train");
      each_flag(flags, [&](const char* name, auto& value) { json->at(name).get_to(value); });
      json->at("threads").get_to(threads);
      device = json->value("device", "cpu");
    } catch (const nlohmann::json::exception& error) {
      fail("cannot be read: {}", error.what());
    }
  });
  flags.out = out.string();
  return {threads, device};
}

std::map<std::string, double> loss_weights(const Flags& flags) {
  std::map<std::string, double> out;
  for (const std::string& text : flags.weights) {
    const auto [head, number] = split_assignment(text, "--loss");
    if (const std::string wrong = no_number<double>(number); !wrong.empty()) fail("--loss {}: {}", head, wrong);
    double weight = 0;
    std::from_chars(number.data(), number.data() + number.size(), weight);
    if (!(weight >= 0)) fail("--loss {}: expected 0 or more, got {}", head, weight);
    if (!out.emplace(head, weight).second) fail("--loss {}: given twice", head);
  }
  return out;
}

train::StudentOptions student_options(const Flags& flags) {
  train::StudentOptions out;
  if (!flags.model.supercombo.empty()) {
    out.networks = {{"supercombo", flags.model.supercombo}};
  } else {
    out.networks = {{"vision", flags.model.vision}, {"policy", flags.model.policy}};
    if (!flags.network.empty()) {
      std::erase_if(out.networks, [&](const auto& network) { return network.role != flags.network; });
    }
  }
  if (out.networks.empty()) fail("--network {}: this model is a supercombo, one network", flags.network);
  out.batch = flags.batch;
  out.mode = flags.mode == "full" ? train::TrainMode::full : train::TrainMode::adapter;
  out.adapter.kind = flags.kind == "lora"     ? AdapterKind::lora
                     : flags.kind == "rslora" ? AdapterKind::rslora
                                              : AdapterKind::dora;
  out.adapter.target = flags.target;
  out.adapter.seed = flags.seed;
  if (flags.rank > 0) out.adapter.rank = flags.rank;
  if (flags.alpha > 0) out.adapter.alpha = flags.alpha;
  out.max_size = flags.max_size.empty() ? "1%" : flags.max_size;
  out.stored = flags.stored;
  out.init.assign(flags.init.begin(), flags.init.end());
  out.target = flags.labels == "labels" ? train::Target::labels : train::Target::teacher;
  out.features = flags.features == "cosine" ? train::FeatureLoss::cosine
                 : flags.features == "l2"   ? train::FeatureLoss::l2
                                            : train::FeatureLoss::kl;
  out.weights = loss_weights(flags);
  return out;
}

// Whether the data's teacher is the student as it begins.
bool is_own_teacher(const Flags& flags, const train::StudentOptions& student, const train::DatasetInfo& info) {
  if (flags.labels != "teacher" || !flags.init.empty()) return false;
  return std::ranges::all_of(student.networks, [&](const train::StudentNetwork& network) {
    const train::DatasetNetwork* teacher = info.network(network.role);
    return teacher != nullptr && teacher->hash == fmt::format("{:016x}", model_hash(network.file));
  });
}

void check(const Flags& flags) {
  if (flags.data.empty()) fail("--data DIR is expected: a folder of `sparkpilot dataset build`");
  if (flags.out.empty()) fail("--out DIR is expected: where checkpoints and results go");
  if (flags.updates <= 0 && flags.epochs <= 0 && flags.minutes <= 0) {
    fail("a limit is expected: --epochs, --updates or --minutes");
  }
  for (const auto& [flag, value] : {std::pair{"--updates", static_cast<double>(flags.updates)},
                                    {"--epochs", flags.epochs},
                                    {"--minutes", flags.minutes},
                                    {"--rank", static_cast<double>(flags.rank)},
                                    {"--alpha", flags.alpha},
                                    {"--warmup", static_cast<double>(flags.warmup)},
                                    {"--last-rate", flags.last_rate},
                                    {"--weight-decay", flags.decay},
                                    {"--clip", flags.clip},
                                    {"--patience", static_cast<double>(flags.patience)},
                                    {"--evaluate-every", static_cast<double>(flags.evaluate_every)},
                                    {"--checkpoint-every", static_cast<double>(flags.checkpoint_every)},
                                    {"--overfit", static_cast<double>(flags.overfit)},
                                    {"--warp", flags.warp_degrees},
                                    {"--brightness", flags.brightness}}) {
    if (!(value >= 0)) fail("{} {}: expected 0 or more", flag, value);
  }
  for (const auto& [flag, value] :
       {std::pair{"--batch", flags.batch}, {"--accumulate", flags.accumulate}, {"--keep", flags.keep}}) {
    expect_at_least(flag, value, 1);
  }
  if (!(flags.rate > 0)) fail("--rate {}: expected more than 0", flags.rate);
  if (!(flags.ema >= 0 && flags.ema < 1)) fail("--ema {}: expected 0 to below 1", flags.ema);
  if (flags.schedule == "cosine" && flags.updates <= 0 && flags.epochs <= 0) {
    fail("a cosine needs its length: give --epochs or --updates, or --schedule constant");
  }
  const bool adapter = flags.mode == "adapter";
  for (const auto& [given, flag] : {std::pair{flags.rank > 0, "--rank"},
                                    {flags.alpha > 0, "--alpha"},
                                    {!flags.target.empty(), "--target"},
                                    {!flags.max_size.empty(), "--max-size"},
                                    {!flags.init.empty(), "--init-adapter"},
                                    {flags.merged, "--merged"}}) {
    if (given && !adapter) fail("{} is for adapters: it has no effect with --mode full", flag);
  }
  if (flags.least_scale != 0 && adapter) fail("--least-scale is for --mode full");
  if (!(flags.least_scale >= 0 && flags.least_scale <= 1)) fail("--least-scale {}: expected 0 to 1", flags.least_scale);
  if (flags.fresh && adapter) fail("--fresh is for --mode full: an adapter begins with the model as it is");
  if (flags.rank > 0 && !flags.max_size.empty())
    fail("--rank sets every layer's rank: --max-size has no effect with it");
}

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string step_text(const train::TrainingStep& step) {
  std::string out = fmt::format("update {}, loss {:.4g}, rate {:.2g}, {:.0f} samples/s", step.update, step.loss,
                                step.rate, step.samples_per_second);
  if (step.waited > 0.05) out += fmt::format(", {:.0f} % waiting for data", 100 * step.waited);
  if (step.evaluation_loss) out += fmt::format(", evaluation {:.4g}", *step.evaluation_loss);
  if (const std::optional<int64_t> memory = peak_memory_bytes()) out += ", " + human_bytes(*memory);
  return step.seconds_left ? out + ", left " + time_text(*step.seconds_left) : out;
}

void report_text(const Program& program, const train::TrainingSummary& summary, const std::vector<fs::path>& written,
                 const fs::path& out) {
  Json files = Json::array();
  for (const fs::path& path : written) files.push_back(path.string());
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  if (program.json) {
    print_json({{"ended", train::name(summary.ended)},
                {"reason", summary.reason},
                {"updates", summary.progress.updates},
                {"seconds", summary.progress.seconds},
                {"first_loss", number(summary.first_loss)},
                {"loss", number(summary.loss)},
                {"evaluation_loss", number(summary.evaluation_loss)},
                {"best_evaluation_loss", number(summary.progress.best)},
                {"checkpoint", summary.checkpoint.string()},
                {"written", files}});
  } else {
    const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{:.4g}", *value) : "-"; };
    print(fmt::format("{} after {} updates, {}: loss {} to {}", train::name(summary.ended), summary.progress.updates,
                      time_text(summary.progress.seconds), text(summary.first_loss), text(summary.loss)));
    if (summary.progress.best) {
      print(fmt::format(", best evaluation {:.4g} after {}", *summary.progress.best, summary.progress.best_updates));
    }
    print("\n");
    for (const fs::path& path : written) print(path.string() + "\n");
  }
  if (summary.ended != train::Ended::not_finite) return;
  note(fmt::format("{}{}", summary.reason,
                   summary.batch.empty() ? "" : "; the batch is in " + (out / summary.batch).string()));
}

// One run, in each of its processes.
class TrainRun {
 public:
  TrainRun(const Program& program, const Flags& asked, Comm& comm) : program_(program), flags_(asked), comm_(comm) {}

  void prepare();
  void train(const std::atomic<bool>& interrupt);
  int report() const;
  int try_steps();
  bool is_dry() const { return flags_.dry_run; }

 private:
  bool is_first() const { return comm_.rank() == 0; }
  bool tells() const { return is_first() && !program_.quiet; }

  const Program& program_;
  Flags flags_;
  Comm& comm_;
  bool resume_ = false;
  std::optional<train::Dataset> all_, validation_;
  std::optional<train::FirstSamples> samples_;
  std::optional<train::Student> student_;
  std::optional<train::TrainingProgram> steps_;
  train::TrainingSummary summary_;
  std::vector<fs::path> written_;
};

void TrainRun::prepare() {
  std::optional<int> threads = chosen_threads(program_);
  std::string device = program_.settings["device"].value;
  resume_ = !flags_.resume.empty();
  if (resume_) {
    const auto [threads_before, device_before] = read_command(flags_.resume, flags_);
    if (!threads) threads = threads_before;
    if (device == "auto") device = device_before;
    check(flags_);
  } else {
    check(flags_);
    settle_model(program_, flags_);
  }
  all_.emplace(flags_.data, train::DatasetOptions{.split = train::Split::train,
                                                  .augment = {.warp_degrees = flags_.warp_degrees,
                                                              .brightness = flags_.brightness,
                                                              .seed = flags_.seed}});
  if (std::ranges::any_of(all_->info().routes, &train::DatasetRoute::validation)) {
    validation_.emplace(flags_.data, train::DatasetOptions{.split = train::Split::validation});
  }
  samples_.emplace(*all_, flags_.overfit > 0 ? flags_.overfit : all_->size());
  train::StudentOptions options = student_options(flags_);
  if (options.mode == train::TrainMode::full) {
    for (const train::StudentNetwork& network : options.networks) {
      const std::string field = flags_.labels + "." + network.role;
      options.units[network.role] = train::output_units(*samples_, field, output_slices(load_model(network.file)));
    }
    options.fresh = flags_.fresh;
    options.least_scale = flags_.least_scale;
  }
  student_.emplace(options, samples_->fields());
  if (tells()) {
    for (const std::string& text : student_->notes()) note(text);
    if (is_own_teacher(flags_, options, all_->info())) {
      note("the teacher is this very model: there is nothing to learn");
    }
  }
  train::ProgramOptions settings{
      .optimizer = flags_.optimizer == "sgd" ? train::Optimizer::sgd : train::Optimizer::adamw,
      .weight_decay = static_cast<float>(flags_.decay),
      .ema = static_cast<float>(flags_.ema),
      .micro_batches = static_cast<int>(flags_.accumulate)};
  settings.session.threads = threads.value_or(0) > 0 ? *threads : std::max(1, available_processors() / comm_.size());
  settings.session.tune = Tune::off;
  settings.session.device = device == "auto" ? "cpu" : device;  // a GPU must be asked for
  settings.session.memory_reserve = memory_reserve(program_);
  if (tells()) tell_about_device(program_, settings.session.device);
  if (resume_) {
    if (const auto checkpoint = train::newest_checkpoint(flags_.out)) settings.choices = checkpoint->choices;
  }
  steps_.emplace(student_->program(settings));
  if (!resume_ && !flags_.dry_run && is_first())
    write_command(flags_, settings.session.threads, settings.session.device);
}

void TrainRun::train(const std::atomic<bool>& interrupt) {
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
  trainer.evaluate_every = flags_.evaluate_every;
  trainer.evaluate_average = flags_.ema > 0;
  trainer.patience = static_cast<int>(flags_.patience);
  trainer.checkpoint_every = flags_.checkpoint_every;
  trainer.keep = static_cast<int>(flags_.keep);
  trainer.dataset = all_->fingerprint();
  trainer.resume = resume_;
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
    summary_ = train::train(*steps_, *samples_, validation_ ? &*validation_ : nullptr, trainer);
  }
  comm_.together([&] {
    if (!is_first()) return;
    if (!summary_.best.empty() && summary_.best != summary_.checkpoint) train::load_states(summary_.best, *steps_);
    written_ = student_->save(*steps_, flags_.out, flags_.ema > 0, flags_.merged);
  });
}

// One step of what was asked for, and what it takes.
int TrainRun::try_steps() {
  const double seconds = train::time_steps(*steps_, *samples_, 3);
  const int64_t memory = peak_memory_bytes().value_or(0), bytes = student_->adapter_bytes();
  const int threads = steps_->options().session.threads;
  const double rate = static_cast<double>(flags_.batch) / seconds;
  if (program_.json) {
    print_json({{"parameters", student_->parameters()},
                {"adapter_bytes", bytes},
                {"samples", samples_->size()},
                {"batch", flags_.batch},
                {"threads", threads},
                {"step_ms", seconds * 1e3},
                {"samples_per_second", rate},
                {"peak_memory_bytes", memory},
                {"machine_memory_bytes", physical_memory()}});
    return kDone;
  }
  print(
      fmt::format("{} parameters{}, {} samples\n{} ms a step of {} samples on {} threads: {:.0f} samples a second\n"
                  "{} of {} memory at most\n",
                  human_count(static_cast<double>(student_->parameters())),
                  bytes > 0 ? ", adapter " + human_bytes(bytes) : "", samples_->size(), human_ms(seconds * 1e3),
                  flags_.batch, threads, rate, human_bytes(memory), human_bytes(physical_memory())));
  return kDone;
}

int TrainRun::report() const {
  if (is_first()) report_text(program_, summary_, written_, flags_.out);
  return summary_.ended == train::Ended::not_finite ? kCheckFailed : kDone;
}

int run(Program& program, const Flags& flags) {
  program.comm = std::make_unique<Comm>();
  Comm& comm = *program.comm;
  const StopOnInterrupt stop(comm.rank() == 0 && !program.quiet);
  TrainRun run(program, flags, comm);
  comm.together([&] { run.prepare(); });
  if (run.is_dry()) return comm.rank() == 0 ? run.try_steps() : kDone;
  run.train(stop.requested());
  return run.report();
}

}  // namespace

void add_train(Program& program, Command app) {
  const auto flags = std::make_shared<Flags>();
  const Command command =
      add_command(program, app, "train", "distil a teacher into an adapter, or train a whole model",
                  "  sparkpilot train --models models --data data --out out/run --epochs 3\n"
                  "  sparkpilot train --models models --network policy --data data --out out/run --epochs 3 --rank 16\n"
                  "  sparkpilot train --supercombo driving_supercombo.onnx --data data --out out/run --minutes 30 "
                  "--schedule constant --mode full --against labels\n"
                  "  sparkpilot train --resume out/run\n"
                  "  mpirun -np 2 sparkpilot train --models models --data data --out out/run --epochs 3\n"
                  "Ctrl-C ends with a checkpoint; --resume goes on from the newest one with the same flags.",
                  [&program, flags] { return run(program, *flags); });
  command.add_option("--data", flags->data, "folder of `sparkpilot dataset build`").type_name("DIR");
  add_driving_model_flags(program, command, flags->model);
  add_choice(command, "--network", flags->network, {"vision", "policy"}, "of two networks train this one alone",
             "NAME");
  command.add_option("-o,--out", flags->out, "where checkpoints, metrics and results go").type_name("DIR");
  command.add_option("--resume", flags->resume, "go on with the run in this folder, with its flags").type_name("OUT");
  command.add_flag("--dry-run", flags->dry_run, "time a few steps, and say what a run takes");
  add_choice(command, "--mode", flags->mode, {"adapter", "full"},
             "train an adapter beside the frozen model, or all weights", "MODE");
  add_choice(command, "--kind", flags->kind, {"dora", "lora", "rslora"}, "of adapter", "KIND");
  add_number(command, "--rank", flags->rank, "rank of every layer; without it, ranks that fit --max-size");
  add_number(command, "--alpha", flags->alpha, "alpha of every layer; without it, its rank", "X");
  command.add_option("--target", flags->target, "only layers whose whole path matches this regular expression")
      .type_name("REGEX");
  command.add_option("--max-size", flags->max_size, "share of each network's tensor bytes, or bytes: 1% (the default)")
      .type_name("SIZE");
  add_choice(command, "--dtype", flags->stored, {"auto", "fp32", "fp16", "bf16"}, "how the adapter is stored", "TYPE");
  command.add_flag("--fresh", flags->fresh, "of --mode full: the last layers begin at the targets' means");
  add_number(command, "--least-scale", flags->least_scale,
             "of --mode full: take predicted scales for at least this part of the targets' deviations, such as 0.1",
             "X");
  add_list(command, "--init-adapter", flags->init, "DIR", "begin with this adapter (repeatable)");
  command.add_flag("--merged", flags->merged, "also write models with the adapter merged");
  add_choice(command, "--against", flags->labels, {"teacher", "labels"},
             "compare with the teacher's outputs, or with what is true of synthetic roads", "WHAT");
  add_list(command, "--loss", flags->weights, "HEAD=WEIGHT", "weight of a head's loss; 0 leaves it out (repeatable)");
  add_choice(command, "--features", flags->features, {"kl", "cosine", "l2"}, "how features are compared", "HOW");
  add_number(command, "--batch", flags->batch, "samples of a step");
  add_number(command, "--accumulate", flags->accumulate, "steps whose gradients make one update");
  add_number(command, "--epochs", flags->epochs, "end after so many passes over the data", "X");
  add_number(command, "--updates", flags->updates, "end after so many updates");
  add_number(command, "--minutes", flags->minutes, "end after so many minutes of training", "X");
  add_choice(command, "--optimizer", flags->optimizer, {"adamw", "sgd"}, "AdamW, or SGD with momentum 0.9", "NAME");
  add_number(command, "--rate", flags->rate, "learning rate", "X");
  add_choice(command, "--schedule", flags->schedule, {"cosine", "constant"}, "the rate after the warm-up", "FORM");
  add_number(command, "--warmup", flags->warmup, "updates in which the rate grows from 0");
  add_number(command, "--last-rate", flags->last_rate, "the cosine's end, as a part of --rate", "X");
  add_number(command, "--weight-decay", flags->decay, "decoupled decay of weights; not of biases and magnitudes", "X");
  add_number(command, "--clip", flags->clip, "largest norm of a gradient; 0: none", "X");
  add_number(command, "--ema", flags->ema, "keep moving averages with this factor, such as 0.999, and save those", "X");
  add_number(command, "--evaluate-every", flags->evaluate_every, "updates between evaluations; 0: once an epoch");
  add_number(command, "--patience", flags->patience, "end after so many evaluations without a better one; 0: never");
  add_number(command, "--checkpoint-every", flags->checkpoint_every, "updates between checkpoints; 0: at evaluations");
  add_number(command, "--keep", flags->keep, "checkpoints to keep, besides the best");
  add_number(command, "--overfit", flags->overfit, "train on the first N samples only, as a test");
  add_number(command, "--warp", flags->warp_degrees, "augment: deviation of the camera's angles, in degrees", "DEG");
  add_number(command, "--brightness", flags->brightness, "augment: deviation of the pictures' brightness", "X");
  add_number(command, "--seed", flags->seed, "seed of the adapter's numbers and of the samples' order");
  add_setting(program, command, "device", "cpu, cuda or cuda:N; auto is the CPU");
  add_setting(program, command, "memory-reserve");
  add_setting(program, command, "threads");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
