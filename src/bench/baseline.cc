#include "bench/baseline.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/facts.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr size_t kMostModels = 1000, kMostRepeats = 1000;

std::string text_of(const Json& value) {
  constexpr size_t kLongest = 200;
  std::string text = json_text(value);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// Names the file and the place in every error.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Baseline read(const std::string& text) const {
    const Json document = parse(text);
    if (!document.is_object() || document.value("format", Json()) != kBenchFormat) {
      fail("{}: expected what `sparkpilot bench --json` writes, this is other JSON", name_);
    }
    if (const Json& version = at(document, "", "format_version"); version != kBenchFormatVersion) {
      fail("{}: /format_version: expected {}, got {}", name_, kBenchFormatVersion, text_of(version));
    }
    Baseline out{.file = name_,
                 .machine = object(document, "", "machine"),
                 .versions = object(document, "", "versions"),
                 .models = {}};
    const Json& models = list(document, "", "models", kMostModels);
    if (models.empty()) fail("{}: /models: expected at least one model, got none", name_);
    for (size_t i = 0; i < models.size(); ++i) out.models.push_back(model(models[i], fmt::format("/models/{}", i)));
    return out;
  }

 private:
  Json parse(const std::string& text) const {
    try {
      std::optional<Json> json = parse_bounded(text);
      if (!json) fail("{}: nested deeper than {}", name_, kDeepestJson);
      return std::move(*json);
    } catch (const Json::parse_error& error) {
      if (text.find_first_not_of(" \t\r\n") == std::string::npos) fail("{}: the file is empty", name_);
      if (error.byte > text.size())
        fail("{}: the file is cut short, it ends in the middle of JSON after {} bytes", name_, text.size());
      fail("{}: no JSON at byte {}", name_, error.byte);
    } catch (const Json::exception&) {
      fail("{}: a number that is too large", name_);
    }
  }

  const Json& at(const Json& json, const std::string& where, const char* key) const {
    if (!json.is_object()) fail("{}: {}: expected an object, got {}", name_, where, json.type_name());
    const auto found = json.find(key);
    if (found == json.end()) fail("{}: {}/{} is missing", name_, where, key);
    return *found;
  }

  const Json& object(const Json& json, const std::string& where, const char* key) const {
    const Json& value = at(json, where, key);
    if (!value.is_object()) fail("{}: {}/{}: expected an object, got {}", name_, where, key, value.type_name());
    return value;
  }

  const Json& list(const Json& json, const std::string& where, const char* key, size_t most) const {
    const Json& value = at(json, where, key);
    if (!value.is_array()) fail("{}: {}/{}: expected a list, got {}", name_, where, key, value.type_name());
    if (value.size() > most) fail("{}: {}/{}: expected at most {}, got {}", name_, where, key, most, value.size());
    return value;
  }

  std::string string(const Json& json, const std::string& where, const char* key) const {
    const Json& value = at(json, where, key);
    if (!value.is_string()) fail("{}: {}/{}: expected a text, got {}", name_, where, key, text_of(value));
    return value.get<std::string>();
  }

  int64_t count(const Json& json, const std::string& where, const char* key) const {
    constexpr int64_t kMost = 1'000'000'000;
    const Json& value = at(json, where, key);
    const int64_t number = value.is_number_integer() ? value.get<int64_t>() : 0;
    if (number < 1 || number > kMost) {
      fail("{}: {}/{}: expected a whole number of 1 or more, got {}", name_, where, key, text_of(value));
    }
    return number;
  }

  BaselineModel model(const Json& json, const std::string& where) const {
    BaselineModel out;
    out.subject = {.file = string(json, where, "file"),
                   .fnv1a_64 = string(json, where, "file_fnv1a_64"),
                   .precision = string(json, where, "precision"),
                   .threads = static_cast<int>(count(json, where, "threads")),
                   .batch = count(json, where, "batch"),
                   .settings = texts_of(object(json, where, "settings"))};
    const Json& choices = list(json, where, "choices", 1'000'000);
    for (size_t i = 0; i < choices.size(); ++i) {
      const std::string choice = fmt::format("{}/choices/{}", where, i);
      out.choices.push_back(
          {.node = string(choices[i], choice, "node"), .kernel = string(choices[i], choice, "kernel")});
    }
    if (!json.contains("repeats")) {
      fail("{}: {} has no repeats: it was measured with --repeats 0, or by a run that was not to be a baseline", name_,
           where);
    }
    const Json& repeats = object(json, where, "repeats");
    const std::string inside = where + "/repeats";
    const Json& yardstick = object(repeats, inside, "yardstick");
    out.yardstick_version = static_cast<int>(count(yardstick, inside + "/yardstick", "version"));
    out.yardstick_code = string(yardstick, inside + "/yardstick", "code");
    const Json& processes = list(repeats, inside, "processes", kMostRepeats);
    for (size_t i = 0; i < processes.size(); ++i) {
      out.repeats.push_back(repeat_from(processes[i], fmt::format("{}: {}/processes/{}", name_, inside, i)));
    }
    return out;
  }

  std::string name_;
};

void compare(std::vector<std::string>& lines, const std::string& what, const Json& expected, const Json& got) {
  if (expected != got) lines.push_back(fmt::format("{}: expected {}, got {}", what, text_of(expected), text_of(got)));
}

// What only the one or the other has is null there.
Json part(const Json& json, const char* key) { return json.value(key, Json()); }

std::string setting(const BenchSubject& subject, const char* key) {
  const auto found = subject.settings.find(key);
  return found == subject.settings.end() ? "null" : found->second;
}

bool nearly_equal(const Json& a, const Json& b) {
  constexpr double kTolerance = 0.05;  // what firmware and kernel keep for themselves
  if (!a.is_number() || !b.is_number()) return a == b;
  return std::abs(a.get<double>() - b.get<double>()) <= kTolerance * std::abs(a.get<double>());
}

}  // namespace

std::map<std::string, std::string> texts_of(const Json& object) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) texts[key] = text_of(value);
  return texts;
}

Baseline parse_baseline(const std::string& text, const std::string& name) { return Reader(name).read(text); }

Baseline read_baseline(const std::filesystem::path& file) {
  return parse_baseline(read_file(file, kMostBytes), file.string());
}

std::vector<std::string> machine_differences(const Baseline& baseline, const Json& here) {
  std::vector<std::string> lines;
  for (const char* key : {"system", "architecture", "processor", "instruction_sets", "logical_processors", "gpus"}) {
    compare(lines, key, part(baseline.machine, key), part(here, key));
  }
  const Json then = part(baseline.machine, "memory_bytes"), now = part(here, "memory_bytes");
  if (!nearly_equal(then, now)) compare(lines, "memory_bytes", then, now);
  compare(lines, "gpu_driver", part(baseline.machine, "gpu_driver"), part(here, "gpu_driver"));
  return lines;
}

std::vector<std::string> machine_notes(const Baseline& baseline, const Json& machine, const Json& versions) {
  std::vector<std::string> lines;
  const auto look = [&](const Json& then, const Json& now, const char* key) {
    if (part(then, key) == part(now, key)) return;
    lines.push_back(
        fmt::format("{}: {} in the baseline, {} now", key, text_of(part(then, key)), text_of(part(now, key))));
  };
  for (const char* key : {"operating_system", "kernel"}) look(baseline.machine, machine, key);
  for (const char* key : {"sparkpilot", "compiler", "onednn"}) look(baseline.versions, versions, key);
  return lines;
}

BaselineMatch find_model(const Baseline& baseline, const BenchSubject& subject) {
  BaselineMatch best;
  for (const BaselineModel& model : baseline.models) {
    const BenchSubject& then = model.subject;
    std::vector<std::string> lines;
    if (then.fnv1a_64 != subject.fnv1a_64) {
      lines.push_back(fmt::format("model: expected {} (FNV-1a {}), got {} ({})", text_of(then.file),
                                  text_of(then.fnv1a_64), text_of(subject.file), text_of(subject.fnv1a_64)));
    }
    compare(lines, "precision", then.precision, subject.precision);
    if (subject.threads) compare(lines, "threads", *then.threads, *subject.threads);
    compare(lines, "batch", then.batch, subject.batch);
    for (const char* key : {"device", "passes_off", "outputs", "dims", "shapes", "seed", "calibration"}) {
      const std::string expected = setting(then, key), got = setting(subject, key);
      if (expected != got) lines.push_back(fmt::format("{}: expected {}, got {}", key, expected, got));
    }
    compare(lines, "yardstick version", model.yardstick_version, kYardstickVersion);
    compare(lines, "yardstick", model.yardstick_code, Yardstick::code());
    // Another model with the same settings is further away than this one with others.
    const auto distance = [](const std::vector<std::string>& of) {
      return of.size() + (!of.empty() && of[0].starts_with("model: ") ? 100 : 0);
    };
    if (!best.model || distance(lines) < distance(best.differences)) best = {&model, std::move(lines)};
  }
  return best;
}

std::vector<std::string> choice_notes(const BaselineModel& model, const BenchSubject& subject,
                                      std::span<const KernelDecision> choices) {
  std::vector<std::string> lines;
  for (const char* key : {"kernels", "tune"}) {
    const std::string then = setting(model.subject, key), now = setting(subject, key);
    if (then != now) lines.push_back(fmt::format("{}: {} in the baseline, {} now", key, then, now));
  }
  std::map<std::string, std::string> kernels;
  for (const KernelDecision& choice : model.choices) kernels[choice.node] = choice.kernel;
  std::map<std::string, int64_t> changes;
  const auto op = [](const std::string& node) { return text_of(node.substr(0, node.find(' '))); };
  for (const KernelDecision& choice : choices) {
    const auto then = kernels.find(choice.node);
    if (then == kernels.end()) {
      ++changes[op(choice.node) + ": not in the baseline"];
    } else if (then->second != choice.kernel) {
      ++changes[fmt::format("{}: kernel {} in the baseline, {} now", op(choice.node), text_of(then->second),
                            text_of(choice.kernel))];
    }
    if (then != kernels.end()) kernels.erase(then);
  }
  for (const auto& [node, kernel] : kernels) ++changes[op(node) + ": only in the baseline"];
  for (const auto& [change, count] : changes) {
    lines.push_back(
        fmt::format("{} ({})", change, count == 1 ? "one kind of node" : fmt::format("{} kinds of nodes", count)));
  }
  return lines;
}

}  // namespace sparkpilot
