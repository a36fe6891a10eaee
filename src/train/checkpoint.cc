#include "train/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/file_hash.h"
#include "base/json.h"
#include "tensor/safetensors.h"

namespace sparkpilot::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int64_t kLargestJson = 64 << 20;
constexpr const char *kJson = "checkpoint.json", *kStates = "states.safetensors";
constexpr std::string_view kPrefix = "update_", kAside = ".aside_";

std::string folder_name(int64_t updates) { return fmt::format("{}{:08}", kPrefix, updates); }

std::string hash_of(const fs::path& file) {
  Fnv hash;
  add_file(hash, file);
  return fmt::format("{:016x}", hash.value());
}

Json to_json(const Checkpoint& c, const std::string& states_hash) {
  const RunProgress& p = c.progress;
  const RunIdentity& i = c.identity;
  Json choices = Json::object();
  for (const auto& [name, decisions] : c.choices) {
    Json list = Json::array();
    for (const KernelDecision& each : decisions) list.push_back({{"node", each.node}, {"kernel", each.kernel}});
    choices[name] = std::move(list);
  }
  return {{"format", "sparkpilot training checkpoint"},
          {"version", kVersion},
          {"progress",
           {{"updates", p.updates},
            {"samples", p.samples},
            {"seconds", p.seconds},
            {"evaluated", p.evaluated},
            {"best", p.best ? Json(*p.best) : Json()},
            {"best_updates", p.best_updates},
            {"evaluations_since", p.evaluations_since}}},
          {"identity",
           {{"seed", i.seed},
            {"batch", i.batch},
            {"micro_batches", i.micro_batches},
            {"threads", i.threads},
            {"processes", i.processes},
            {"precision", i.precision},
            {"base_precision", i.base},
            {"dora_norm", i.norms},
            {"optimizer", i.optimizer},
            {"schedule", i.schedule},
            {"dataset", i.dataset},
            {"validation", i.validation},
            {"target", i.target},
            {"teachers", i.teachers},
            {"model", i.model},
            {"samples", i.samples},
            {"processor", i.processor},
            {"program", i.program}}},
          {"states_fnv", states_hash},
          {"choices", std::move(choices)}};
}

int64_t count(const Json& in, const char* key, int64_t least = 0) {
  const Json& value = in.at(key);
  constexpr int64_t kMost = int64_t{1} << 53;
  if (!value.is_number_integer() || value.get<int64_t>() < least || value.get<int64_t>() > kMost) {
    fail("{} is {}, expected a whole number from {} to {}", key, json_text(value), least, kMost);
  }
  return value.get<int64_t>();
}

Json read_json(const fs::path& checkpoint) {
  Json in;
  const fs::path file = checkpoint / kJson;
  const std::string text = read_file(file, kLargestJson);
  try {
    in = parse_json(text);
    if (in.at("version") != kVersion) fail("version {}, expected {}", json_text(in.at("version")), kVersion);
  } catch (const Json::exception& error) {
    fail("{}: not a checkpoint of training ({})", file.string(), json_fault(error));
  } catch (const Error& error) {
    fail("{}: not a checkpoint of training: {}", file.string(), error.what());
  }
  return in;
}

// A folder that is removed unless it was renamed.
class AsideFolder {
 public:
  explicit AsideFolder(fs::path path) : path_(std::move(path)) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    make_folders(path_);
  }
  ~AsideFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  AsideFolder(const AsideFolder&) = delete;
  AsideFolder& operator=(const AsideFolder&) = delete;

  const fs::path& path() const { return path_; }
  // Takes the name `to`; what had it gets this one, and is removed with the object.
  void rename_to(const fs::path& to) const {
    if (::rename(path_.c_str(), to.c_str()) == 0) return;
    int error = errno;
    if (error == ENOTEMPTY || error == EEXIST) {
      if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
      // A file system that cannot exchange: for a moment neither is there.
      std::error_code ignored;
      fs::remove_all(to, ignored);
      if (::rename(path_.c_str(), to.c_str()) == 0) return;
      error = errno;
    }
    fail("{}: cannot be written: {}", to.string(), std::strerror(error));
  }

 private:
  fs::path path_;
};

}  // namespace

std::vector<std::string> differences(const RunIdentity& now, const RunIdentity& then) {
  std::vector<std::string> out;
  const auto compare = [&](const char* what, const auto& a, const auto& b) {
    if (a != b) out.push_back(fmt::format("{}: {}, was {}", what, a, b));
  };
  compare("seed", now.seed, then.seed);
  compare("batch", now.batch, then.batch);
  compare("number of micro-batches", now.micro_batches, then.micro_batches);
  compare("number of threads", now.threads, then.threads);
  compare("number of processes", now.processes, then.processes);
  compare("precision", now.precision, then.precision);
  compare("precision of frozen weights", now.base, then.base);
  compare("form of DoRA's norms", now.norms, then.norms);
  compare("optimizer", now.optimizer, then.optimizer);
  compare("schedule", now.schedule, then.schedule);
  compare("dataset", now.dataset, then.dataset);
  if (!then.validation.empty()) compare("dataset for validation", now.validation, then.validation);
  if (!then.target.empty()) compare("target", now.target, then.target);
  if (!then.teachers.empty()) compare("teacher", now.teachers, then.teachers);
  if (!then.samples.empty()) compare("way to take samples", now.samples, then.samples);
  compare("processor", now.processor, then.processor);
  compare("program", now.program, then.program);
  return out;
}

bool same_losses(const RunIdentity& now, const RunIdentity& then) {
  return now.dataset == then.dataset && now.base == then.base &&
         (then.validation.empty() || now.validation == then.validation) &&
         (then.target.empty() || now.target == then.target) && (then.teachers.empty() || now.teachers == then.teachers);
}

fs::path save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint, const TrainingProgram& program) {
  make_folders(folder);
  const std::string name = folder_name(checkpoint.progress.updates);
  const AsideFolder aside(folder / (std::string(kAside) + name));
  SafetensorsFile file;
  for (const std::string& state : program.states()) file.tensors.emplace_back(state, program.state(state));
  save_safetensors(aside.path() / kStates, file);
  AtomicFile json(aside.path() / kJson);
  json.write(json_text(to_json(checkpoint, hash_of(aside.path() / kStates)), 1) + "\n");
  json.commit();
  sync_folder(aside.path());  // or after a loss of power the name may stand for empty files
  aside.rename_to(folder / name);
  sync_folder(folder);
  return folder / name;
}

std::map<int64_t, fs::path> find_checkpoints(const fs::path& folder) {
  std::map<int64_t, fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !entry.is_directory(error)) continue;
    int64_t updates = 0;
    const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
    const auto [at, problem] = std::from_chars(begin, end, updates);
    if (problem == std::errc() && at == end && name == folder_name(updates)) out[updates] = entry.path();
  }
  return out;
}

Checkpoint load_checkpoint(const fs::path& checkpoint) {
  const Json in = read_json(checkpoint);
  Checkpoint out;
  const auto fail_here = [&](const char* why) {
    fail("{}: not a checkpoint of training: {}", (checkpoint / kJson).string(), why);
  };
  try {
    const Json &progress = in.at("progress"), &identity = in.at("identity");
    out.progress = {.updates = count(progress, "updates"),
                    .samples = count(progress, "samples"),
                    .seconds = progress.at("seconds").get<double>(),
                    .evaluated = count(progress, "evaluated", -1),
                    .best_updates = count(progress, "best_updates"),
                    .evaluations_since = count(progress, "evaluations_since")};
    if (!progress.at("best").is_null()) out.progress.best = progress.at("best").get<double>();
    if (std::max(out.progress.evaluated, out.progress.best_updates) > out.progress.updates) {
      fail_here("it was evaluated after updates that it has not made");
    }
    if (!identity.at("seed").is_number_unsigned()) fail_here("its seed is no whole number");
    out.identity = {.seed = identity.at("seed").get<uint64_t>(),
                    .batch = count(identity, "batch", 1),
                    .micro_batches = static_cast<int>(std::min<int64_t>(count(identity, "micro_batches", 1), 1 << 30)),
                    .threads = static_cast<int>(std::min<int64_t>(count(identity, "threads", 1), 1 << 30)),
                    .processes = static_cast<int>(std::min<int64_t>(count(identity, "processes", 1), 1 << 30))};
    if (identity.contains("precision")) identity.at("precision").get_to(out.identity.precision);
    if (identity.contains("base_precision")) identity.at("base_precision").get_to(out.identity.base);
    if (identity.contains("dora_norm")) identity.at("dora_norm").get_to(out.identity.norms);
    if (identity.contains("validation")) identity.at("validation").get_to(out.identity.validation);
    if (identity.contains("target")) identity.at("target").get_to(out.identity.target);
    if (identity.contains("teachers")) identity.at("teachers").get_to(out.identity.teachers);
    if (identity.contains("model")) identity.at("model").get_to(out.identity.model);
    if (identity.contains("samples")) identity.at("samples").get_to(out.identity.samples);
    identity.at("optimizer").get_to(out.identity.optimizer);
    identity.at("schedule").get_to(out.identity.schedule);
    identity.at("dataset").get_to(out.identity.dataset);
    identity.at("processor").get_to(out.identity.processor);
    identity.at("program").get_to(out.identity.program);
    for (const auto& [name, decisions] : in.at("choices").items()) {
      for (const Json& each : decisions) {
        out.choices[name].push_back({.node = each.at("node"), .kernel = each.at("kernel"), .by = ChosenBy::restored});
      }
    }
  } catch (const Json::exception& error) {
    fail_here(json_fault(error).c_str());
  } catch (const Error& error) {
    fail_here(error.what());
  }
  return out;
}

void load_states(const fs::path& checkpoint, TrainingProgram& program) {
  const Json in = read_json(checkpoint);
  const fs::path file = checkpoint / kStates;
  const SafetensorsReader reader(file);
  std::set<std::string> missing;
  for (const std::string& state : program.states()) missing.insert(state);
  for (const SafetensorsReader::Entry& entry : reader.entries()) {
    if (missing.erase(entry.name) == 0) fail("{}: has a state \"{}\", the run has none", file.string(), entry.name);
    const Tensor& state = program.state(entry.name);
    if (entry.dtype != state.dtype() || !(entry.shape == state.shape())) {
      fail("{}: state \"{}\" is {}{}, the run's is {}{}", file.string(), entry.name, name(entry.dtype),
           entry.shape.str(), name(state.dtype()), state.shape().str());
    }
  }
  if (!missing.empty()) fail("{}: has no state \"{}\", the run has", file.string(), *missing.begin());
  if (const std::string hash = hash_of(file); !in.contains("states_fnv") || in["states_fnv"] != hash) {
    fail("{}: its bytes are not those that were written (hash {}, {} says {})", file.string(), hash, kJson,
         json_text(in.value("states_fnv", Json())));
  }
  for (const SafetensorsReader::Entry& entry : reader.entries()) {
    reader.read(entry.name, 0, entry.rows(), static_cast<std::byte*>(program.state(entry.name).raw()));
  }
}

// Renamed first: a folder that keeps its name is whole.
void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path aside = checkpoint.parent_path() / (std::string(kAside) + checkpoint.filename().string());
  std::error_code ignored;  // what cannot be removed is only in the way
  fs::remove_all(aside, ignored);
  fs::rename(checkpoint, aside, ignored);
  fs::remove_all(aside, ignored);
}

void drop_checkpoints(const fs::path& folder, int keep, int64_t best) {
  std::map<int64_t, fs::path> all = find_checkpoints(folder);
  for (int i = 0; i < keep && !all.empty(); ++i) all.erase(std::prev(all.end()));
  all.erase(best);
  for (const auto& [updates, path] : all) remove_checkpoint(path);
  std::error_code ignored;
  std::vector<fs::path> left;  // by killed runs
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(kAside)) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, ignored);
}

}  // namespace sparkpilot::train
