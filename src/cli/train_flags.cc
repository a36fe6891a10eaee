#include "cli/train_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/with_file.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

bool is_model_flag(std::string_view flag) {
  return flag == "--model" || flag == "--models" || flag == "--vision" || flag == "--policy" || flag == "--supercombo";
}

std::map<std::string, double> loss_weights(const TrainFlags& flags) {
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

// The file of the one network, or a folder with driving models.
void set_teachers(const fs::path& teacher, std::vector<train::StudentNetwork>& networks) {
  if (networks.size() == 1 && !fs::is_directory(parse_model_name(teacher).file)) {
    networks[0].teacher = teacher;
    return;
  }
  const drive::ModelFiles files = drive::find_models(teacher);
  for (train::StudentNetwork& each : networks) {
    each.teacher = each.role == "vision"       ? files.vision
                   : each.role == "policy"     ? files.policy
                   : each.role == "supercombo" ? files.supercombo
                                               : fs::path();
    if (each.teacher.empty()) fail("--teacher {}: holds no {} network", teacher.string(), each.role);
  }
}

// Takes a flag's value from the file. Fails (user) if a number is expected and something else, or a fraction, is there.
template <typename T>
void take_flag(const Json& json, const char* name, T& value) {
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    const bool fits = std::is_unsigned_v<T>   ? json.is_number_unsigned()
                      : std::is_integral_v<T> ? json.is_number_integer()
                                              : json.is_number();
    if (!fits) {
      fail("\"{}\" is {}, expected a {}number{}", name, json_text(json), std::is_integral_v<T> ? "whole " : "",
           std::is_unsigned_v<T> ? " from 0" : "");
    }
  }
  json.get_to(value);
}

}  // namespace

void add_train_flags(Program& program, Command command, TrainFlags& flags) {
  command.add_option("--data", flags.data, "folder of `sparkpilot dataset build`").type_name("DIR");
  add_driving_model_flags(program, command, flags.model);
  add_one_model_flag(command, flags.one);
  add_choice(command, "--network", flags.network, {"vision", "policy"}, "of two networks train this one alone", "NAME");
  command.add_option("-o,--out", flags.out, "where checkpoints, metrics and results go").type_name("DIR");
  command.add_option("--resume", flags.resume, "go on with the run in this folder, with its flags").type_name("OUT");
  command.add_option("--from", flags.from, "begin with the flags of another run: its train.json").type_name("FILE");
  command.add_flag("--dry-run", flags.dry_run, "time a few steps, and say what a run takes");
  add_choice(command, "--mode", flags.mode, {"adapter", "full"}, "train an adapter of the frozen model, or all weights",
             "MODE");
  add_choice(command, "--kind", flags.kind, {"dora", "lora", "rslora"}, "of adapter", "KIND");
  add_choice(command, "--dora-norm", flags.dora_norm, {"factored", "exact"},
             "how DoRA's norms are renewed after an update: without making the changed weights, or from them", "FORM");
  add_number(command, "--rank", flags.rank, "rank of every layer; without it, ranks that fit --max-size");
  add_number(command, "--alpha", flags.alpha, "alpha of every layer; without it, its rank", "X");
  command.add_option("--target", flags.target, "only layers whose whole path matches this regular expression")
      .type_name("REGEX");
  command.add_option("--max-size", flags.max_size, "share of each network's tensor bytes, or bytes: 1% (the default)")
      .type_name("SIZE");
  add_choice(command, "--dtype", flags.stored, {"auto", "fp32", "fp16", "bf16"}, "how the adapter is stored", "TYPE");
  command.add_flag("--fresh", flags.fresh,
                   "of --mode full: the model's weights mean nothing yet; layers begin centred, the last ones at the "
                   "targets' means");
  add_number(command, "--least-scale", flags.least_scale,
             "take predicted scales for at least this part of the targets' deviations, such as 0.1", "X");
  add_list(command, "--init-adapter", flags.init, "DIR", "begin with this adapter (repeatable)");
  command.add_flag("--merged", flags.merged, "also write models with the adapter merged");
  add_choice(command, "--against", flags.labels, {"teacher", "labels"},
             "compare with the teacher's outputs, or with what is true of synthetic roads", "WHAT");
  add_list(command, "--loss", flags.weights, "HEAD=WEIGHT", "weight of a head's loss; 0 leaves it out (repeatable)");
  command.add_flag("--own-features", flags.own_features,
                   "features of the past are the student's own, computed anew in each epoch, not the teacher's");
  add_number(command, "--teacher-features", flags.teacher_features,
             "of --own-features: passes over the data that have the teacher's features first");
  command.add_flag("--no-rollout", flags.no_rollout, "evaluate with the data set's features of the past only");
  command
      .add_option(
          "--teacher", flags.teacher,
          "a model of the same layers (a file; of vision and policy their folder): what layers compute is compared, "
          "too, with the weight of --loss layers=WEIGHT")
      .type_name("PATH");
  command
      .add_option("--match", flags.matched, "of --teacher only layers whose whole path matches this regular expression")
      .type_name("REGEX");
  add_choice(command, "--features", flags.features, {"kl", "cosine", "l2"}, "how features are compared", "HOW");
  add_number(command, "--batch", flags.batch, "samples of a step");
  add_number(command, "--accumulate", flags.accumulate, "steps whose gradients make one update");
  command
      .add_option(
          "--max-activations", flags.max_activations,
          "memory of a step's activations: values are computed again instead of kept until it is enough; 500M, 2G")
      .type_name("SIZE");
  add_choice(command, "--precision", flags.precision, {"fp32", "bf16"},
             "of products and convolutions; what is trained, moments, sums and losses are fp32", "TYPE");
  add_choice(command, "--base-precision", flags.base_precision, {"fp32", "fp8", "fp4"},
             "how the frozen weights of an adapter's model are kept, and what steps compute with", "TYPE");
  add_number(command, "--epochs", flags.epochs, "end after X passes over the data", "X");
  add_number(command, "--updates", flags.updates, "end after N updates");
  add_number(command, "--minutes", flags.minutes, "end after X minutes of training", "X");
  add_choice(command, "--optimizer", flags.optimizer, {"adamw", "sgd"}, "AdamW, or SGD with momentum 0.9", "NAME");
  add_number(command, "--rate", flags.rate, "learning rate", "X");
  add_choice(command, "--schedule", flags.schedule, {"cosine", "constant"}, "the rate after the warm-up", "FORM");
  add_number(command, "--warmup", flags.warmup, "updates in which the rate grows from 0");
  add_number(command, "--last-rate", flags.last_rate, "the cosine's end, as a part of --rate", "X");
  add_number(command, "--weight-decay", flags.decay, "decoupled decay of weights; not of biases and magnitudes", "X");
  add_number(command, "--clip", flags.clip, "largest norm of a gradient; 0: none", "X");
  add_number(command, "--ema", flags.ema, "keep moving averages with this factor, such as 0.999, and save those", "X");
  add_number(command, "--evaluate-every", flags.evaluate_every, "updates between evaluations; 0: once an epoch");
  add_number(command, "--patience", flags.patience, "end after N evaluations without a better one; 0: never");
  add_number(command, "--checkpoint-every", flags.checkpoint_every, "updates between checkpoints; 0: at evaluations");
  add_number(command, "--keep", flags.keep, "checkpoints to keep, besides the best");
  add_number(command, "--overfit", flags.overfit, "train on the first N samples only, as a test");
  add_number(command, "--warp", flags.warp_degrees, "augment: deviation of the camera's angles, in degrees", "DEG");
  add_number(command, "--brightness", flags.brightness, "augment: deviation of the pictures' brightness", "X");
  add_number(command, "--seed", flags.seed, "seed of the adapter's numbers and of the samples' order");
}

void settle_paths(const Program& program, TrainFlags& flags) {
  const auto whole = [](const fs::path& path) {
    if (path.empty()) return std::string();
    const ModelName name = parse_model_name(path);
    fs::path out = fs::absolute(name.file);
    for (ModelName::Part part : name.adapters) {
      part.folder = fs::absolute(part.folder);
      out = with_adapter(out, part);
    }
    return out.string();
  };
  if (!flags.one.empty()) expect_alone(program, flags.model, "--model");
  const drive::ModelFiles files =
      flags.one.empty() ? chosen_driving_model(program, flags.model, "--model FILE") : drive::ModelFiles();
  flags.one = whole(flags.one);
  flags.model = {.vision = whole(files.vision), .policy = whole(files.policy), .supercombo = whole(files.supercombo)};
  flags.data = fs::absolute(flags.data).string();
  flags.teacher = whole(flags.teacher);
  for (std::string& folder : flags.init) folder = fs::absolute(folder).string();
}

std::string train_flags_text(TrainFlags flags) {
  flags.data = flags.one = flags.teacher = "";
  flags.model = {};
  flags.init.clear();
  Json json;
  each_flag(flags, [&](const char* name, auto& value) { json[name] = value; });
  json["dry_run"] = flags.dry_run;
  json["resume"] = !flags.resume.empty();
  return json_text(json);
}

void write_train_command(TrainFlags flags, const TrainPlace& place) {
  Json json = {
      {"format", "sparkpilot training command"}, {"version", 1}, {"threads", place.threads}, {"device", place.device}};
  each_flag(flags, [&](const char* name, auto& value) { json[name] = value; });
  make_folders(flags.out);
  AtomicFile file(fs::path(flags.out) / kTrainCommandFile);
  const std::string text = json_text(json, 2);
  if (parse_json(text) != json) fail("a flag of this run is not UTF-8, so {} could not hold it", kTrainCommandFile);
  file.write(text + "\n");
  file.commit();
}

TrainPlace read_train_command(const fs::path& path, const std::vector<std::string>& given, TrainFlags& flags) {
  const std::string text = read_file(path, 1 << 20);
  const bool other_model = std::ranges::any_of(given, is_model_flag);
  TrainPlace place;
  with_file(path, [&] {
    try {
      std::optional<Json> json = parse_bounded(text);
      if (!json || json->at("format") != "sparkpilot training command") fail("not written by sparkpilot train");
      if (json->at("version") != 1) fail("version {}, expected 1", json_text(json->at("version")));
      if (json->contains("threads")) take_flag(json->at("threads"), "threads", place.threads);
      if (json->contains("device")) json->at("device").get_to(place.device);
      for (const char* known : {"format", "version", "threads", "device"}) json->erase(known);
      each_flag(flags, [&](const char* name, auto& value) {
        std::string flag = std::string("--") + name;
        std::ranges::replace(flag, '_', '-');
        const bool wins = is_model_flag(flag) ? other_model : std::ranges::find(given, flag) != given.end();
        if (!wins && json->contains(name)) take_flag(json->at(name), name, value);
        json->erase(name);
      });
      if (!json->empty()) fail("\"{}\" is no flag of train", json->begin().key());
    } catch (const nlohmann::json::exception& error) {
      fail("cannot be read: {}", json_fault(error));
    }
  });
  return place;
}

train::StudentOptions student_options(const TrainFlags& flags, const train::DatasetInfo& info) {
  train::StudentOptions out;
  if (!flags.one.empty()) {
    out.networks = {{train::role_of_model(info, flags.one), flags.one}};
  } else if (!flags.model.supercombo.empty()) {
    out.networks = {{"supercombo", flags.model.supercombo}};
  } else {
    out.networks = {{"vision", flags.model.vision}, {"policy", flags.model.policy}};
    if (!flags.network.empty()) {
      std::erase_if(out.networks, [&](const auto& network) { return network.role != flags.network; });
    }
  }
  if (out.networks.empty()) fail("--network {}: this model is a supercombo, one network", flags.network);
  if (!flags.teacher.empty()) set_teachers(flags.teacher, out.networks);
  if (!flags.matched.empty()) out.matched = flags.matched;
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
  out.norms = flags.dora_norm == "exact" ? NormForm::exact : NormForm::factored;
  // In bf16 a small change of large weights would be rounded away.
  out.form = flags.precision == "fp32" ? AdapterForm::cheaper : AdapterForm::branches;
  out.form_batch = flags.batch;
  out.base = parse_precision(flags.base_precision).value();
  out.target = flags.labels == "labels" ? train::Target::labels : train::Target::teacher;
  out.features = flags.features == "cosine" ? train::FeatureLoss::cosine
                 : flags.features == "l2"   ? train::FeatureLoss::l2
                                            : train::FeatureLoss::kl;
  out.weights = loss_weights(flags);
  return out;
}

void check_train_flags(const TrainFlags& flags) {
  if (flags.data.empty()) fail("--data DIR is expected: a folder of `sparkpilot dataset build`");
  if (flags.out.empty()) fail("--out DIR is expected: where checkpoints and results go");
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
                                    {"--teacher-features", static_cast<double>(flags.teacher_features)},
                                    {"--warp", flags.warp_degrees},
                                    {"--brightness", flags.brightness}}) {
    if (!(value >= 0) || std::isinf(value)) fail("{} {}: expected 0 or more", flag, value);
  }
  if (flags.updates <= 0 && flags.epochs <= 0 && flags.minutes <= 0) {
    fail("a limit is expected: --epochs, --updates or --minutes");
  }
  for (const auto& [flag, value] :
       {std::pair{"--batch", flags.batch}, {"--accumulate", flags.accumulate}, {"--keep", flags.keep}}) {
    expect_at_least(flag, value, 1);
  }
  if (!(flags.rate > 0) || std::isinf(flags.rate)) fail("--rate {}: expected more than 0", flags.rate);
  if (!(flags.ema >= 0 && flags.ema < 1)) fail("--ema {}: expected 0 to below 1", flags.ema);
  if (flags.schedule == "cosine" && flags.updates <= 0 && flags.epochs <= 0) {
    fail("a cosine needs its length: give --epochs or --updates, or --schedule constant");
  }
  for (const auto& [model, flag] : {std::pair{&flags.one, "--model"}, {&flags.model.supercombo, "--supercombo"}}) {
    if (!model->empty() && !flags.network.empty()) fail("--network is of two networks: it has no effect with {}", flag);
  }
  const bool adapter = flags.mode == "adapter";
  for (const auto& [given, flag] : {std::pair{flags.rank > 0, "--rank"},
                                    {flags.alpha > 0, "--alpha"},
                                    {!flags.target.empty(), "--target"},
                                    {!flags.max_size.empty(), "--max-size"},
                                    {!flags.init.empty(), "--init-adapter"},
                                    {flags.base_precision != "fp32", "--base-precision"},
                                    {flags.dora_norm != "factored", "--dora-norm"},
                                    {flags.merged, "--merged"}}) {
    if (given && !adapter) fail("{} is for adapters: it has no effect with --mode full", flag);
  }
  if (flags.dora_norm != "factored" && flags.kind != "dora") {
    fail("--dora-norm is for DoRA: it has no effect with --kind {}", flags.kind);
  }
  const bool one = !flags.one.empty() || !flags.model.supercombo.empty() || !flags.network.empty();
  const size_t trained = one ? 1 : 2;
  for (const auto& [given, flag] : {std::pair{flags.rank > 0, "--rank"},
                                    {flags.alpha > 0, "--alpha"},
                                    {!flags.target.empty(), "--target"},
                                    {!flags.max_size.empty(), "--max-size"},
                                    {flags.kind != "dora", "--kind"},
                                    {flags.stored != "auto", "--dtype"}}) {
    if (given && flags.init.size() >= trained) {
      fail("{} is for new adapters: it has no effect with --init-adapter, whose adapter stays as it is made", flag);
    }
  }
  if (!(flags.least_scale >= 0 && flags.least_scale <= 1)) fail("--least-scale {}: expected 0 to 1", flags.least_scale);
  if (flags.teacher_features > 0 && !flags.own_features) {
    fail("--teacher-features is of --own-features: without it all passes have the teacher's");
  }
  if (!flags.matched.empty() && flags.teacher.empty()) fail("--match is for layers of --teacher, which is not given");
  if (flags.fresh && adapter) fail("--fresh is for --mode full: an adapter begins with the model as it is");
  if (flags.rank > 0 && !flags.max_size.empty())
    fail("--rank sets every layer's rank: --max-size has no effect with it");
}

}  // namespace sparkpilot::cli
