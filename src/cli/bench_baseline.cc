#include "cli/bench_baseline.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/facts.h"
#include "bench/report.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "hw/cpu.h"
#include "passes/precision.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string interval(const RatioInterval& time) { return fmt::format("{:.3f} to {:.3f}", time.low, time.high); }

BenchSubject subject_of(const BenchVariant& variant) {
  std::vector<std::filesystem::path> files;
  load_model(variant.file, &files);
  return {.file = variant.file,
          .fnv1a_64 = file_facts(files).fnv1a_64,
          .precision = std::string(name(variant.options.session.passes.precision)),
          .threads = variant.options.threads,
          .batch = variant.options.batch,
          .settings = texts_of(settings_facts(variant.options))};
}

// Otherwise there were too few repeats to tell.
bool has_ratio(const Regression& result) { return result.time.ratio > 0; }

void add_repeats(std::vector<Repeat>& out, size_t variant, const Measured& model, size_t count,
                 const std::function<void()>& done) {
  for (Repeat& repeat : measure_repeats(variant, model, count, done)) out.push_back(std::move(repeat));
}

}  // namespace

double parse_share(const std::string& text, const std::string& flag) {
  const bool percent = text.ends_with('%');
  std::string number = text.substr(0, text.size() - (percent ? 1 : 0));
  while (percent && number.ends_with(' ')) number.pop_back();
  double value = -1;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool is_number = error == std::errc() && stop == number.data() + number.size() && std::isfinite(value);
  if (percent) value /= 100;
  if (!is_number || value < 0 || (!percent && value >= 1)) {
    fail("{}: expected a share such as 5% or 0.05, got \"{}\"", flag, text);
  }
  return value;
}

std::vector<BaselinePair> match_baseline(const Baseline& baseline, std::vector<BenchVariant>& variants) {
  std::vector<std::string> differences = machine_differences(baseline, machine_facts(machine(), cpu_features()));
  const size_t of_machine = differences.size();
  std::vector<BaselinePair> pairs;
  for (BenchVariant& variant : variants) {
    const BaselineMatch match = find_model(baseline, subject_of(variant));
    for (const std::string& line : match.differences) {
      differences.push_back(variants.size() > 1 ? fmt::format("{}: {}", variant.name, line) : line);
    }
    pairs.push_back({.then = match.model});
    if (!variant.options.threads) {
      const int threads = match.model->subject.threads.value_or(0);
      const std::string wrong = threads_refusal(std::to_string(threads));
      if (!wrong.empty()) fail("{}: {} threads: {}", baseline.file, threads, wrong);
      variant.options.threads = threads;
    }
  }
  for (const std::string& line : differences) note(fmt::format("{}: {}", baseline.file, line));
  if (!differences.empty()) {
    fail("{}: this baseline is of {}: {} differ{}, nothing was compared", baseline.file,
         of_machine == 0                    ? "another model or other settings"
         : of_machine == differences.size() ? "another machine"
                                            : "another machine, and another model or other settings",
         count_of(std::ssize(differences), "thing"), differences.size() == 1 ? "s" : "");
  }
  return pairs;
}

size_t record_repeats(std::vector<Repeat>& out, size_t variant, const Measured& model, size_t repeats,
                      const std::function<void()>& done) {
  size_t good = 0;
  for (size_t look = 0; look < kMostLooks && good * 2 < repeats; ++look) {
    add_repeats(out, variant, model, look == 0 ? repeats : (repeats + 1) / 2, done);
    good = undisturbed(out);
  }
  return good;
}

void hold_against(std::vector<BaselinePair>& pairs, const std::vector<Measured>& models, size_t repeats,
                  double max_regression, const std::function<void(size_t model)>& done) {
  for (size_t i = 0; i < pairs.size(); ++i) {
    BaselinePair& pair = pairs[i];
    for (size_t look = 0; look < kMostLooks && pair.result.verdict == Verdict::cannot_tell; ++look) {
      add_repeats(pair.repeats, i, models[i], look == 0 ? repeats : (repeats + 1) / 2, [&] { done(i); });
      pair.result = compare_repeats(pair.repeats, pair.then->repeats, max_regression);
      if (pair.result.used_then < kLeastRepeats) break;  // more repeats now do not help
    }
    pair.notes =
        choice_notes(*pair.then, {.settings = texts_of(settings_facts(models[i].options))}, models[i].bench.choices);
  }
}

Json to_json(const BaselinePair& pair, double max_regression) {
  const Regression& result = pair.result;
  const auto known = [&](double share) { return has_ratio(result) ? finite_or_null(share) : Json(); };
  Json machine = Json::array();
  for (const MachineSpeed& speed : result.machine) {
    machine.push_back({{"part", speed.part}, {"then_ms", speed.then_ms}, {"now_ms", speed.now_ms}});
  }
  return {{"verdict", name(result.verdict)},
          {"max_regression", max_regression},
          {"time_ratio",
           {{"ratio", known(result.time.ratio)},
            {"low", known(result.time.low)},
            {"high", known(result.time.high)},
            {"confidence", kLookConfidence}}},
          {"repeats_then", result.repeats_then},
          {"used_then", result.used_then},
          {"repeats_now", result.repeats_now},
          {"used_now", result.used_now},
          {"machine", std::move(machine)},
          {"doubts", result.doubts},
          {"notes", pair.notes}};
}

std::string baseline_table(const Baseline& baseline, const std::vector<BenchVariant>& variants,
                           const std::vector<BaselinePair>& pairs, double max_regression) {
  Table table({fmt::format("against {}", baseline.file), "time", fmt::format("{:.4g} %", kLookConfidence * 100),
               "allowed", "repeats", "then", "verdict"});
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Regression& result = pairs[i].result;
    const bool any = has_ratio(result);
    table.add({variants[i].name, any ? fmt::format("{:.3f}", result.time.ratio) : "-",
               any ? interval(result.time) : "-", fmt::format("{:.3f}", 1 + max_regression),
               fmt::format("{} of {}", result.used_now, result.repeats_now),
               fmt::format("{} of {}", result.used_then, result.repeats_then), words_of(result.verdict)});
  }
  return table.str();
}

int baseline_outcome(const std::vector<BenchVariant>& variants, const std::vector<BaselinePair>& pairs,
                     double max_regression, bool quiet) {
  constexpr size_t kMostNotes = 8;
  bool slower = false;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const BaselinePair& pair = pairs[i];
    const std::string& model = variants[i].name;
    for (size_t n = 0; n < pair.notes.size() && !quiet; ++n) {
      if (n == kMostNotes) {
        note(fmt::format("{}: and {} more; --json has all of them", model, pair.notes.size() - n));
        break;
      }
      note(fmt::format("{}: {}", model, pair.notes[n]));
    }
    const Regression& result = pair.result;
    for (const std::string& doubt : result.doubts) note(fmt::format("{}: cannot tell: {}", model, doubt));
    if (result.verdict == Verdict::cannot_tell && result.doubts.empty()) {
      note(fmt::format("{}: cannot tell: the allowed {:.3f} lies within {}", model, 1 + max_regression,
                       interval(result.time)));
    }
    if (result.verdict != Verdict::regression) continue;
    slower = true;
    note(fmt::format("{}: slower: its time is {:.3f} times the baseline's ({}), allowed {:.3f}", model,
                     result.time.ratio, interval(result.time), 1 + max_regression));
  }
  return slower ? kCheckFailed : kDone;
}

}  // namespace sparkpilot::cli
